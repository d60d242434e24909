//! Restarts of engines and gateways, and late starts.

use std::time::Duration;

use kv_index::Digest;
use pointsman_engine_sim::Fault;
use pointsman_engine_sim::events::EventSink;
use tokio::time::sleep;

use crate::fixture::{Gateway, Source, end};

#[tokio::test]
async fn a_gateway_that_starts_late_hears_it_all() {
    let mut source = Source::new(11, 1_000).await;
    source.steps(200);
    let gateway = Gateway::follow(source.endpoints());
    gateway.agrees(&source, "200 steps before the gateway").await;
    source.steps(20);
    gateway.agrees(&source, "20 steps after").await;
    end(source, gateway).await;
}

/// With its snapshot it asks for what it missed, and for nothing else; until it has heard, the pod is out of sight.
#[tokio::test]
async fn a_gateway_that_starts_again_asks_for_what_it_missed() {
    let mut source = Source::new(21, 100_000).await;
    let gateway = Gateway::follow(source.endpoints());
    source.steps(2_000);
    gateway.agrees(&source, "2000 steps").await;
    let snapshot = gateway.index.snapshot();
    gateway.stop().await;
    source.steps(30);
    let again = Gateway::follow_from(&snapshot, source.endpoints());
    again.agrees(&source, "30 steps without a gateway").await;
    let seen = again.until("the pod is in sight", |_| again.index.alive().contains(again.pod.id()));
    seen.await;
    let view = again.view();
    assert!(view.batches <= 30, "{view:?}");
    source.steps(20);
    again.agrees(&source, "20 steps after").await;
    end(source, again).await;
}

/// What the snapshot has is another engine's, which is seen at once, whether the new one has come as far or not.
#[tokio::test]
async fn a_snapshot_of_an_engine_that_is_gone_is_forgotten() {
    for steps in [0, 5, 400] {
        let mut source = Source::new(22 + steps as u64, 100_000).await;
        let gateway = Gateway::follow(source.endpoints());
        source.steps(200);
        gateway.agrees(&source, "200 steps").await;
        let snapshot = gateway.index.snapshot();
        gateway.stop().await;
        source.restart();
        source.steps(steps);
        let again = Gateway::follow_from(&snapshot, source.endpoints());
        assert!(!again.index.alive().contains(again.pod.id()) || again.index.digest(again.pod) == Ok(Digest::EMPTY));
        again.agrees(&source, &format!("a new engine and {steps} steps")).await;
        end(source, again).await;
    }
}

/// While a replay of many batches is under way, as many come live.
#[tokio::test]
async fn what_comes_live_during_a_replay_is_not_lost() {
    let mut source = Source::new(12, 10_000).await;
    source.steps(3_000);
    let gateway = Gateway::follow(source.endpoints());
    for _ in 0..100 {
        source.steps(20);
        sleep(Duration::from_millis(1)).await;
    }
    gateway.agrees(&source, "2000 steps during the replay").await;
    assert_eq!(gateway.view().lost, 0);
    end(source, gateway).await;
}

#[tokio::test]
async fn a_new_life_begins_anew() {
    let mut source = Source::new(13, 1_000).await;
    let gateway = Gateway::follow(source.endpoints());
    for round in 0..4 {
        source.steps(25 - 5 * round);
        gateway.agrees(&source, &format!("life {round}")).await;
        source.restart();
        if round == 2 {
            // Its first batches are lost.
            source.fault(Fault::DropEvents(2));
        }
    }
    source.steps(3);
    gateway.agrees(&source, "the last life").await;
    end(source, gateway).await;
}

/// An engine announces nothing when it starts. That what it held is gone shows only when it is asked.
#[tokio::test]
async fn a_new_life_that_says_nothing_holds_nothing() {
    let mut source = Source::new(14, 1_000).await;
    let gateway = Gateway::follow(source.endpoints());
    source.steps(20);
    gateway.agrees(&source, "some steps").await;
    assert_ne!(source.engine.digest(), Digest::EMPTY);
    source.restart();
    gateway.holds(Digest::EMPTY, "the new life said nothing").await;
    // And its first batch is not missed, even where it does not come live.
    source.fault(Fault::DropEvents(1));
    source.steps(2);
    gateway.agrees(&source, "the new life spoke").await;
    end(source, gateway).await;
}

/// The new life has come further than the old one before it is heard.
#[tokio::test]
async fn a_new_life_that_nobody_saw_begin_is_noticed() {
    let mut source = Source::new(15, 1_000).await;
    let gateway = Gateway::follow(source.endpoints());
    source.steps(10);
    gateway.agrees(&source, "some steps").await;
    source.fault(Fault::PartitionEvents);
    source.restart();
    source.steps(30);
    source.fault(Fault::Recover);
    gateway.agrees(&source, "the partition was over").await;
    end(source, gateway).await;
}

#[tokio::test]
async fn an_engine_that_dies_and_comes_back_is_found_at_the_same_ports() {
    let mut source = Source::new(16, 1_000).await;
    let gateway = Gateway::follow(source.endpoints());
    for round in 0..3 {
        source.steps(20);
        gateway.agrees(&source, &format!("life {round}")).await;
        source.fault(Fault::Die);
        gateway.until("it is noticed", |view| serde_json::to_value(view.state).unwrap() == "connecting").await;
        source.restart();
        if round == 1 {
            // The engine is quicker than its sockets.
            source.steps(5);
        }
        source.fault(Fault::Restart);
        if round == 2 {
            gateway.agrees(&source, "nothing was said in the new life").await;
        }
    }
    source.steps(20);
    gateway.agrees(&source, "the last life").await;
    source.engine.restart();
    source.sink.restarted();
    source.fault(Fault::ChangeHashSeed);
    source.steps(2);
    gateway.agrees(&source, "another hash seed").await;
    end(source, gateway).await;
}

/// A connection that broke may lead to another engine next. Until that is known, nothing is expected of the pod.
#[tokio::test]
async fn a_pod_whose_engine_may_be_another_is_hidden_until_it_is_known() {
    let mut source = Source::new(18, 1_000).await;
    let gateway = Gateway::follow(source.endpoints());
    let is_found = || gateway.index.alive().contains(gateway.pod.id());
    source.steps(20);
    gateway.agrees(&source, "some steps").await;
    for is_another in [false, true] {
        assert!(is_found());
        source.fault(Fault::Die);
        gateway.until("it is noticed", |view| serde_json::to_value(view.state).unwrap() == "connecting").await;
        assert!(!is_found(), "it may be another");
        if is_another {
            source.restart();
        }
        source.fault(Fault::Restart);
        gateway.until("it is known", |_| is_found()).await;
        gateway.agrees(&source, "it is known").await;
    }
    end(source, gateway).await;
}

#[tokio::test]
async fn a_gateway_that_is_there_first_waits() {
    let mut source = Source::new(17, 1_000).await;
    source.fault(Fault::Die);
    let gateway = Gateway::follow(source.endpoints());
    source.steps(5);
    sleep(Duration::from_millis(50)).await;
    source.fault(Fault::Restart);
    gateway.agrees(&source, "the engine came").await;
    end(source, gateway).await;
}
