//! Dynamo's concurrent compressed radix tree behind its pool of one writer thread: `find_matches` on the caller's
//! thread.
//!
//! The rule: writes end with `flush_and_wait`, or only the queueing of events would be timed.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use dynamo_kv_router::ConcurrentRadixTreeCompressed;
use dynamo_kv_router::indexer::{SyncIndexer, ThreadPoolIndexer};
use dynamo_kv_router::protocols::{
    BlockHashOptions, ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, RouterEvent, compute_block_hash_for_seq, compute_seq_hash_for_block,
};
use kv_index::BlockHash;

use pointsman_benches::fleet::{Op, Step};
use pointsman_benches::system::{BLOCK_TOKENS, System};

/// The indexer and its writer thread.
pub struct Dynamo {
    indexer: ThreadPoolIndexer<ConcurrentRadixTreeCompressed>,
    events: u64,
}

/// A prompt by its local and its cumulative hashes.
#[derive(Debug)]
pub struct DynamoChain {
    local: Vec<LocalBlockHash>,
    sequence: Vec<ExternalSequenceBlockHash>,
}

impl fmt::Debug for Dynamo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dynamo({} events)", self.events)
    }
}

impl System for Dynamo {
    const NAME: &'static str = "dynamo";
    type Chain = DynamoChain;

    fn new(_pods: usize) -> Self {
        let tree = ConcurrentRadixTreeCompressed::new();
        Self { indexer: ThreadPoolIndexer::new(tree, WRITERS, BLOCK_TOKENS as u32), events: 0 }
    }

    fn chain(hashes: &[BlockHash]) -> DynamoChain {
        let local = hashes.iter().map(|hash| LocalBlockHash(hash.get())).collect();
        DynamoChain { local, sequence: hashes.iter().map(|hash| ExternalSequenceBlockHash(hash.get())).collect() }
    }

    fn chain_of_tokens(tokens: &[u32]) -> DynamoChain {
        let local = hash(tokens);
        let sequence = compute_seq_hash_for_block(&local).into_iter().map(ExternalSequenceBlockHash).collect();
        DynamoChain { local, sequence }
    }

    fn touch(chain: &DynamoChain) -> u64 {
        chain.local.iter().map(|hash| hash.0 >> 32).sum()
    }

    fn write(&mut self, chains: &[DynamoChain], steps: &[Step]) -> Duration {
        let events: Vec<_> = steps.iter().map(|step| self.event(&chains[step.chain], step)).collect();
        self.play(events)
    }

    fn ask(&mut self, chain: &DynamoChain) -> u64 {
        self.sum(&chain.local)
    }

    fn ask_tokens(&mut self, tokens: &[u32]) -> u64 {
        self.sum(&hash(tokens))
    }

    fn hash_tokens(&mut self, tokens: &[u32]) -> u64 {
        hash(tokens).last().map_or(0, |hash| hash.0)
    }

    fn depths(&mut self, chain: &DynamoChain, depths: &mut [u32]) {
        self.read(&chain.local, depths);
    }

    fn depths_of_tokens(&mut self, tokens: &[u32], depths: &mut [u32]) {
        self.read(&hash(tokens), depths);
    }

    fn clear(&mut self, pod: usize) -> Duration {
        self.events += 1;
        let cleared = KvCacheEvent { event_id: self.events, data: KvCacheEventData::Cleared, dp_rank: 0 };
        self.play([RouterEvent::new(pod as u64, cleared)])
    }
}

impl Dynamo {
    fn play(&self, events: impl IntoIterator<Item = RouterEvent>) -> Duration {
        let start = Instant::now();
        for event in events {
            self.indexer.enqueue_event(event).expect("the writer runs");
        }
        block_on(self.indexer.flush_and_wait()).expect("the writer runs");
        start.elapsed()
    }

    fn read(&self, query: &[LocalBlockHash], depths: &mut [u32]) {
        depths.fill(0);
        for (worker, depth) in self.indexer.backend().find_matches(query, false).scores {
            depths[worker.worker_id as usize] = depth;
        }
    }

    fn event(&mut self, chain: &DynamoChain, step: &Step) -> RouterEvent {
        let blocks = step.from..step.to;
        let data = match step.op {
            Op::Store => KvCacheEventData::Stored(KvCacheStoreData {
                parent_hash: step.from.checked_sub(1).map(|before| chain.sequence[before]),
                start_position: None,
                blocks: blocks
                    .map(|at| KvCacheStoredBlockData {
                        block_hash: chain.sequence[at],
                        tokens_hash: chain.local[at],
                        mm_extra_info: None,
                    })
                    .collect(),
            }),
            Op::Evict => KvCacheEventData::Removed(KvCacheRemoveData {
                block_hashes: chain.sequence[blocks].iter().rev().copied().collect(),
            }),
        };
        self.events += 1;
        RouterEvent::new(step.pod as u64, KvCacheEvent { event_id: self.events, data, dp_rank: 0 })
    }

    fn sum(&self, query: &[LocalBlockHash]) -> u64 {
        let scores = self.indexer.backend().find_matches(query, false).scores;
        scores.iter().map(|(worker, &depth)| worker.worker_id ^ u64::from(depth)).sum()
    }
}

fn hash(tokens: &[u32]) -> Vec<LocalBlockHash> {
    compute_block_hash_for_seq(tokens, BLOCK_TOKENS as u32, BlockHashOptions::default())
}

/// Waits for a future on this thread; all it ever waits for is the writer.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Writer threads: one, as the others write on one thread.
const WRITERS: usize = 1;
