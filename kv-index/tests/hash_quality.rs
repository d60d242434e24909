//! Collision test of the native chain hash on prompts that differ as little as prompts can.

use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed};

/// Ten million chained blocks of counting tokens, zeros and one-token differences: no two are equal, and they
/// spread evenly over 256 shards.
#[test]
fn ten_million_similar_blocks_do_not_collide() {
    let hasher = ChainHasher::new(ChainSeed::new("m"), BlockSize::new(16).unwrap());
    let mut hashes: Vec<BlockHash> = Vec::with_capacity(TARGET + 100_000);
    // Zeros, which differ only in how many there are.
    hashes.extend(hasher.hash(&vec![0; 16 * 1_000_000]));
    // Counting up from neighbouring starts.
    for start in 0..2_000u32 {
        let tokens: Vec<u32> = (start..start + 16 * 1_000).collect();
        hashes.extend(hasher.hash(&tokens));
    }
    // One block, every position changed to every small token.
    let base: Vec<u32> = (0..16).map(|n| 1_000 + n).collect();
    for at in 0..16 {
        for token in 0..100_000u32 {
            if token == base[at] {
                continue;
            }
            let mut tokens = base.clone();
            tokens[at] = token;
            hashes.extend(hasher.hash(&tokens));
        }
    }
    // Two tokens changed against each other, then the same tail.
    let mut tokens = vec![7u32; 16 * 4];
    for a in 0..1_200u32 {
        for b in 0..1_200u32 {
            (tokens[0], tokens[1]) = (a, b);
            if (a, b) != (7, 7) {
                hashes.extend(hasher.hash(&tokens));
            }
        }
    }
    assert!(hashes.len() >= TARGET, "{}", hashes.len());
    let mut shards = [0u32; 256];
    for hash in &hashes {
        shards[(hash.get().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize] += 1;
    }
    let expected = hashes.len() as f64 / 256.0;
    let chi: f64 = shards.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
    assert!(chi < 331.0, "shards are uneven: chi-square {chi}");
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count, "two blocks have one hash");
}

const TARGET: usize = 10_000_000;
