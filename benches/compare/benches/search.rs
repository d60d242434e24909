//! Latency of one search by prompt length and distinct drop-off depths, ours beside the peers'.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pointsman_benches::fleet::{Cell, Content, Fleet};
use pointsman_compare::systems::{Lap, Prompts, contenders};
use pointsman_lab::SplitMix64;

fn by_blocks_and_depths(c: &mut Criterion) {
    for depths in [1, 4, 16] {
        let mut group = c.benchmark_group(format!("search/{depths}_depths"));
        for blocks in [16, 128, 512, 4_096] {
            let fleet = Fleet::build(Cell::new(64, blocks, Content::Spread { depths }, 200_000), 1);
            group.throughput(Throughput::Elements(blocks as u64));
            for contender in &mut contenders(64, Prompts::Hashes(&fleet.chains)) {
                contender.write(&fleet.steps);
                let mut order = SplitMix64::new(7).draws(4_096, fleet.chains.len()).into_iter().cycle();
                group.bench_function(BenchmarkId::new(contender.name(), blocks), |b| {
                    b.iter_custom(|times| {
                        let asked: Vec<usize> = order.by_ref().take(times as usize).collect();
                        contender.time(Lap::Search, &[], &asked)
                    });
                });
            }
        }
        group.finish();
    }
}

criterion_group!(benches, by_blocks_and_depths);
criterion_main!(benches);
