//! End to end: a simulated vLLM block pool, its events as bytes, and the index, equal after every step.
//!
//! The pool has several physical copies of a block, evicts the tail first, keeps a sliding-window group beside the
//! full-attention one, and loses blocks under others' children when a connector fails.
#![cfg(feature = "vllm")]

mod support;

use kv_index::engine::{DropReason, EngineFeed, ReplayForm, VerifyConfig};
use kv_index::{BatchOutcome, Config, Index};
use pointsman_test_support::SplitMix64;
use support::pool::{Pool, Removals, dialect};
use support::publisher::Publisher;
use support::traffic::Traffic;
use support::truth::Way;

fn run(way: Way, removals: Removals, window: Option<usize>, seed: u64, steps: usize) -> (usize, u64) {
    let mut rng = SplitMix64::new(seed);
    let mut pool = Pool::new(4, 40 + rng.below(80), window);
    pool.removals = removals;
    let (mut publisher, mut traffic) = (Publisher::new(10, ReplayForm::WithTopic), Traffic::default());
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let mut config = way.config(&pool);
    config.verify = Some(VerifyConfig::every(dialect(), 1));
    let feed = EngineFeed::new(&index, pod, config).expect("live");
    let (mut copies, mut holes) = (0, 0);
    for step in 0..steps {
        traffic.step(&mut pool, &mut rng);
        copies = copies.max(pool.truth().map(|(_, copies)| copies).max().unwrap_or(0) as usize);
        let Some(payload) = pool.payload(step as f64) else { continue };
        let received = feed.receive(&publisher.publish(payload)).expect("well-formed");
        assert!(matches!(received.outcome, BatchOutcome::Applied(_)), "{received:?}");
        assert_eq!(received.mismatch, None);
        way.compare(&index, pod, &pool, &traffic.prompts, &format!("seed {seed}, step {step}"));
        holes += index.stats().detached_spans as u64;
    }
    let drop_counts = feed.drop_counts();
    for (reason, dropped) in drop_counts.iter() {
        // A window's evictions may come before its first store: the group is not known yet.
        let of_the_window = matches!(reason, DropReason::NotPrefixGroup | DropReason::EmptyStore);
        assert!(window.is_some() && of_the_window, "{dropped:?} dropped, {reason}: {drop_counts}");
    }
    let stats = feed.verify_stats().expect("verified");
    assert!(stats.mismatched == 0 && stats.matched > 0, "{stats:?}");
    assert_eq!(feed.page_map_size().0 == 0, way == Way::EngineHashes || pool.truth().count() == 0);
    (copies, holes)
}

#[test]
fn the_index_equals_the_pool_at_every_step() {
    for way in Way::ALL {
        for window in [None, Some(2)] {
            for removals in Removals::ALL {
                let (mut copies, mut holes) = (0, 0);
                for seed in 0..4 {
                    let (most, open) = run(way, removals, window, seed, 250);
                    (copies, holes) = (copies.max(most), holes + open);
                }
                // The runs were worth something: copies beyond the first, and holes where a load failed.
                assert!(copies >= 3, "{way:?}: at most {copies} copies of a block");
                assert!(holes > 0, "{way:?}: no hole was ever there");
            }
        }
    }
}
