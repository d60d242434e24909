//! Handshake, heartbeats and bounds of a connection, against a peer that is a pipe.
#![allow(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::future::poll_fn;

use tokio::io::{DuplexStream, duplex};

use super::*;

fn config() -> ConnectionConfig {
    ConnectionConfig { limits: Limits { max_message_bytes: 100, max_frames: 3 }, ..ConnectionConfig::default() }
}

/// A connection, and the peer's end of it after the handshake.
async fn pair(minor: u8) -> (Connection, DuplexStream) {
    let (ours, mut theirs) = duplex(1 << 16);
    let first = vec![b"\x01topic".to_vec()];
    let mut greeting = handshake::greeting();
    greeting[11] = minor;
    let mut hello = greeting.to_vec();
    encode_command(b"\x05READY\x0bSocket-Type\0\0\0\x03PUB", &mut hello);
    theirs.write_all(&hello).await.unwrap();
    let connection = Connection::establish(Box::new(ours), SocketType::Sub, &first, config()).await.unwrap();
    let mut expected = handshake::greeting().to_vec();
    encode_command(&handshake::ready(SocketType::Sub), &mut expected);
    encode_message(&first, &mut expected);
    let mut said = vec![0; expected.len()];
    theirs.read_exact(&mut said).await.unwrap();
    assert_eq!(said, expected);
    (connection, theirs)
}

async fn next(connection: &mut Connection) -> Result<Frames, ZmqError> {
    poll_fn(|cx| connection.poll_message(cx)).await
}

#[tokio::test(start_paused = true)]
async fn messages_arrive_and_pings_are_answered() {
    let (mut connection, mut peer) = pair(1).await;
    let mut bytes = Vec::new();
    encode_command(b"\x04PING\0\x01ctx", &mut bytes);
    encode_message(&[&b"a"[..], b"b"], &mut bytes);
    peer.write_all(&bytes).await.unwrap();
    assert_eq!(next(&mut connection).await, Ok(vec![b"a".to_vec(), b"b".to_vec()]));
    // What is queued goes out with the next look.
    assert!(timeout(Duration::from_secs(1), next(&mut connection)).await.is_err());
    let mut pong = [0; 10];
    peer.read_exact(&mut pong).await.unwrap();
    assert_eq!(&pong, b"\x04\x08\x04PONGctx");
    drop(peer);
    assert_eq!(next(&mut connection).await, Err(ZmqError::Closed));
}

/// Half a message is kept when receiving is given up and taken up again.
#[tokio::test(start_paused = true)]
async fn receiving_can_be_cancelled_at_any_byte() {
    let (mut connection, mut peer) = pair(0).await;
    let mut bytes = Vec::new();
    encode_message(&[&[7; 60][..], b"b"], &mut bytes);
    for byte in &bytes[..bytes.len() - 1] {
        peer.write_all(&[*byte]).await.unwrap();
        assert!(timeout(Duration::from_millis(1), next(&mut connection)).await.is_err());
    }
    peer.write_all(&bytes[bytes.len() - 1..]).await.unwrap();
    assert_eq!(next(&mut connection).await, Ok(vec![vec![7; 60], b"b".to_vec()]));
}

#[tokio::test(start_paused = true)]
async fn a_peer_without_a_sign_of_life_is_given_up() {
    let (mut connection, mut peer) = pair(1).await;
    let begun = Instant::now();
    assert_eq!(next(&mut connection).await, Err(ZmqError::HeartbeatTimeout));
    assert_eq!(begun.elapsed().as_secs(), 30, "one interval since the handshake, and two in vain");
    let mut pings = [0; 9];
    peer.read_exact(&mut pings).await.unwrap();
    assert_eq!(&pings, b"\x04\x07\x04PING\0\0");
    // An interval beyond the range of time is none.
    assert_eq!(Heartbeat::new(Duration::MAX).interval, LONGEST_INTERVAL);
    // One that does not know heartbeats gets none.
    let (mut connection, _peer) = pair(0).await;
    assert!(timeout(Duration::from_secs(600), next(&mut connection)).await.is_err());
}

/// It sends pings and reads nothing: what is owed to it stays small.
#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_owed_little() {
    let (ours, mut theirs) = duplex(256);
    let mut hello = handshake::greeting().to_vec();
    encode_command(b"\x05READY\x0bSocket-Type\0\0\0\x03PUB", &mut hello);
    theirs.write_all(&hello).await.unwrap();
    let first = vec![b"\x01".to_vec()];
    let mut connection = Connection::establish(Box::new(ours), SocketType::Sub, &first, config()).await.unwrap();
    let mut ping = Vec::new();
    encode_command(b"\x04PING\0\0sixteen bytes...", &mut ping);
    for _ in 0..10_000 {
        theirs.write_all(&ping).await.unwrap();
        assert!(timeout(Duration::from_nanos(1), next(&mut connection)).await.is_err());
    }
    assert!(connection.out.len() < MAX_QUEUED + 64, "{} bytes", connection.out.len());
}

#[tokio::test(start_paused = true)]
async fn a_mute_peer_and_a_wrong_one_are_told_apart() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint: Endpoint = format!("tcp://{}", listener.local_addr().unwrap()).parse().unwrap();
    let opened = open(endpoint, SocketType::Sub, vec![vec![1]], config()).await;
    assert_eq!(opened.err(), Some(ZmqError::HandshakeTimeout));
    for (said, error) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], ZmqError::NotZmtp),
        (&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1], ZmqError::Version { major: 1 }),
        (b"", ZmqError::Closed),
    ] {
        let (ours, mut theirs) = duplex(1 << 10);
        theirs.write_all(said).await.unwrap();
        theirs.shutdown().await.unwrap();
        let opened = Connection::establish(Box::new(ours), SocketType::Sub, &vec![vec![1]], config()).await;
        assert_eq!(opened.err(), Some(error));
    }
}

#[tokio::test(start_paused = true)]
async fn bounds_end_the_connection() {
    for (bytes, error) in [
        (
            [&[2][..], &(1_u64 << 62).to_be_bytes()].concat(),
            ZmqError::MessageTooLarge { announced: 1 << 62, most: 100 },
        ),
        ([1, 0].repeat(4), ZmqError::TooManyFrames { most: 3 }),
        (vec![0x40], ZmqError::Frame),
        (b"\x04\x06\x05ERROR".to_vec(), ZmqError::Refused),
    ] {
        let (mut connection, mut peer) = pair(1).await;
        peer.write_all(&bytes).await.unwrap();
        assert_eq!(next(&mut connection).await, Err(error));
    }
}
