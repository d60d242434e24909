//! Fault injection in random order, by seed: in the end the index equals the cache.

use std::time::Duration;

use pointsman_engine_sim::Fault;
use pointsman_lab::SplitMix64;
use tokio::time::sleep;

use crate::fixture::{Gateway, Source, end};

/// Every fault that concerns events, in any order, while the engine works.
async fn play(seed: u64) {
    let mut rng = SplitMix64::new(seed);
    let mut source = Source::new(rng.next_u64(), 100_000).await;
    let gateway = Gateway::follow(source.endpoints());
    let mut deaths = 0;
    for _ in 0..120 {
        source.steps(rng.between(0, 4));
        match rng.below(24) {
            0 => source.fault(Fault::DropEvents(rng.between(1, 5) as u32)),
            1 => source.fault(Fault::DuplicateEvents(rng.between(1, 5) as u32)),
            2 => source.fault(Fault::ReorderEvents),
            3 => source.fault(Fault::PartitionEvents),
            4 | 5 => source.fault(Fault::Recover),
            6 => source.restart(),
            7 => {
                deaths += 1;
                source.restart();
                source.fault(Fault::Restart);
            }
            8 => {
                deaths += 1;
                source.fault(Fault::Die);
                sleep(Duration::from_millis(rng.below(60) as u64)).await;
                source.restart();
                source.fault(Fault::Restart);
            }
            9 => source.clear(),
            _ => sleep(Duration::from_millis(rng.below(20) as u64)).await,
        }
    }
    source.fault(Fault::Recover);
    gateway.agrees(&source, &format!("all was well again, seed {seed}")).await;
    source.steps(3);
    gateway.agrees(&source, &format!("three more steps, seed {seed}")).await;
    // An engine that dies takes along the replay that it was asked for, if the machine is so busy that it did not get to it.
    let lost = gateway.view().lost;
    assert!(lost <= deaths, "{lost} gaps were lost by {deaths} deaths, seed {seed}");
    end(source, gateway).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_goes_wrong_the_index_is_the_cache_in_the_end() {
    for seed in 0..6 {
        play(seed).await;
    }
}
