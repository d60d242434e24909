//! A loopback port that stays ours while nobody listens on it.
//!
//! A pod that dies and comes back has to find its ports free. So while no socket listens on a port, a socket that is only
//! bound holds it: whoever connects is refused, and no other program gets it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use tokio::net::TcpSocket;

/// A port of this process.
#[derive(Debug)]
pub(super) struct Port {
    address: SocketAddr,
    /// None while somebody listens.
    held: Option<TcpSocket>,
}

impl Port {
    /// Any free port of the loopback interface.
    pub(super) fn any() -> io::Result<Self> {
        let socket = bound(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        Ok(Self { address: socket.local_addr()?, held: Some(socket) })
    }

    /// A listener on the port.
    pub(super) fn listen(&mut self) -> io::Result<TcpListener> {
        let socket = self.held.take().map_or_else(|| bound(self.address), Ok)?;
        socket.listen(BACKLOG)?.into_std()
    }

    /// Holds the port, after its listener was closed.
    pub(super) fn hold(&mut self) -> io::Result<()> {
        self.held = Some(bound(self.address)?);
        Ok(())
    }

    /// As ZeroMQ calls it.
    pub(super) fn endpoint(&self) -> String {
        format!("tcp://{}", self.address)
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Connections of the listener before this one may linger.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

const BACKLOG: u32 = 128;

#[cfg(test)]
mod tests {
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn a_held_port_refuses_and_can_be_listened_on_again() {
        let mut port = Port::any().unwrap();
        let address = port.address;
        for _ in 0..3 {
            assert!(TcpStream::connect(address).await.is_err());
            let listener = port.listen().unwrap();
            drop(TcpStream::connect(address).await.unwrap());
            drop(listener);
            port.hold().unwrap();
        }
    }
}
