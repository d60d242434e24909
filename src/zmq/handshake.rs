//! ZMTP handshake, sans-IO: the greeting of 64 bytes, and the READY command of the NULL mechanism.

use std::fmt;

use super::error::ZmqError;

/// Our side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SocketType {
    /// Subscribes to a PUB or XPUB socket.
    Sub,
    /// Asks a ROUTER socket.
    Dealer,
}

impl SocketType {
    fn name(self) -> &'static str {
        match self {
            Self::Sub => "SUB",
            Self::Dealer => "DEALER",
        }
    }

    /// Whether a peer of this type makes sense.
    fn fits(self, peer: &[u8]) -> bool {
        match self {
            Self::Sub => matches!(peer, b"PUB" | b"XPUB"),
            Self::Dealer => matches!(peer, b"ROUTER" | b"DEALER" | b"REP"),
        }
    }
}

impl fmt::Display for SocketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes of a greeting.
pub(super) const GREETING: usize = 64;

/// Our greeting: ZMTP 3.1, mechanism NULL.
pub(super) fn greeting() -> [u8; GREETING] {
    let mut greeting = [0; GREETING];
    (greeting[0], greeting[9]) = (0xff, 0x7f);
    greeting[10..12].copy_from_slice(&[3, 1]);
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

/// Checks as much of a peer's greeting as has come. Returns its minor version once that is all of it.
///
/// What is no greeting is noticed by its first bytes: another server may wait for ours.
pub(super) fn check_greeting(bytes: &[u8]) -> Result<Option<u8>, ZmqError> {
    let at = |place: usize| bytes.get(place).copied();
    // The eight bytes between the two are padding, which old peers use as a length.
    if at(0).is_some_and(|byte| byte != 0xff) || at(9).is_some_and(|byte| byte & 1 == 0) {
        return Err(ZmqError::NotZmtp);
    }
    if let Some(major) = at(10).filter(|major| *major < 3) {
        return Err(ZmqError::Version { major });
    }
    let Some(greeting) = bytes.get(..GREETING) else { return Ok(None) };
    let mechanism = &greeting[12..32];
    if mechanism[..4] != *b"NULL" || mechanism[4..].iter().any(|byte| *byte != 0) {
        return Err(ZmqError::Mechanism);
    }
    Ok(at(11))
}

/// The body of our READY command.
pub(super) fn ready(ours: SocketType) -> Vec<u8> {
    let name = ours.name();
    let mut body = b"\x05READY\x0bSocket-Type".to_vec();
    body.extend((name.len() as u32).to_be_bytes());
    body.extend(name.as_bytes());
    if ours == SocketType::Dealer {
        body.extend(b"\x08Identity\0\0\0\0");
    }
    body
}

/// Checks the peer's answer to it.
pub(super) fn check_ready(ours: SocketType, command: &[u8]) -> Result<(), ZmqError> {
    let (name, mut properties) = split_name(command).ok_or(ZmqError::Handshake)?;
    match name {
        b"READY" => {}
        b"ERROR" => return Err(ZmqError::Refused),
        _ => return Err(ZmqError::Handshake),
    }
    let mut peer = None;
    while !properties.is_empty() {
        let (name, rest) = split_name(properties).ok_or(ZmqError::Handshake)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or(ZmqError::Handshake)?;
        let length = u32::from_be_bytes(*length) as usize;
        let (value, rest) = rest.split_at_checked(length).ok_or(ZmqError::Handshake)?;
        if name.eq_ignore_ascii_case(b"Socket-Type") {
            peer = Some(value);
        }
        properties = rest;
    }
    match peer {
        Some(peer) if ours.fits(peer) => Ok(()),
        Some(_) => Err(ZmqError::SocketType { ours }),
        None => Err(ZmqError::Handshake),
    }
}

/// A command of the established connection, as far as it concerns us.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command<'a> {
    /// With the context that is to be sent back.
    Ping(&'a [u8]),
    Error,
    Other,
}

impl<'a> Command<'a> {
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, ZmqError> {
        match split_name(body).ok_or(ZmqError::Frame)? {
            // Two bytes of time to live, which is the peer's own affair. Sixteen of context at most.
            (b"PING", rest) => match rest.get(2..) {
                Some(context) if context.len() <= 16 => Ok(Self::Ping(context)),
                _ => Err(ZmqError::Frame),
            },
            (b"ERROR", _) => Ok(Self::Error),
            _ => Ok(Self::Other),
        }
    }
}

pub(super) fn pong(context: &[u8]) -> Vec<u8> {
    [b"\x04PONG", context].concat()
}

/// A heartbeat without a context. Its time to live is for the peer: none.
pub(super) fn ping() -> Vec<u8> {
    b"\x04PING\0\0".to_vec()
}

/// A name of one byte of length.
fn split_name(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    rest.split_at_checked(usize::from(*length)).filter(|(name, _)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_greeting_is_known_by_its_first_bytes() {
        assert_eq!(check_greeting(&greeting()), Ok(Some(1)));
        for length in 0..GREETING {
            assert_eq!(check_greeting(&greeting()[..length]), Ok(None), "{length} bytes");
        }
        assert_eq!(check_greeting(b"HTTP/1.1"), Err(ZmqError::NotZmtp));
        assert_eq!(check_greeting(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1]), Err(ZmqError::Version { major: 1 }));
        let mut curve = greeting();
        curve[12..17].copy_from_slice(b"CURVE");
        assert_eq!(check_greeting(&curve), Err(ZmqError::Mechanism));
    }

    #[test]
    fn sockets_that_cannot_talk_are_told_apart() {
        let ready = |name: &str| {
            let length = (name.len() as u32).to_be_bytes();
            [b"\x05READY\x0bsocket-type", &length[..], name.as_bytes(), b"\x01X\0\0\0\x01y"].concat()
        };
        assert_eq!(check_ready(SocketType::Sub, &ready("PUB")), Ok(()));
        assert_eq!(check_ready(SocketType::Dealer, &ready("ROUTER")), Ok(()));
        let swapped = Err(ZmqError::SocketType { ours: SocketType::Sub });
        assert_eq!(check_ready(SocketType::Sub, &ready("ROUTER")), swapped);
        assert_eq!(check_ready(SocketType::Sub, b"\x05READY"), Err(ZmqError::Handshake));
        assert_eq!(check_ready(SocketType::Sub, b"\x05ERROR\x04busy"), Err(ZmqError::Refused));
        assert_eq!(check_ready(SocketType::Sub, &super::ready(SocketType::Dealer)), swapped);
    }

    #[test]
    fn a_ping_is_answered_with_its_context() {
        assert_eq!(Command::parse(b"\x04PING\0\x0acontext"), Ok(Command::Ping(b"context")));
        assert_eq!(pong(b"context"), b"\x04PONGcontext");
        assert_eq!(Command::parse(&[&b"\x04PING\0\0"[..], &[0; 17]].concat()), Err(ZmqError::Frame));
        assert_eq!(Command::parse(b"\x04PING\0"), Err(ZmqError::Frame));
        assert_eq!(Command::parse(b"\x04PONG"), Ok(Command::Other));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = (check_greeting(&bytes), check_ready(SocketType::Sub, &bytes), Command::parse(&bytes));
        }
    }
}
