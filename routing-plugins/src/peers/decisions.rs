//! Decisions that peers are to be told of: a bounded outbox between recorders and whoever tells.
//!
//! Its memory is made when somebody first tells. A recorder that finds no room leaves its note out and counts it: what is in flight is told
//! by the next whole summary anyway.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kv_index::{BlockHash, Parent, Pod};
use parking_lot::Mutex;

use super::Peers;

/// Decisions since the last summary.
#[derive(Default)]
pub(super) struct Decisions {
    /// There once somebody tells.
    notes: OnceLock<Mutex<Notes>>,
    left_out: AtomicU64,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Debug)]
pub(super) struct Notes {
    pub(super) decided: Vec<Decided>,
    /// The blocks of all of them, one after the other.
    pub(super) blocks: Vec<BlockHash>,
}

/// A decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decided {
    pub(super) pod: Pod,
    pub(super) parent: Parent,
    /// How many blocks were entered.
    pub(super) blocks: usize,
    pub(super) deadline: Instant,
}

impl Default for Notes {
    fn default() -> Self {
        Self { decided: Vec::with_capacity(MOST_DECISIONS), blocks: Vec::with_capacity(MOST_BLOCKS) }
    }
}

impl Decisions {
    /// What was noted is handed out, and is then forgotten. From the first time on decisions are noted.
    pub(super) fn take<T>(&self, hand_out: impl FnOnce(&Notes) -> T) -> T {
        let mut notes = self.notes.get_or_init(Mutex::default).lock();
        let told = hand_out(&notes);
        notes.decided.clear();
        notes.blocks.clear();
        told
    }

    fn push(&self, decided: Decided, blocks: &[BlockHash]) {
        let Some(notes) = self.notes.get() else { return };
        let mut notes = notes.lock();
        let is_first = notes.decided.is_empty();
        let has_room = notes.decided.len() < MOST_DECISIONS && notes.blocks.len() + blocks.len() <= MOST_BLOCKS;
        if !has_room {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        notes.blocks.extend_from_slice(blocks);
        notes.decided.push(decided);
        drop(notes);
        if let Some(wake) = self.wake.get().filter(|_| is_first) {
            wake();
        }
    }
}

impl Peers {
    /// A request was decided for a pod, and the blocks of its chain from a depth on were entered there until a deadline.
    #[inline]
    pub(crate) fn decided(&self, pod: Pod, chain: &[BlockHash], depth: usize, deadline: Instant) {
        if self.decisions.notes.get().is_none() {
            return;
        }
        let blocks = chain.get(depth..).unwrap_or_default();
        let parent = depth.checked_sub(1).and_then(|before| chain.get(before));
        let parent = parent.map_or(Parent::Root, |before| Parent::Block(*before));
        self.decisions.push(Decided { pod, parent, blocks: blocks.len(), deadline }, blocks);
    }

    /// Calls this whenever there is something to tell after there was nothing: a host then tells
    /// [changes](super::SummaryScope::Changes) soon. It is called by whoever decides, so it should do no more than wake a task. Once: later calls
    /// change nothing.
    pub fn on_decision(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.decisions.wake.set(Box::new(wake));
    }

    /// Decisions that peers were not told of, since there were too many at once.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.decisions.left_out.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decisions").field("left_out", &self.left_out).finish_non_exhaustive()
    }
}

/// Decisions and blocks that wait to be told: half a megabyte, for some milliseconds.
const MOST_DECISIONS: usize = 4_096;
const MOST_BLOCKS: usize = 32_768;
