//! ZMTP connection: connect, shake hands, send the first message, then receive within bounds.
//!
//! The rules: receiving can be cancelled at any time and loses nothing; nothing is spawned; what a peer makes us hold is bounded by
//! [`Limits`], also what is to be sent to one that does not read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::codec::{Decoder, Frames, Item, encode_command, encode_message};
use super::endpoint::{Address, Endpoint};
use super::error::ZmqError;
use super::handshake::{self, Command, GREETING, SocketType};
use super::limits::Limits;

/// Bytes of a socket.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// How connections are made and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionConfig {
    /// Timeout of connecting: 2 s.
    pub connect_timeout: Duration,
    /// Timeout of the handshake, for a peer that accepts and says nothing: 2 s.
    pub handshake_timeout: Duration,
    /// Interval of heartbeats, to peers that know them (ZMTP 3.1, libzmq from 4.3.3 on): 10 s. After two without a sign of life the
    /// connection is given up. None sends none; those of peers are answered in any case.
    pub heartbeat: Option<Duration>,
    /// What a peer may make a connection hold.
    pub limits: Limits,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        let s = Duration::from_secs;
        Self { connect_timeout: s(2), handshake_timeout: s(2), heartbeat: Some(s(10)), limits: Limits::default() }
    }
}

/// An established connection.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    decoder: Decoder,
    /// Bytes that were read, and how many of them were decoded.
    chunk: Box<[u8]>,
    read: usize,
    decoded: usize,
    /// Commands to be sent.
    out: Vec<u8>,
    heartbeat: Option<Heartbeat>,
}

struct Heartbeat {
    interval: Duration,
    heard: bool,
    missed: bool,
    timer: Pin<Box<Sleep>>,
}

/// Connects, shakes hands, and sends the first message: a subscription or a request.
pub(super) async fn open(
    endpoint: Endpoint,
    ours: SocketType,
    first: Frames,
    config: ConnectionConfig,
) -> Result<Connection, ZmqError> {
    let stream = timeout(config.connect_timeout, connect(&endpoint)).await;
    let stream = stream.map_err(|_| ZmqError::ConnectTimeout)??;
    let established = timeout(config.handshake_timeout, Connection::establish(stream, ours, &first, config)).await;
    established.map_err(|_| ZmqError::HandshakeTimeout)?
}

async fn connect(endpoint: &Endpoint) -> io::Result<Box<dyn Stream>> {
    match endpoint.address() {
        Address::Tcp { host, port } => {
            let stream = TcpStream::connect((&**host, *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream))
        }
        #[cfg(unix)]
        Address::Ipc(path) => Ok(Box::new(tokio::net::UnixStream::connect(&**path).await?)),
        #[cfg(not(unix))]
        Address::Ipc(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

impl Connection {
    /// Shakes hands on a stream, and sends the first message.
    pub(super) async fn establish(
        mut stream: Box<dyn Stream>,
        ours: SocketType,
        first: &Frames,
        config: ConnectionConfig,
    ) -> Result<Self, ZmqError> {
        stream.write_all(&handshake::greeting()).await?;
        let minor = read_greeting(&mut stream).await?;
        let mut out = Vec::new();
        encode_command(&handshake::ready(ours), &mut out);
        stream.write_all(&out).await?;
        let heartbeat = config.heartbeat.filter(|_| minor > 0).map(Heartbeat::new);
        let mut connection = Self {
            stream,
            decoder: Decoder::new(config.limits),
            chunk: vec![0; CHUNK].into(),
            read: 0,
            decoded: 0,
            out: Vec::new(),
            heartbeat,
        };
        match std::future::poll_fn(|cx| connection.poll_item(cx)).await? {
            Item::Command(command) => handshake::check_ready(ours, &command)?,
            Item::Message(_) => return Err(ZmqError::Handshake),
        }
        let mut out = Vec::new();
        encode_message(first, &mut out);
        connection.stream.write_all(&out).await?;
        connection.stream.flush().await?;
        Ok(connection)
    }

    /// The next message. Commands are answered on the way.
    pub(super) fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frames, ZmqError>> {
        loop {
            self.poll_heartbeat(cx)?;
            self.poll_send(cx)?;
            match ready!(self.poll_item(cx))? {
                Item::Message(frames) => return Poll::Ready(Ok(frames)),
                Item::Command(command) => match Command::parse(&command)? {
                    Command::Ping(context) => self.queue(&handshake::pong(context)),
                    Command::Error => return Poll::Ready(Err(ZmqError::Refused)),
                    Command::Other => {}
                },
            }
        }
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Result<Item, ZmqError>> {
        loop {
            let mut input = &self.chunk[self.decoded..self.read];
            let item = self.decoder.decode(&mut input)?;
            self.decoded = self.read - input.len();
            if let Some(item) = item {
                return Poll::Ready(Ok(item));
            }
            let mut buffer = ReadBuf::new(&mut self.chunk);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            (self.decoded, self.read) = (0, buffer.filled().len());
            if self.read == 0 {
                return Poll::Ready(Err(ZmqError::Closed));
            }
            self.heartbeat.iter_mut().for_each(|heartbeat| heartbeat.heard = true);
        }
    }

    /// Sends what is queued, as far as the peer takes it.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<(), ZmqError> {
        while !self.out.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.out) {
                Poll::Ready(Ok(0)) => return Err(ZmqError::Closed),
                Poll::Ready(Ok(sent)) => drop(self.out.drain(..sent)),
                Poll::Ready(Err(error)) => return Err(error.into()),
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn poll_heartbeat(&mut self, cx: &mut Context<'_>) -> Result<(), ZmqError> {
        let Some(heartbeat) = &mut self.heartbeat else { return Ok(()) };
        if heartbeat.timer.as_mut().poll(cx).is_pending() {
            return Ok(());
        }
        heartbeat.timer.as_mut().reset(Instant::now() + heartbeat.interval);
        // The new deadline is to be waited for.
        let _ = heartbeat.timer.as_mut().poll(cx);
        if std::mem::take(&mut heartbeat.heard) {
            heartbeat.missed = false;
        } else if std::mem::replace(&mut heartbeat.missed, true) {
            return Err(ZmqError::HeartbeatTimeout);
        }
        self.queue(&handshake::ping());
        Ok(())
    }

    /// Queues a command. A peer that does not read gets no more of them.
    fn queue(&mut self, command: &[u8]) {
        if self.out.len() < MAX_QUEUED {
            encode_command(command, &mut self.out);
        }
    }
}

impl Heartbeat {
    fn new(interval: Duration) -> Self {
        let interval = interval.min(LONGEST_INTERVAL);
        // The handshake was the first sign of life.
        Self { interval, heard: true, missed: false, timer: Box::pin(sleep_until(Instant::now() + interval)) }
    }
}

/// Reads the peer's greeting and not a byte more. Returns its minor version.
async fn read_greeting(stream: &mut Box<dyn Stream>) -> Result<u8, ZmqError> {
    let (mut greeting, mut read) = ([0; GREETING], 0);
    loop {
        if let Some(minor) = handshake::check_greeting(&greeting[..read])? {
            return Ok(minor);
        }
        match stream.read(&mut greeting[read..]).await? {
            0 => return Err(ZmqError::Closed),
            more => read += more,
        }
    }
}

/// Bytes that are read at once. A fleet has as many buffers as connections, so they are small.
const CHUNK: usize = 16 << 10;

/// The longest time between two signs of life, within the range of `Instant`.
const LONGEST_INTERVAL: Duration = Duration::from_secs(365 * 24 * 3600);

/// Bytes of commands that wait for a peer.
const MAX_QUEUED: usize = 1 << 10;

#[cfg(test)]
mod tests;
