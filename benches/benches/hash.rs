//! How long does the native hash take for 1,000 blocks, by tokens a block?

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kv_index::{BlockSize, ChainHasher, ChainSeed};
use pointsman_benches::rng::Rng;

fn thousand_blocks(c: &mut Criterion) {
    let mut group = c.benchmark_group("hash/1000_blocks");
    for size in [1, 16, 32, 64, 128] {
        let hasher = ChainHasher::new(ChainSeed::new("bench"), BlockSize::new(size).expect("not zero"));
        let tokens = Rng::new(1).tokens(BLOCKS * size as usize);
        let mut hashes = Vec::with_capacity(BLOCKS);
        group.throughput(Throughput::Elements(BLOCKS as u64));
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter(|| {
                hashes.clear();
                hasher.extend_into(black_box(&tokens), &mut hashes);
                hashes.last().copied()
            });
        });
    }
    group.finish();
}

const BLOCKS: usize = 1_000;

criterion_group!(benches, thousand_blocks);
criterion_main!(benches);
