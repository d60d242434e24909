//! Latency of one search by prompt length and distinct drop-off depths, ours beside the peers'.

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pointsman_benches::fleet::{Cell, Content, Fleet};
use pointsman_benches::ours::Ours;
use pointsman_benches::system::System;
use pointsman_compare::systems::{Dynamo, Smg};
use pointsman_lab::SplitMix64;

fn by_blocks_and_depths(c: &mut Criterion) {
    for depths in [1, 4, 16] {
        let mut group = c.benchmark_group(format!("search/{depths}_depths"));
        for blocks in [16, 128, 512, 4_096] {
            let fleet = Fleet::build(Cell::new(64, blocks, Content::Spread { depths }, 200_000), 1);
            group.throughput(Throughput::Elements(blocks as u64));
            ask::<Ours>(&mut group, &fleet, blocks);
            ask::<Smg>(&mut group, &fleet, blocks);
            ask::<Dynamo>(&mut group, &fleet, blocks);
        }
        group.finish();
    }
}

fn ask<S: System>(group: &mut BenchmarkGroup<'_, WallTime>, fleet: &Fleet, blocks: usize) {
    let chains: Vec<_> = fleet.chains.iter().map(|chain| S::chain(chain)).collect();
    let mut system = S::new(64);
    system.write(&chains, &fleet.steps);
    let mut order = SplitMix64::new(7).draws(4_096, chains.len()).into_iter().cycle();
    group.bench_function(BenchmarkId::new(S::NAME, blocks), |b| {
        b.iter(|| system.ask(black_box(&chains[order.next().expect("a cycle has no end")])));
    });
}

criterion_group!(benches, by_blocks_and_depths);
criterion_main!(benches);
