//! Streaming overhead: what the executor adds to a forwarded chunk.
//!
//! Time is per chunk; the run has begun before it is timed. Before that it is checked that what comes through is the
//! same memory.

use std::hint::black_box;

use criterion::{
    BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main, measurement::WallTime,
};
use pointsman_benches::forward::{CHUNKS, Events, begun, copy, read};

fn through(group: &mut BenchmarkGroup<'_, WallTime>, pauses: bool) {
    let name = |way: &str| format!("{way}/{}", if pauses { "pauses" } else { "at_once" });
    let events = Events::new(pauses);
    assert!(events.pass_uncopied(), "every chunk, and no copy");
    group.bench_function(name("bare"), |b| {
        b.iter_batched(|| events.clone(), |body| read(body, |chunk| _ = black_box(chunk)), BatchSize::SmallInput);
    });
    group.bench_function(name("copy"), |b| {
        let mut buffer = Vec::with_capacity(64);
        b.iter_batched(|| events.clone(), |body| copy(body, &mut buffer), BatchSize::SmallInput);
    });
    group.bench_function(name("run"), |b| {
        b.iter_batched(|| begun(&events), |body| read(body, |chunk| _ = black_box(chunk)), BatchSize::SmallInput);
    });
}

fn forward(c: &mut Criterion) {
    let mut group = c.benchmark_group("forward");
    group.throughput(Throughput::Elements(CHUNKS as u64));
    through(&mut group, false);
    through(&mut group, true);
    group.finish();
}

criterion_group!(benches, forward);
criterion_main!(benches);
