//! Shutdown, engines without replay, and dead connections.

use std::time::Duration;

use futures_util::StreamExt;
use pointsman_engine_sim::Fault;
use pointsman_reporter::source_status::SourceState;
use tokio::net::TcpStream;
use tokio::time::timeout;
use zeromq::{PubSocket, Socket, SocketEvent};

use crate::fixture::{Gateway, LONG, Source, end, no_tasks};

#[tokio::test]
async fn without_a_replay_socket_a_gap_costs_what_was_known() {
    let mut source = Source::new(21, 1_000).await;
    let gateway = Gateway::follow(gap_only(&source, None));
    hear(&mut source, &gateway).await;
    source.fault(Fault::DropEvents(1));
    source.steps(2);
    gateway.until("the gap was given up", |view| view.lost == 1).await;
    source.clear();
    source.steps(5);
    gateway.agrees(&source, "everything was cleared").await;
    assert_eq!(gateway.view().replays, 0);
    end(source, gateway).await;
}

/// It publishes and does not replay: after some tries what is missing is given up.
#[tokio::test]
async fn a_replay_socket_that_does_not_answer_is_given_up() {
    let mut source = Source::new(22, 1_000).await;
    let gateway = Gateway::follow(gap_only(&source, Some("tcp://127.0.0.1:1".to_owned())));
    let waits = async {
        while gateway.view().batches == 0 {
            source.steps(1);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, waits).await.expect("something is applied in the end");
    source.clear();
    source.steps(5);
    gateway.agrees(&source, "everything was cleared").await;
    assert_ne!(gateway.view().state, SourceState::Live, "nothing says that nothing is missing");
    end(source, gateway).await;
}

/// A connection that looks alive and brings nothing is made anew, and until then the replays bring everything.
#[tokio::test]
async fn a_dead_subscription_is_made_anew() {
    let mut source = Source::new(23, 1_000).await;
    let mut mute = PubSocket::new();
    let mut monitor = mute.monitor();
    let mut endpoints = source.endpoints();
    endpoints.events = mute.bind("tcp://127.0.0.1:0").await.unwrap().to_string();
    let gateway = Gateway::follow(endpoints);
    let mut accepted = 0;
    let again = async {
        while accepted < 3 {
            if let SocketEvent::Accepted(..) = monitor.next().await.unwrap() {
                accepted += 1;
                source.steps(3);
                gateway.agrees(&source, "nothing came live").await;
                source.steps(3);
                gateway.agrees(&source, "nothing came live in silence").await;
            }
        }
    };
    timeout(LONG, again).await.expect("it connects again");
    gateway.stop().await;
    source.handle.stop().await;
    drop(mute);
    no_tasks().await;
}

#[tokio::test]
async fn a_retired_pod_is_not_followed_any_longer() {
    let source = Source::new(24, 10).await;
    let gateway = Gateway::follow(source.endpoints());
    gateway.until("live", |view| view.state == SourceState::Live).await;
    assert!(gateway.index.retire(gateway.pod));
    timeout(LONG, gateway.task).await.expect("it ends").unwrap();
    source.handle.stop().await;
    no_tasks().await;
}

#[tokio::test]
async fn following_can_be_cut_short_at_any_time() {
    let mut source = Source::new(25, 1_000).await;
    source.steps(500);
    for wait in [0, 1, 2, 5, 10, 20, 50] {
        let [stopped, dropped] = [(); 2].map(|()| Gateway::follow(source.endpoints()));
        tokio::time::sleep(Duration::from_millis(wait)).await;
        stopped.stop().await;
        dropped.task.abort();
    }
    let addresses = [source.handle.endpoints().events.clone(), source.handle.endpoints().replay.clone()];
    source.handle.stop().await;
    no_tasks().await;
    for address in addresses {
        assert!(TcpStream::connect(address.trim_start_matches("tcp://")).await.is_err(), "{address} is still open");
    }
}

fn gap_only(source: &Source, replay: Option<String>) -> pointsman_gateway::config::ZmqEndpoints {
    let mut endpoints = source.endpoints();
    endpoints.replay = replay;
    endpoints
}

/// Publishes until something arrives: without a replay the first batches may be lost on nobody.
async fn hear(source: &mut Source, gateway: &Gateway) {
    let heard = async {
        while gateway.view().batches == 0 {
            source.clear();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, heard).await.expect("something is heard");
    source.steps(5);
    gateway.agrees(source, "the first steps").await;
}
