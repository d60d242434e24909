//! A worker's connection that does not outlive the server by more than a moment.
//!
//! HTTP/2 takes its leave in several steps, each of them the peer's turn. One that never begins, or never answers, would
//! hold a gateway's drain up for as long as it likes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// How long after the end of a server its connections may take their leave.
pub const GRACE: Duration = Duration::from_secs(1);

/// A socket that ends soon after its server does.
pub(super) struct Connection {
    socket: TcpStream,
    /// Done when the socket is to be cut.
    cut: BoxFuture<'static, ()>,
    is_cut: bool,
}

impl Connection {
    pub(super) fn new(socket: TcpStream, stop: &CancellationToken) -> Self {
        let stopped = stop.clone().cancelled_owned();
        let cut = Box::pin(async move {
            stopped.await;
            tokio::time::sleep(GRACE).await;
        });
        Self { socket, cut, is_cut: false }
    }

    fn poll_cut(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if !self.is_cut {
            ready!(self.cut.as_mut().poll(cx));
            self.is_cut = true;
        }
        Poll::Ready(io::ErrorKind::ConnectionAborted.into())
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(error) = self.poll_cut(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.socket).poll_read(cx, into)
    }
}

// Whoever writes also reads, so that a cut is noticed there.
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
