//! Listener: a SUB socket that is bound, to which engines connect their PUB sockets.
//!
//! The rules: of each connection one message is read ahead and no more, so that whoever floods it waits; and a peer that breaks the
//! protocol or its bounds loses its own connection, and nobody else's.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::codec::Frames;
use super::connection::{Connection, ConnectionConfig};
use super::error::ZmqError;
use super::handshake::SocketType;

/// One address for the events of many engines.
///
/// Where a [`Subscriber`](super::Subscriber) goes to an engine, here engines come, and there is nobody to ask for replays. It follows
/// none of them: which pod a message is of is for its owner to say, by the topic for one, and a
/// [`Follower`](kv_index::engine::Follower) for each pod takes it from there.
///
/// Whoever reaches the address may bring events, of any pod: only engines should.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    topic: Box<str>,
    config: ConnectionConfig,
    next: u64,
    /// One task for each connection, which ends with a message.
    reading: JoinSet<(PeerId, Read)>,
}

/// A message, and the connection that may bring more.
type Read = Result<(Connection, Frames), ZmqError>;

/// A connection, among those that there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerId(u64);

/// What happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a message or the end: complete by nature")]
pub enum PeerEvent {
    /// A message came: its frames.
    Message(Vec<Vec<u8>>),
    /// The connection ended, or was none.
    Ended(ZmqError),
}

impl Listener {
    /// Listens at `host:port`, for messages whose topic begins so; empty for all.
    ///
    /// # Errors
    ///
    /// When the address is none, or taken.
    pub async fn bind(address: &str, topic: &str, config: ConnectionConfig) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        Ok(Self { listener, topic: topic.into(), config, next: 0, reading: JoinSet::new() })
    }

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// When the system does not know.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The next event of any connection. Can be cancelled without a loss.
    pub async fn next(&mut self) -> (PeerId, PeerEvent) {
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if self.reading.len() < MOST_PEERS => match accepted {
                    Ok((stream, _)) => self.welcome(stream),
                    // The process lacks what a connection takes, or the peer left already.
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                Some(read) = self.reading.join_next() => match read {
                    Ok((peer, Ok((connection, frames)))) => {
                        self.reading.spawn(async move { (peer, read_from(connection).await) });
                        return (peer, PeerEvent::Message(frames));
                    }
                    Ok((peer, Err(error))) => return (peer, PeerEvent::Ended(error)),
                    // The runtime ends.
                    Err(_) => {}
                },
            }
        }
    }

    fn welcome(&mut self, stream: TcpStream) {
        let (peer, config) = (PeerId(self.next), self.config);
        self.next += 1;
        let subscription = vec![[b"\x01", self.topic.as_bytes()].concat()];
        self.reading.spawn(async move {
            let _ = stream.set_nodelay(true);
            let establishing = Connection::establish(Box::new(stream), SocketType::Sub, &subscription, config);
            let established = timeout(config.handshake_timeout, establishing).await;
            match established.unwrap_or(Err(ZmqError::HandshakeTimeout)) {
                Ok(connection) => (peer, read_from(connection).await),
                Err(error) => (peer, Err(error)),
            }
        });
    }
}

async fn read_from(mut connection: Connection) -> Read {
    let frames = std::future::poll_fn(|cx| connection.poll_message(cx)).await?;
    Ok((connection, frames))
}

/// Connections at a time: more than a fleet has pods.
const MOST_PEERS: usize = 4096;
/// The pause after one could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "what helps a test may stop it")]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::super::codec::{encode_command, encode_message};
    use super::super::handshake;
    use super::*;

    async fn bound() -> (Listener, SocketAddr) {
        let listener = Listener::bind("127.0.0.1:0", "kv@", ConnectionConfig::default()).await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// A publisher that connected, and has these messages to send.
    async fn publisher(to: SocketAddr, messages: &[&[u8]]) -> TcpStream {
        let mut stream = TcpStream::connect(to).await.unwrap();
        let mut bytes = handshake::greeting().to_vec();
        encode_command(b"\x05READY\x0bSocket-Type\0\0\0\x03PUB", &mut bytes);
        messages.iter().for_each(|message| encode_message(&[*message], &mut bytes));
        stream.write_all(&bytes).await.unwrap();
        stream
    }

    #[tokio::test]
    async fn messages_come_with_the_connection_that_brought_them() {
        let (mut listener, address) = bound().await;
        let mut first = publisher(address, &[b"a", b"b"]).await;
        let (peer, event) = listener.next().await;
        assert_eq!(event, PeerEvent::Message(vec![b"a".to_vec()]));
        assert_eq!(listener.next().await, (peer, PeerEvent::Message(vec![b"b".to_vec()])));
        let _second = publisher(address, &[b"c"]).await;
        let (other, event) = listener.next().await;
        assert_eq!(event, PeerEvent::Message(vec![b"c".to_vec()]));
        assert_ne!(peer, other);
        // Each was told what is wanted.
        let mut expected = handshake::greeting().to_vec();
        encode_command(&handshake::ready(SocketType::Sub), &mut expected);
        encode_message(&[b"\x01kv@"], &mut expected);
        let mut said = vec![0; expected.len()];
        first.read_exact(&mut said).await.unwrap();
        assert_eq!(said, expected);
        drop(first);
        assert_eq!(listener.next().await, (peer, PeerEvent::Ended(ZmqError::Closed)));
    }

    #[tokio::test]
    async fn whoever_speaks_something_else_loses_its_own_connection() {
        let (mut listener, address) = bound().await;
        let _good = publisher(address, &[b"a"]).await;
        let (good, _) = listener.next().await;
        let mut bad = TcpStream::connect(address).await.unwrap();
        bad.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        let (peer, event) = listener.next().await;
        assert_eq!(event, PeerEvent::Ended(ZmqError::NotZmtp));
        assert_ne!(peer, good);
        let _another = publisher(address, &[b"b"]).await;
        assert_eq!(listener.next().await.1, PeerEvent::Message(vec![b"b".to_vec()]));
    }
}
