//! Connection with a forced close: it outlives the server by at most [`GRACE`].
//!
//! HTTP/2's graceful shutdown waits for the peer in several steps. A silent peer would delay a gateway's drain without bound.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// Time for a graceful shutdown after the server's end.
const GRACE: Duration = Duration::from_secs(1);

/// A socket that closes soon after its server stops.
pub(super) struct Connection {
    socket: TcpStream,
    /// Ready when the socket is to be closed.
    deadline: BoxFuture<'static, ()>,
    is_closed: bool,
}

impl Connection {
    pub(super) fn new(socket: TcpStream, stop: &CancellationToken) -> Self {
        let stopped = stop.clone().cancelled_owned();
        let deadline = Box::pin(async move {
            stopped.await;
            tokio::time::sleep(GRACE).await;
        });
        Self { socket, deadline, is_closed: false }
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        if !self.is_closed {
            ready!(self.deadline.as_mut().poll(cx));
            self.is_closed = true;
        }
        Poll::Ready(io::ErrorKind::ConnectionAborted.into())
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(error) = self.poll_closed(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.socket).poll_read(cx, into)
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
