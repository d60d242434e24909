//! TLS towards a gateway (feature `tls`): the authorities that are trusted, a certificate of the worker's own, the connector.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tower_service::Service;

/// Whom a worker trusts, and who it is. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tls(Arc<ClientConfig>);

/// Why TLS cannot be used. The worker's operator can act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be used.
    #[error("`{path}`: {reason}")]
    File {
        /// Which.
        path: Box<str>,
        /// Why.
        reason: Box<str>,
    },
    /// The gateway's URL is not one of TLS, or the token not one of a header.
    #[error("not `https://host:port` of a gateway and a token: {0}")]
    Url(Box<str>),
}

impl TlsError {
    fn file(path: &Path, reason: &dyn std::fmt::Display) -> Self {
        Self::File { path: path.display().to_string().into(), reason: reason.to_string().into() }
    }
}

impl Tls {
    /// Trusts the authorities in a PEM file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or has none.
    pub fn new(authorities: impl AsRef<Path>) -> Result<Self, TlsError> {
        Self::build(authorities.as_ref(), None)
    }

    /// The same with a certificate of the worker's own and its key, for gateways that ask for one.
    ///
    /// # Errors
    ///
    /// When a file cannot be used.
    pub fn with_certificate(
        authorities: impl AsRef<Path>,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Result<Self, TlsError> {
        Self::build(authorities.as_ref(), Some((certificate.as_ref(), key.as_ref())))
    }

    fn build(authorities: &Path, own: Option<(&Path, &Path)>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities)? {
            roots.add(certificate).map_err(|error| TlsError::file(authorities, &error))?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::file(authorities, &error))?
            .with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let own_key = PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::file(key, &error))?;
                let built = builder.with_client_auth_cert(certificates(certificate)?, own_key);
                built.map_err(|error| TlsError::file(certificate, &error))?
            }
        };
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn connector(&self) -> TlsConnector {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        TlsConnector { tcp, tls: Arc::clone(&self.0).into() }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read.map_err(|error| TlsError::file(path, &error))? {
        none if none.is_empty() => Err(TlsError::file(path, &"there is no certificate in it")),
        some => Ok(some),
    }
}

/// Connects over TLS, and no other way.
#[derive(Clone)]
pub(crate) struct TlsConnector {
    tcp: HttpConnector,
    tls: tokio_rustls::TlsConnector,
}

impl Service<Uri> for TlsConnector {
    type Response = TokioIo<TlsIo>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<TokioIo<TlsIo>>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.tcp.poll_ready(cx).map_err(io::Error::other)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (tls, host) = (self.tls.clone(), uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned());
        let connecting = self.tcp.call(uri);
        Box::pin(async move {
            let name = ServerName::try_from(host).map_err(io::Error::other)?;
            let stream = connecting.await.map_err(io::Error::other)?.into_inner();
            Ok(TokioIo::new(TlsIo(tls.connect(name, stream).await?)))
        })
    }
}

/// A connection of the HTTP client.
pub(crate) struct TlsIo(TlsStream<TcpStream>);

impl Connection for TlsIo {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for TlsIo {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for TlsIo {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
