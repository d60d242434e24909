//! A TCP port that stays reserved while its listener is closed.
//!
//! A pod that dies and comes back has to find its ports free. So a socket that is only bound keeps each of them: while no
//! other listens, whoever connects is refused, and no other program gets it, not even for a moment.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

/// A port of this process.
#[derive(Debug)]
pub(super) struct ReservedPort {
    kept: TcpSocket,
}

impl ReservedPort {
    /// Takes a port. Number 0 is any free one.
    pub(super) fn at(address: SocketAddr) -> io::Result<Self> {
        if address.port() != 0 {
            // Another pod would share it gladly; to have it alone is refused while somebody listens.
            drop(bind(address, Share::Nobody)?);
        }
        Ok(Self { kept: bind(address, Share::OurOwn)? })
    }

    /// A listener on the port.
    pub(super) fn listen(&self) -> io::Result<TcpListener> {
        bind(self.address()?, Share::OurOwn)?.listen(BACKLOG)
    }

    /// Its number, and where.
    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.kept.local_addr()
    }
}

/// With whom a port is bound at the same time.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Share {
    Nobody,
    OurOwn,
}

fn bind(address: SocketAddr, share: Share) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // Connections of an earlier listener may linger.
    socket.set_reuseaddr(true)?;
    #[cfg(unix)]
    if share == Share::OurOwn {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    Ok(socket)
}

/// Connections that may come in before they are taken.
const BACKLOG: u32 = 1024;

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    fn any() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[tokio::test]
    async fn a_kept_port_refuses_and_can_be_listened_on_again() {
        let port = ReservedPort::at(any()).unwrap();
        let address = port.address().unwrap();
        for _ in 0..3 {
            assert!(TcpStream::connect(address).await.is_err());
            let listener = port.listen().unwrap();
            drop(TcpStream::connect(address).await.unwrap());
            drop(listener);
        }
    }

    #[tokio::test]
    async fn a_port_that_is_listened_on_is_taken() {
        let port = ReservedPort::at(any()).unwrap();
        let _listener = port.listen().unwrap();
        let error = ReservedPort::at(port.address().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn nobody_else_gets_a_port_that_is_only_kept() {
        let port = ReservedPort::at(any()).unwrap();
        let address = port.address().unwrap();
        let other = TcpSocket::new_v4().unwrap();
        assert!(other.bind(address).is_err());
    }
}
