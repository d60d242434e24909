//! Peers that say nothing, say nonsense, or never come to an end: following goes on, and ends when it is told to.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kv_index::engine::Message;
use pointsman_engine_sim::Fault;
use pointsman_engine_sim::events::CacheEvent;
use pointsman_engine_sim::publish::encode_batch;
use pointsman_gateway::config::ZmqEndpoints;
use pointsman_reporter::source_status::SourceState;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use zeromq::{PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

use crate::fixture::{Gateway, LONG, Source, end, no_tasks};

/// Connections are taken, and nothing is said on them.
#[tokio::test]
async fn a_mute_engine_does_not_hold_up_the_end() {
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("tcp://{}", mute.local_addr().unwrap());
    let mut source = Source::new(31, 100).await;
    source.steps(5);
    let deaf = ZmqEndpoints { events: address.clone(), ..source.endpoints() };
    let unanswered = ZmqEndpoints { replay: Some(address), ..source.endpoints() };
    let followed = [deaf, unanswered].map(Gateway::follow);
    let _taken = [mute.accept().await.unwrap(), mute.accept().await.unwrap()];
    followed[1].until("live or asking", |view| view.state != SourceState::Connecting).await;
    let begun = Instant::now();
    for gateway in followed {
        gateway.stop().await;
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    source.handle.stop().await;
    no_tasks().await;
}

/// What speaks there is no engine: whatever it says, the engine is found when it comes back.
#[tokio::test]
async fn nonsense_is_not_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut source = Source::new(32, 100).await;
    let events = format!("tcp://{}", listener.local_addr().unwrap());
    let gateway = Gateway::follow(ZmqEndpoints { events, ..source.endpoints() });
    for nonsense in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[0xff; 200], &[0; 64], b""] {
        let (mut stream, _) = timeout(LONG, listener.accept()).await.expect("it tries again").unwrap();
        // It may have hung up already.
        let _ = stream.write_all(nonsense).await;
    }
    gateway.until("nonsense is counted", |view| view.errors >= 2).await;
    assert_eq!(gateway.view().batches, 0);
    // The replay socket is the engine's own: it is asked meanwhile.
    source.steps(3);
    gateway.agrees(&source, "replays alone").await;
    assert_eq!(gateway.view().state, SourceState::Connecting);
    end(source, gateway).await;
}

/// Messages that are no batches count as errors and cost nothing.
#[tokio::test]
async fn messages_that_are_no_batches_change_nothing() {
    let mut source = Source::new(33, 100).await;
    source.steps(10);
    let mut publisher = PubSocket::new();
    let events = publisher.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
    let gateway = Gateway::follow(ZmqEndpoints { events, ..source.endpoints() });
    gateway.agrees(&source, "a replay").await;
    let bad: [Vec<Bytes>; 4] = [
        vec![Bytes::from_static(b"kv-events")],
        vec![Bytes::from_static(b"kv-events"), Bytes::from_static(&[1, 2, 3]), Bytes::new()],
        Message { topic: b"kv-events", sequence: 10, payload: b"\xc1" }.to_frames().map(Bytes::from).into(),
        Message { topic: b"kv-events", sequence: 10, payload: &[0x91; 5000] }.to_frames().map(Bytes::from).into(),
    ];
    let said = async {
        while gateway.view().errors < 20 {
            for frames in &bad {
                publisher.send(ZmqMessage::try_from(frames.clone()).unwrap()).await.unwrap();
            }
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LONG, said).await.expect("they are counted");
    source.steps(5);
    gateway.agrees(&source, "nonsense").await;
    assert_eq!(gateway.view().lost, 0);
    gateway.stop().await;
    source.handle.stop().await;
    drop(publisher);
    no_tasks().await;
}

/// A replay that brings one batch after the other for ever is given up and asked for anew; live batches are heard meanwhile.
#[tokio::test]
async fn a_replay_without_an_end_is_broken_off() {
    let source = Source::new(34, 100).await;
    let mut router = RouterSocket::new();
    let replay = router.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
    let gateway = Gateway::follow(ZmqEndpoints { replay: Some(replay), ..source.endpoints() });
    let mut asks = 0;
    let endless = async {
        while asks < 2 {
            let client = router.recv().await.unwrap().into_vec().remove(0);
            asks += 1;
            for sequence in 0_u64.. {
                let payload = encode_batch(1.0 + sequence as f64, &[CacheEvent::Cleared]);
                let [topic, number, payload] =
                    Message { topic: b"kv-events", sequence, payload: &payload }.to_frames().map(Bytes::from);
                let reply = vec![client.clone(), Bytes::new(), topic, number, payload];
                if router.send(ZmqMessage::try_from(reply).unwrap()).await.is_err() {
                    break;
                }
                sleep(Duration::from_millis(5)).await;
            }
        }
    };
    timeout(LONG, endless).await.expect("it is broken off and asked for again");
    source.fault(Fault::Die);
    gateway.stop().await;
    source.handle.stop().await;
    drop(router);
    no_tasks().await;
}
