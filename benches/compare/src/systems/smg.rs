//! SMG's `ChainIndex` with its caller-owned maps: `score_into`, which allocates nothing. Every worker's map belongs to
//! the one thread that writes for it.

use kv_index::BlockHash;
use smg_kv_index::{
    ChainBlockMap, ChainIndex, ContentHash, SequenceHash, StoredBlock, compute_request_content_hashes,
    request_prefix_hashes,
};

use pointsman_benches::fleet::{Op, Step};
use pointsman_benches::system::{BLOCK_TOKENS, System};

/// The index and its workers.
pub(crate) struct Smg {
    index: ChainIndex,
    workers: Vec<u32>,
}

/// A prompt as stores, queries and evictions want it.
pub(crate) struct SmgChain {
    stored: Vec<StoredBlock>,
    query: Vec<ContentHash>,
    backward: Vec<SequenceHash>,
}

impl System for Smg {
    const NAME: &'static str = "smg";
    type Block = ContentHash;
    type Chain = SmgChain;
    type Event = ();
    /// A map for each worker; those of workers that others write for stay empty.
    type Writer = Vec<ChainBlockMap>;
    type Scratch = ();

    fn new(pods: usize, _writers: usize) -> Self {
        let index = ChainIndex::with_max_workers(pods);
        let worker = |pod: usize| index.intern_worker(&format!("pod-{pod}")).expect("room for every pod");
        let workers = (0..pods).map(worker).collect();
        Self { index, workers }
    }

    fn writer(&self) -> Vec<ChainBlockMap> {
        self.workers.iter().map(|_| ChainBlockMap::new()).collect()
    }

    fn scratch(&self) {}

    fn chain(hashes: &[BlockHash]) -> SmgChain {
        let contents = hashes.iter().map(|hash| ContentHash(hash.get())).collect();
        SmgChain::new(contents, hashes.iter().map(|hash| SequenceHash(hash.get())).collect())
    }

    fn chain_of_tokens(tokens: &[u32]) -> SmgChain {
        let contents = compute_request_content_hashes(tokens, BLOCK_TOKENS);
        let sequences = request_prefix_hashes(&contents);
        SmgChain::new(contents, sequences)
    }

    fn query(chain: &SmgChain) -> &[ContentHash] {
        &chain.query
    }

    fn bits(block: &ContentHash) -> u64 {
        block.0
    }

    fn hash(&self, tokens: &[u32], blocks: &mut Vec<ContentHash>) {
        *blocks = compute_request_content_hashes(tokens, BLOCK_TOKENS);
    }

    fn event(_: &SmgChain, _: &Step) {}

    fn apply(&self, maps: &mut Vec<ChainBlockMap>, chain: &SmgChain, step: &Step, (): ()) -> bool {
        let (worker, map) = (self.workers[step.pod], &mut maps[step.pod]);
        match step.op {
            Op::Store => {
                let parent = step.from.checked_sub(1).map(|before| chain.stored[before].seq_hash);
                self.index.apply_stored(worker, &chain.stored[step.from..step.to], parent, map).is_ok()
            }
            Op::Evict => {
                let len = chain.backward.len();
                self.index.apply_removed(worker, &chain.backward[len - step.to..len - step.from], map);
                true
            }
        }
    }

    fn clear(&self, maps: &mut Vec<ChainBlockMap>, pod: usize) {
        self.index.apply_cleared(self.workers[pod], &mut maps[pod]);
    }

    fn search_by_pod(&self, query: &[ContentHash], (): &mut (), mut each: impl FnMut(usize, u32)) {
        self.index.score_into(query, |hash| hash.0, false, |worker, depth| each(worker as usize, depth));
    }

    fn claimed_bytes(&self, maps: &Vec<ChainBlockMap>) -> Option<usize> {
        let stats = self.index.stats();
        let maps: usize = maps.iter().map(|map| map.capacity() * MAP_SLOT).sum();
        Some(stats.arena_chunk_bytes + stats.slab_bytes + maps)
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
