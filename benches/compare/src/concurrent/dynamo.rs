//! Dynamo's concurrent tree: searches on the caller's thread, events queued for as many threads of its own as there
//! are writers.

use std::fmt;
use std::sync::Arc;

use dynamo_kv_router::ConcurrentRadixTreeCompressed;
use dynamo_kv_router::indexer::{SyncIndexer, ThreadPoolIndexer};
use dynamo_kv_router::protocols::{
    ExternalSequenceBlockHash, KvCacheEvent, KvCacheEventData, KvCacheRemoveData, KvCacheStoreData,
    KvCacheStoredBlockData, LocalBlockHash, RouterEvent,
};
use kv_index::BlockHash;

use super::{Change, ChangeKind, ConcurrentSystem, Script, Span};
use crate::systems::block_on;
use pointsman_benches::system::BLOCK_TOKENS;

/// The indexer and its threads.
pub struct ConcurrentDynamo(ThreadPoolIndexer<ConcurrentRadixTreeCompressed>);

/// A script as queries and events take it.
#[derive(Debug)]
pub struct DynamoText {
    local: Vec<LocalBlockHash>,
    script: Arc<Script>,
}

impl fmt::Debug for ConcurrentDynamo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConcurrentDynamo")
    }
}

impl ConcurrentSystem for ConcurrentDynamo {
    const NAME: &'static str = crate::systems::NAMES[2];
    type Text = DynamoText;
    /// Taken when it is applied, since the queue owns its events.
    type Event = Option<RouterEvent>;
    /// How many events it has sent: they are numbered.
    type Writer = u64;
    type Scratch = ();

    fn new(_pods: usize, writers: usize) -> Self {
        Self(ThreadPoolIndexer::new(ConcurrentRadixTreeCompressed::new(), writers, BLOCK_TOKENS as u32))
    }

    fn writer(&self) -> u64 {
        0
    }

    fn text(script: &Arc<Script>) -> DynamoText {
        let local = script.prompts.iter().map(|hash| LocalBlockHash(hash.get())).collect();
        DynamoText { local, script: Arc::clone(script) }
    }

    fn event(text: &DynamoText, change: &Change) -> Option<RouterEvent> {
        let data = match change.what {
            ChangeKind::Stored { parent, blocks } => KvCacheEventData::Stored(KvCacheStoreData {
                parent_hash: parent.map(sequence),
                start_position: None,
                blocks: text.script.prompts[blocks.range()].iter().map(block).collect(),
            }),
            ChangeKind::Removed(blocks) => KvCacheEventData::Removed(KvCacheRemoveData {
                block_hashes: text.script.removed[blocks.range()].iter().map(|&hash| sequence(hash)).collect(),
            }),
        };
        Some(RouterEvent::new(u64::from(change.pod), KvCacheEvent { event_id: 0, data, dp_rank: 0 }))
    }

    fn apply(&self, sent: &mut u64, _: &DynamoText, _: &Change, event: &mut Option<RouterEvent>) -> bool {
        let Some(mut event) = event.take() else { return false };
        *sent += 1;
        event.event.event_id = *sent;
        self.0.enqueue_event(event).is_ok()
    }

    fn drain(&self) {
        block_on(self.0.flush_and_wait()).expect("its threads run");
    }

    fn touch(text: &DynamoText, prompt: Span) -> u64 {
        text.local[prompt.range()].iter().map(|hash| hash.0 >> 32).sum()
    }

    fn search(&self, text: &DynamoText, prompt: Span, (): &mut ()) -> u64 {
        let scores = self.0.backend().find_matches(&text.local[prompt.range()], false).scores;
        scores.iter().map(|(worker, &depth)| worker.worker_id ^ u64::from(depth)).sum()
    }

    fn depths(&self, text: &DynamoText, prompt: Span, depths: &mut [u32]) {
        depths.fill(0);
        for (worker, depth) in self.0.backend().find_matches(&text.local[prompt.range()], false).scores {
            depths[worker.worker_id as usize] = depth;
        }
    }
}

fn block(hash: &BlockHash) -> KvCacheStoredBlockData {
    KvCacheStoredBlockData { block_hash: sequence(*hash), tokens_hash: LocalBlockHash(hash.get()), mm_extra_info: None }
}

fn sequence(hash: BlockHash) -> ExternalSequenceBlockHash {
    ExternalSequenceBlockHash(hash.get())
}
