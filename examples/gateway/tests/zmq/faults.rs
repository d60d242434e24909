//! What is lost, doubled, swapped and hidden on the way.

use pointsman_engine_sim::Fault;
use pointsman_reporter::source_status::SourceState;

use crate::fixture::{Gateway, Source, end};

/// A source whose follower is up to date, and has heard something live.
async fn running(seed: u64, replay_batches: usize) -> (Source, Gateway) {
    let mut source = Source::new(seed, replay_batches).await;
    let gateway = Gateway::follow(source.endpoints());
    source.steps(20);
    gateway.agrees(&source, "the first steps").await;
    (source, gateway)
}

#[tokio::test]
async fn what_is_published_is_in_the_index() {
    let (mut source, gateway) = running(1, 1_000).await;
    for round in 0..5 {
        source.steps(30);
        gateway.agrees(&source, &format!("round {round}")).await;
    }
    source.clear();
    gateway.agrees(&source, "everything was cleared").await;
    source.steps(10);
    gateway.agrees(&source, "more steps").await;
    gateway.until("live", |view| view.state == SourceState::Live).await;
    let view = gateway.view();
    assert_eq!((view.batches, view.lost, view.errors), (181, 0, 0), "{view:?}");
    end(source, gateway).await;
}

#[tokio::test]
async fn what_is_dropped_is_replayed() {
    let (mut source, gateway) = running(2, 1_000).await;
    source.fault(Fault::DropEvents(3));
    source.steps(5);
    gateway.agrees(&source, "three of five steps were dropped").await;
    assert_eq!(gateway.view().lost, 0);
    end(source, gateway).await;
}

/// No later batch shows that it is missing: silence has to.
#[tokio::test]
async fn the_last_batch_is_missed_too() {
    let (mut source, gateway) = running(3, 1_000).await;
    for round in 0..3 {
        source.fault(Fault::DropEvents(1));
        source.steps(1);
        gateway.agrees(&source, &format!("the last batch was dropped, round {round}")).await;
    }
    source.fault(Fault::ReorderEvents);
    source.steps(1);
    gateway.agrees(&source, "the last batch waits for one after it").await;
    assert_eq!(gateway.view().lost, 0);
    end(source, gateway).await;
}

#[tokio::test]
async fn what_comes_twice_counts_once() {
    let (mut source, gateway) = running(4, 1_000).await;
    let before = gateway.view().duplicates;
    source.fault(Fault::DuplicateEvents(10));
    source.steps(12);
    gateway.agrees(&source, "ten of twelve steps came twice").await;
    gateway.until("the second ones were seen", |view| view.duplicates >= before + 10).await;
    gateway.agrees(&source, "the second ones were seen").await;
    end(source, gateway).await;
}

#[tokio::test]
async fn what_comes_in_the_wrong_order_is_put_right() {
    let (mut source, gateway) = running(5, 1_000).await;
    for round in 0..5 {
        source.fault(Fault::ReorderEvents);
        source.steps(4);
        gateway.agrees(&source, &format!("two steps were swapped, round {round}")).await;
    }
    let view = gateway.view();
    assert!(view.gaps >= 5 && view.lost == 0, "{view:?}");
    end(source, gateway).await;
}

/// However long it lasts: neither what was known nor what happened meanwhile is lost.
#[tokio::test]
async fn a_partition_costs_nothing() {
    let (mut source, gateway) = running(6, 1_000).await;
    // A gap is known and asked for when it begins.
    source.fault(Fault::DropEvents(1));
    source.steps(2);
    source.fault(Fault::PartitionEvents);
    source.steps(40);
    let asked = gateway.view().replays;
    gateway.until("asks went unanswered", |view| view.replays >= asked + 4).await;
    assert_ne!(gateway.index.digest(gateway.pod), Ok(source.engine.digest()));
    assert_ne!(gateway.view().state, SourceState::Live);
    source.fault(Fault::Recover);
    gateway.agrees(&source, "the partition was over").await;
    source.steps(5);
    gateway.agrees(&source, "more steps").await;
    gateway.until("live", |view| view.state == SourceState::Live).await;
    assert_eq!(gateway.view().lost, 0);
    end(source, gateway).await;
}

/// The engine kept too little: what was known cannot be trusted, and what it announces from then on counts.
#[tokio::test]
async fn a_gap_that_cannot_be_replayed_costs_what_was_known() {
    let (mut source, gateway) = running(7, 25).await;
    source.fault(Fault::PartitionEvents);
    source.steps(60);
    source.fault(Fault::Recover);
    source.steps(1);
    gateway.until("the gap was given up", |view| view.lost == 1).await;
    source.clear();
    gateway.agrees(&source, "everything was cleared").await;
    source.steps(3);
    gateway.agrees(&source, "more steps").await;
    end(source, gateway).await;
}
