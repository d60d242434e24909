//! The HTTP client for pods: plain, or TLS towards those at `https://`.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body_util::Full;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioIo, TokioTimer};
use routing_exec::adapter::HyperTransport;
use tokio::net::TcpStream;
use tower_service::Service;

use super::config::Config;
use super::error::StartError;
use super::pod_tls::{TlsStream, Wrapper};
use super::tasks::Tasks;

/// The HTTP client for pods.
pub(super) type PodClient = Client<PodConnector, Full<Bytes>>;
/// The transport of the executor.
pub(super) type PodTransport = HyperTransport<PodConnector, Full<Bytes>>;

/// The client as it is configured. Its tasks are the gateway's.
///
/// # Errors
///
/// When a file of the TLS settings cannot be used, or TLS is not compiled in.
pub(super) fn build(config: &Config, tasks: &Tasks) -> Result<PodClient, StartError> {
    let mut http = HttpConnector::new();
    http.set_nodelay(true);
    http.enforce_http(false);
    http.set_connect_timeout(Some(config.timeouts.connect_timeout));
    let timeout = config.timeouts.connect_timeout;
    let connector = PodConnector { http, tls: Wrapper::new(config)?.map(Arc::new), timeout };
    Ok(Client::builder(tasks.clone())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(20))
        .build(connector))
}

/// Connects to pods.
#[derive(Clone)]
pub(super) struct PodConnector {
    http: HttpConnector,
    /// None where neither the configuration nor the program has it.
    tls: Option<Arc<Wrapper>>,
    /// Of a handshake.
    timeout: Duration,
}

impl Service<Uri> for PodConnector {
    type Response = PodStream;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<PodStream, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.http.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (tls, timeout, is_tls) = (self.tls.clone(), self.timeout, uri.scheme_str() == Some("https"));
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let connecting = self.http.call(uri);
        Box::pin(async move {
            let stream = connecting.await?;
            if !is_tls {
                return Ok(PodStream::Plain(stream));
            }
            let tls = tls.ok_or("the pod is at https://, and the gateway is built without the feature `tls`")?;
            let shaken = tokio::time::timeout(timeout, tls.connect(&host, stream.into_inner())).await;
            let stream = shaken.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            Ok(PodStream::Tls(TokioIo::new(Box::new(stream))))
        })
    }
}

/// A connection to a pod.
pub(super) enum PodStream {
    Plain(TokioIo<TcpStream>),
    Tls(TokioIo<Box<TlsStream>>),
}

impl Connection for PodStream {
    fn connected(&self) -> Connected {
        match self {
            Self::Plain(stream) => stream.connected(),
            Self::Tls(_) => Connected::new(),
        }
    }
}

impl Read for PodStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl Write for PodStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }
}
