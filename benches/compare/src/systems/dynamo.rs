//! Dynamo's concurrent compressed radix tree: `find_matches` on the caller's thread, events queued for as many threads of
//! its own as there are writers.
//!
//! The rule: writes end with `flush_and_wait`, or only the queueing of events would be timed.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use dynamo_kv_router::ConcurrentRadixTreeCompressed;
use dynamo_kv_router::indexer::{SyncIndexer, ThreadPoolIndexer};
use dynamo_kv_router::protocols::{
    BlockHashOptions, ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, RouterEvent, WorkerWithDpRank, compute_block_hash_for_seq,
    compute_seq_hash_for_block,
};
use dynamo_kv_router::zmq_wire::{ZmqEventNormalizer, decode_event_batch};
use kv_index::BlockHash;

use pointsman_benches::fleet::{Op, Step};
use pointsman_benches::system::{BLOCK_TOKENS, System};

/// The indexer and its threads.
pub(crate) struct Dynamo(ThreadPoolIndexer<ConcurrentRadixTreeCompressed>);

/// A prompt by its local and its cumulative hashes.
pub(crate) struct DynamoChain {
    local: Vec<LocalBlockHash>,
    sequence: Vec<ExternalSequenceBlockHash>,
}

impl System for Dynamo {
    const NAME: &'static str = "dynamo";
    type Block = LocalBlockHash;
    type Chain = DynamoChain;
    /// The queue owns its events.
    type Event = RouterEvent;
    /// How many events it has sent: they are numbered.
    type Writer = u64;
    type Scratch = ();

    fn new(_pods: usize, writers: usize) -> Self {
        Self(ThreadPoolIndexer::new(ConcurrentRadixTreeCompressed::new(), writers, BLOCK_TOKENS as u32))
    }

    fn writer(&self) -> u64 {
        0
    }

    fn scratch(&self) {}

    fn chain(hashes: &[BlockHash]) -> DynamoChain {
        let local = hashes.iter().map(|hash| LocalBlockHash(hash.get())).collect();
        DynamoChain { local, sequence: hashes.iter().map(|hash| ExternalSequenceBlockHash(hash.get())).collect() }
    }

    fn chain_of_tokens(tokens: &[u32]) -> DynamoChain {
        let local = hash(tokens);
        let sequence = compute_seq_hash_for_block(&local).into_iter().map(ExternalSequenceBlockHash).collect();
        DynamoChain { local, sequence }
    }

    fn query(chain: &DynamoChain) -> &[LocalBlockHash] {
        &chain.local
    }

    fn bits(block: &LocalBlockHash) -> u64 {
        block.0
    }

    fn hash(&self, tokens: &[u32], blocks: &mut Vec<LocalBlockHash>) {
        *blocks = hash(tokens);
    }

    fn event(chain: &DynamoChain, step: &Step) -> RouterEvent {
        let stored = |at: usize| KvCacheStoredBlockData {
            block_hash: chain.sequence[at],
            tokens_hash: chain.local[at],
            mm_extra_info: None,
        };
        let blocks = step.from..step.to;
        let data = match step.op {
            Op::Store => KvCacheEventData::Stored(KvCacheStoreData {
                parent_hash: step.from.checked_sub(1).map(|before| chain.sequence[before]),
                start_position: None,
                blocks: blocks.map(stored).collect(),
            }),
            Op::Evict => KvCacheEventData::Removed(KvCacheRemoveData {
                block_hashes: chain.sequence[blocks].iter().rev().copied().collect(),
            }),
        };
        event(step.pod, data)
    }

    fn apply(&self, sent: &mut u64, _: &DynamoChain, _: &Step, event: RouterEvent) -> bool {
        self.send(sent, event)
    }

    fn clear(&self, sent: &mut u64, pod: usize) {
        self.send(sent, event(pod, KvCacheEventData::Cleared));
    }

    fn drain(&self) {
        block_on(self.0.flush_and_wait()).expect("its threads run");
    }

    fn search_by_pod(&self, query: &[LocalBlockHash], (): &mut (), mut each: impl FnMut(usize, u32)) {
        let scores = self.0.backend().find_matches(query, false).scores;
        scores.iter().for_each(|(worker, &depth)| each(worker.worker_id as usize, depth));
    }
}

/// Dynamo's path from an engine's messages to its indexer.
pub(crate) struct Decoder {
    indexer: Dynamo,
    normalizer: ZmqEventNormalizer,
    sent: u64,
}

impl Decoder {
    pub(crate) fn new() -> Self {
        Self { indexer: Dynamo::new(0, 1), normalizer: ZmqEventNormalizer::new(BLOCK_TOKENS as u32), sent: 0 }
    }

    pub(crate) fn receive(&mut self, pod: usize, payload: &[u8]) {
        let batch = decode_event_batch(payload).expect("as vLLM writes it");
        for raw in batch.events {
            let worker = WorkerWithDpRank::new(pod as u64, 0);
            let placed = self.normalizer.normalize(raw, self.sent, worker).expect("an event of its main group");
            let event = placed.into_router_event().expect("a worker's");
            assert!(self.indexer.send(&mut self.sent, event), "its threads run");
        }
    }

    pub(crate) fn drain(&self) {
        self.indexer.drain();
    }

    pub(crate) fn depth(&self, pod: usize, tokens: &[u32]) -> usize {
        let mut found = 0;
        self.indexer.search_by_pod(&hash(tokens), &mut (), |at, depth| found = if at == pod { depth } else { found });
        found as usize
    }
}

impl Dynamo {
    fn send(&self, sent: &mut u64, mut event: RouterEvent) -> bool {
        *sent += 1;
        event.event.event_id = *sent;
        self.0.enqueue_event(event).is_ok()
    }
}

fn event(pod: usize, data: KvCacheEventData) -> RouterEvent {
    RouterEvent::new(pod as u64, KvCacheEvent { event_id: 0, data, dp_rank: 0 })
}

fn hash(tokens: &[u32]) -> Vec<LocalBlockHash> {
    compute_block_hash_for_seq(tokens, BLOCK_TOKENS as u32, BlockHashOptions::default())
}

/// Waits for a future on this thread; all it ever waits for is the writer.
fn block_on<F: Future>(future: F) -> F::Output {
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
