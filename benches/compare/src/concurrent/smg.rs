//! SMG's `ChainIndex`: searches take `&self`; every worker's map belongs to the one thread that writes for it.

use std::fmt;
use std::sync::Arc;

use smg_kv_index::{ChainBlockMap, ChainIndex, ContentHash, SequenceHash, StoredBlock};

use super::{Change, ChangeKind, ConcurrentSystem, Script, Span};

/// The index and its workers.
pub struct ConcurrentSmg {
    index: ChainIndex,
    workers: Vec<u32>,
}

/// A script as stores, queries and evictions take it.
#[derive(Debug)]
pub struct SmgText {
    stored: Vec<StoredBlock>,
    script: Arc<Script>,
    removed: Vec<SequenceHash>,
}

/// The maps of the workers that one thread writes for; the rest stay empty.
pub struct SmgWriter(Vec<ChainBlockMap>);

impl fmt::Debug for ConcurrentSmg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConcurrentSmg({} workers)", self.workers.len())
    }
}

impl fmt::Debug for SmgWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmgWriter({} maps)", self.0.len())
    }
}

impl ConcurrentSystem for ConcurrentSmg {
    const NAME: &'static str = crate::systems::NAMES[1];
    type Text = SmgText;
    type Event = ();
    type Writer = SmgWriter;
    type Scratch = ();

    fn new(pods: usize, _writers: usize) -> Self {
        let index = ChainIndex::with_max_workers(pods);
        let workers =
            (0..pods).map(|i| index.intern_worker(&format!("pod-{i}")).expect("room for every pod")).collect();
        Self { index, workers }
    }

    fn writer(&self) -> SmgWriter {
        SmgWriter(self.workers.iter().map(|_| ChainBlockMap::new()).collect())
    }

    fn text(script: &Arc<Script>) -> SmgText {
        let stored = |hash: &kv_index::BlockHash| StoredBlock {
            seq_hash: SequenceHash(hash.get()),
            content_hash: ContentHash(hash.get()),
        };
        SmgText {
            stored: script.prompts.iter().map(stored).collect(),
            script: Arc::clone(script),
            removed: script.removed.iter().map(|hash| SequenceHash(hash.get())).collect(),
        }
    }

    fn event(_: &SmgText, _: &Change) {}

    fn apply(&self, writer: &mut SmgWriter, text: &SmgText, change: &Change, (): &mut ()) -> bool {
        let (worker, map) = (self.workers[change.pod as usize], &mut writer.0[change.pod as usize]);
        match change.what {
            ChangeKind::Stored { parent, blocks } => {
                let parent = parent.map(|hash| SequenceHash(hash.get()));
                self.index.apply_stored(worker, &text.stored[blocks.range()], parent, map).is_ok()
            }
            ChangeKind::Removed(blocks) => {
                self.index.apply_removed(worker, &text.removed[blocks.range()], map);
                true
            }
        }
    }

    fn touch(text: &SmgText, prompt: Span) -> u64 {
        text.script.prompts[prompt.range()].iter().map(|hash| hash.get() >> 32).sum()
    }

    fn search(&self, text: &SmgText, prompt: Span, (): &mut ()) -> u64 {
        let (query, mut sum) = (&text.script.prompts[prompt.range()], 0);
        self.index.score_into(query, |hash| hash.get(), false, |worker, depth| sum += u64::from(worker ^ depth));
        sum
    }

    fn depths(&self, text: &SmgText, prompt: Span, depths: &mut [u32]) {
        depths.fill(0);
        let query = &text.script.prompts[prompt.range()];
        self.index.score_into(query, |hash| hash.get(), false, |worker, depth| depths[worker as usize] = depth);
    }
}
