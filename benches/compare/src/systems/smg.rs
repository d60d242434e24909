//! SMG's `ChainIndex` with its caller-owned maps: `score_into`, which allocates nothing.

use std::fmt;
use std::time::{Duration, Instant};

use kv_index::BlockHash;
use smg_kv_index::{
    ChainBlockMap, ChainIndex, ContentHash, SequenceHash, StoredBlock, compute_request_content_hashes,
    request_prefix_hashes,
};

use pointsman_benches::fleet::{Op, Step};
use pointsman_benches::system::{BLOCK_TOKENS, System};

/// The index with a map for each worker.
pub struct Smg {
    index: ChainIndex,
    maps: Vec<ChainBlockMap>,
    workers: Vec<u32>,
    refused: usize,
}

/// A prompt as stores, queries and evictions want it.
#[derive(Debug)]
pub struct SmgChain {
    stored: Vec<StoredBlock>,
    query: Vec<ContentHash>,
    backward: Vec<SequenceHash>,
}

impl fmt::Debug for Smg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Smg({} workers)", self.workers.len())
    }
}

impl System for Smg {
    const NAME: &'static str = "smg";
    type Chain = SmgChain;

    fn new(pods: usize) -> Self {
        let index = ChainIndex::with_max_workers(pods);
        let workers =
            (0..pods).map(|i| index.intern_worker(&format!("pod-{i}")).expect("room for every pod")).collect();
        Self { index, maps: (0..pods).map(|_| ChainBlockMap::new()).collect(), workers, refused: 0 }
    }

    fn chain(hashes: &[BlockHash]) -> SmgChain {
        let contents: Vec<_> = hashes.iter().map(|hash| ContentHash(hash.get())).collect();
        let sequences: Vec<_> = hashes.iter().map(|hash| SequenceHash(hash.get())).collect();
        SmgChain::new(contents, sequences)
    }

    fn chain_of_tokens(tokens: &[u32]) -> SmgChain {
        let contents = compute_request_content_hashes(tokens, BLOCK_TOKENS);
        let sequences = request_prefix_hashes(&contents);
        SmgChain::new(contents, sequences)
    }

    fn touch(chain: &SmgChain) -> u64 {
        chain.query.iter().map(|hash| hash.0 >> 32).sum()
    }

    fn write(&mut self, chains: &[SmgChain], steps: &[Step]) -> Duration {
        let start = Instant::now();
        for step in steps {
            let chain = &chains[step.chain];
            let (worker, map) = (self.workers[step.pod], &mut self.maps[step.pod]);
            match step.op {
                Op::Store => {
                    let parent = step.from.checked_sub(1).map(|before| chain.stored[before].seq_hash);
                    let stored = self.index.apply_stored(worker, &chain.stored[step.from..step.to], parent, map);
                    self.refused += usize::from(stored.is_err());
                }
                Op::Evict => {
                    let len = chain.backward.len();
                    self.index.apply_removed(worker, &chain.backward[len - step.to..len - step.from], map);
                }
            }
        }
        start.elapsed()
    }

    fn ask(&mut self, chain: &SmgChain) -> u64 {
        self.sum(&chain.query)
    }

    fn ask_tokens(&mut self, tokens: &[u32]) -> u64 {
        self.sum(&compute_request_content_hashes(tokens, BLOCK_TOKENS))
    }

    fn hash_tokens(&mut self, tokens: &[u32]) -> u64 {
        compute_request_content_hashes(tokens, BLOCK_TOKENS).last().map_or(0, |hash| hash.0)
    }

    fn depths(&mut self, chain: &SmgChain, depths: &mut [u32]) {
        self.read(&chain.query, depths);
    }

    fn depths_of_tokens(&mut self, tokens: &[u32], depths: &mut [u32]) {
        self.read(&compute_request_content_hashes(tokens, BLOCK_TOKENS), depths);
    }

    fn clear(&mut self, pod: usize) -> Duration {
        let start = Instant::now();
        self.index.apply_cleared(self.workers[pod], &mut self.maps[pod]);
        start.elapsed()
    }

    fn refused(&self) -> usize {
        self.refused
    }

    fn claimed_bytes(&self) -> Option<usize> {
        let stats = self.index.stats();
        let maps: usize = self.maps.iter().map(|map| map.capacity() * MAP_SLOT).sum();
        Some(stats.arena_chunk_bytes + stats.slab_bytes + maps)
    }
}

impl Smg {
    fn read(&self, query: &[ContentHash], depths: &mut [u32]) {
        depths.fill(0);
        self.index.score_into(query, |hash| hash.0, false, |worker, depth| depths[worker as usize] = depth);
    }

    fn sum(&self, query: &[ContentHash]) -> u64 {
        let mut sum = 0;
        self.index.score_into(query, |hash| hash.0, false, |worker, depth| sum += u64::from(worker ^ depth));
        sum
    }
}

impl SmgChain {
    fn new(query: Vec<ContentHash>, sequences: Vec<SequenceHash>) -> Self {
        let pairs = query.iter().zip(&sequences);
        let stored = pairs.map(|(&content_hash, &seq_hash)| StoredBlock { seq_hash, content_hash }).collect();
        Self { stored, query, backward: sequences.into_iter().rev().collect() }
    }
}

/// Bytes of a slot of a map: 16 and a tag.
const MAP_SLOT: usize = 17;
