//! Block hashing of 1,000 blocks: natively by tokens a block, and in each engine's dialect.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use kv_index::engine::sglang::{SglangFormat, SglangHashing};
use kv_index::engine::trtllm::{TrtllmForm, TrtllmHashing};
use kv_index::engine::vllm::{VllmAlgorithm, VllmHashing};
use kv_index::engine::{ChainBuffer, Dialect, DialectError, DialectHasher, Prompt, Version};
use kv_index::{BlockSize, ChainHasher, ChainSeed, ChainSource};
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_lab::SplitMix64;

fn thousand_blocks(c: &mut Criterion) {
    let mut group = c.benchmark_group("hash/1000_blocks");
    for size in [1, 16, 32, 64, 128] {
        let hasher = ChainHasher::new(ChainSeed::new("bench"), BlockSize::new(size).expect("not zero"));
        let tokens = SplitMix64::new(1).tokens(BLOCKS * size as usize);
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

/// The same blocks of 16 tokens in each dialect, lazily to the end, beside the native hash.
fn thousand_blocks_by_dialect(c: &mut Criterion) {
    let size = BlockSize::new(16).expect("not zero");
    let tokens = SplitMix64::new(1).tokens(BLOCKS * size.tokens());
    let mut group = c.benchmark_group("hash/1000_blocks_by_dialect");
    group.throughput(Throughput::Elements(BLOCKS as u64));
    let (native, mut hashes) = (ChainHasher::new(ChainSeed::new("bench"), size), Vec::new());
    group.bench_function("native", |b| {
        b.iter(|| native.lazy(black_box(&tokens), &mut hashes).hash_up_to(BLOCKS).last().copied())
    });
    let prompt = Prompt::new(&tokens);
    let mut buffer = ChainBuffer::default();
    for dialect in dialects().expect("all can be computed") {
        let hasher = DialectHasher::new(dialect, size);
        group.bench_function(hasher.dialect().to_string(), |b| {
            b.iter(|| {
                let mut chain = hasher.lazy(black_box(&prompt), &mut buffer).expect("plain text");
                chain.hash_up_to(BLOCKS).last().copied()
            });
        });
    }
    group.finish();
}

fn dialects() -> Result<Vec<Dialect>, DialectError> {
    use VllmAlgorithm::{Sha256, Sha256Cbor, Xxhash, XxhashCbor};

    let vllm = |algorithm| VllmHashing::new(Version::new(0, 32, 0)).algorithm(algorithm).seed("0");
    let sglang = SglangHashing::new(Version::new(0, 5, 23));
    let mut dialects =
        [Sha256, Sha256Cbor, Xxhash, XxhashCbor].map(|algorithm| Dialect::vllm(vllm(algorithm))).to_vec();
    dialects.extend([sglang, sglang.eagle(), sglang.format(SglangFormat::Dynamo)].map(Dialect::sglang));
    dialects
        .extend([TrtllmForm::V1BlockKey, TrtllmForm::V2Sha256].map(|form| Dialect::trtllm(TrtllmHashing::new(form))));
    dialects.into_iter().collect()
}

const BLOCKS: usize = 1_000;

criterion_group!(benches, thousand_blocks, thousand_blocks_by_dialect);
criterion_main!(benches);
