//! Connection with a forced close: it outlives the server by at most [`GRACE`], and says what it is within [`PREFACE_TIMEOUT`].
//!
//! HTTP/2's graceful shutdown waits for the peer in several steps, and its keep-alive begins when the peer has spoken. A silent
//! peer would delay a gateway's drain without bound, and take one of its connections for as long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Time for a graceful shutdown after the server's end.
const GRACE: Duration = Duration::from_secs(1);
/// Time for the bytes that every HTTP/2 connection begins with.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many they are.
const PREFACE_BYTES: usize = 24;

/// A socket that closes soon after its server stops.
pub(super) struct Connection {
    socket: TcpStream,
    /// Ready when the socket is to be closed.
    deadline: BoxFuture<'static, ()>,
    is_closed: bool,
    /// Ready when the preface is late; none once it is here.
    preface: Option<BoxFuture<'static, ()>>,
    received: usize,
    /// Its place among the connections.
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    pub(super) fn new(socket: TcpStream, permit: OwnedSemaphorePermit, stop: &CancellationToken) -> Self {
        let stopped = stop.clone().cancelled_owned();
        let deadline = Box::pin(async move {
            stopped.await;
            tokio::time::sleep(GRACE).await;
        });
        let preface: BoxFuture<'static, ()> = Box::pin(tokio::time::sleep(PREFACE_TIMEOUT));
        Self { socket, deadline, is_closed: false, preface: Some(preface), received: 0, _permit: permit }
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let is_late = self.preface.as_mut().is_some_and(|preface| preface.as_mut().poll(cx).is_ready());
        if !self.is_closed && !is_late {
            ready!(self.deadline.as_mut().poll(cx));
        }
        (self.is_closed, self.preface) = (true, None);
        Poll::Ready(io::ErrorKind::ConnectionAborted.into())
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(error) = self.poll_closed(cx) {
            return Poll::Ready(Err(error));
        }
        let before = into.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, into))?;
        self.received = self.received.saturating_add(into.filled().len() - before);
        if self.received >= PREFACE_BYTES {
            self.preface = None;
        }
        Poll::Ready(Ok(()))
    }
}

// Every writer also reads, so a forced close is noticed there.
impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.socket.connect_info()
    }
}
