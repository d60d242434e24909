//! Cost of a stored and of an evicted block, by blocks an event.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pointsman_benches::fleet::Step;
use pointsman_benches::ours::Ours;
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_benches::system::{Client, System};
use pointsman_lab::SplitMix64;

fn store_and_evict(c: &mut Criterion) {
    for (name, evicting) in [("apply/store", false), ("apply/evict", true)] {
        let mut group = c.benchmark_group(name);
        for blocks in [1, 32, 512] {
            let mut ours = filled(blocks);
            let stores: Vec<_> = (0..CHAINS).map(|chain| Step::store(0, chain, KEPT..KEPT + blocks)).collect();
            let evicts: Vec<_> = (0..CHAINS).map(|chain| Step::evict(0, chain, KEPT..KEPT + blocks)).collect();
            group.throughput(Throughput::Elements(blocks as u64));
            group.bench_function(BenchmarkId::from_parameter(blocks), |b| {
                // What is stored is evicted again, a bunch at a time; only one of the two is timed.
                b.iter_custom(|events| {
                    let mut time = Duration::ZERO;
                    let mut left = events as usize;
                    while left > 0 {
                        let bunch = left.min(CHAINS);
                        let (store, evict) = (ours.write(&stores[..bunch]), ours.write(&evicts[..bunch]));
                        time += if evicting { evict } else { store };
                        left -= bunch;
                    }
                    time
                });
            });
        }
        group.finish();
    }
}

/// A pod with conversations, each with room for one more event of so many blocks.
fn filled(blocks: usize) -> Client<Ours> {
    let mut rng = SplitMix64::new(1);
    let chains = (0..CHAINS).map(|_| Ours::chain(&rng.chain(KEPT + blocks))).collect();
    let mut ours = Client::<Ours>::new(64, chains);
    let steps: Vec<_> = (0..CHAINS).map(|chain| Step::store(0, chain, 0..KEPT)).collect();
    ours.write(&steps);
    ours
}

/// Conversations on the pod.
const CHAINS: usize = 1_000;

/// Blocks of each that stay.
const KEPT: usize = 64;

criterion_group!(benches, store_and_evict);
criterion_main!(benches);
