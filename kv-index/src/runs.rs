//! Runs: the holders of a whole stretch of a chain, readable in one go.
//!
//! A run covers consecutive blocks of one chain and lists, run-length encoded, which set holds which of them.
//! Every block it covers names the run and its offset in its table slot, and whoever changes the slot
//! changes the run in the same breath. A search that finds a block's run and sees the run's *last hash* on its
//! own chain knows, hashes being cumulative, that the whole run lies on the chain, and has the holders of
//! all its blocks from four cache lines, mostly one.
//!
//! A run is an accelerator, not the truth: the slots are. So nothing is ever split or merged. Where something
//! does not fit the pattern (a block leaves the middle, there are more edges than fit) the run is *cut*: it
//! covers what is before that block and never grows again; what is behind still names it, is searched block by
//! block, and finds a new run with the next store over it. The rule that must never break: **a run says of
//! every block it covers exactly what the block's slot says**.
//!
//! A run also knows whether anything may *follow* it: whether some block is stored under one of its blocks but
//! not in the run itself. Where nothing does, a search that comes to the end of the run is done.
//!
//! Readers take a versioned copy and give up, rather than wait, when a writer is at it.

mod run;

pub(crate) use run::{Follow, LONGEST, RunView};

use crate::block::BlockHash;
use crate::runs::run::{Run, Writing};
use crate::sets::{SetId, Sets};
use crate::slab::Slab;
use crate::sync::Mutex;

/// The name of a run. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunId(u32);

impl RunId {
    /// Bits an id takes in a slot.
    pub(crate) const BITS: u32 = 23;

    pub(crate) const fn from_raw(raw: u32) -> Option<Self> {
        if raw == 0 { None } else { Some(Self(raw)) }
    }

    pub(crate) const fn raw(self) -> u32 {
        self.0
    }
}

/// A block's place: its run and how many blocks of the run come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunPlace {
    pub(crate) run: RunId,
    pub(crate) offset: usize,
}

/// Every run.
#[derive(Debug)]
pub(crate) struct Runs {
    slab: Slab<Run, FIRST>,
    ids: Mutex<Ids>,
}

#[derive(Debug, Default)]
struct Ids {
    free: Vec<u32>,
    made: u32,
}

impl Runs {
    pub(crate) fn new() -> Self {
        Self { slab: Slab::new(), ids: Mutex::new(Ids::default()) }
    }

    /// Adds a block that `set` holds behind `tail`, the run and hash of the block before it, or to a new run.
    ///
    /// The caller holds the lock of the block's shard and writes the place into its slot before letting go.
    /// `follow` says whether blocks may be stored under this one already.
    pub(crate) fn push<const W: usize>(
        &self,
        sets: &Sets<W>,
        tail: Option<(RunId, BlockHash)>,
        hash: BlockHash,
        set: SetId,
        follow: Follow,
    ) -> Option<RunPlace> {
        if let Some((run, before)) = tail {
            if let Some(offset) = self.run(run).lock().push(sets, before, hash, set, follow) {
                return Some(RunPlace { run, offset });
            }
        }
        let run = self.claim()?;
        self.run(run).lock().begin(hash, set, follow);
        Some(RunPlace { run, offset: 0 })
    }

    /// Something is stored under a block of the run, and not in the run.
    pub(crate) fn mark_followed(&self, run: RunId) {
        // If it was set for an earlier use of the id, the block has left that run, and whatever run it came to
        // meanwhile was told that blocks may follow.
        if !self.run(run).is_followed() {
            self.run(run).lock().mark_followed();
        }
    }

    /// A block's holders are now `set`, and it has some. False if the run no longer covers it: then the slot,
    /// whose lock the caller holds, must no longer name it.
    pub(crate) fn set<const W: usize>(
        &self,
        sets: &Sets<W>,
        at: RunPlace,
        set: SetId,
        before: Option<BlockHash>,
    ) -> bool {
        let mut run = self.run(at.run).lock();
        let covers = at.offset < run.len();
        if covers && run.set(sets, at.offset, set) {
            return true;
        }
        if covers {
            run.cut(at.offset, before);
        }
        self.forget(at.run, run);
        false
    }

    /// A block has no holders any more; its slot, whose lock the caller holds, must no longer name the run.
    pub(crate) fn pop(&self, at: RunPlace, before: Option<BlockHash>) {
        let mut run = self.run(at.run).lock();
        if at.offset + 1 == run.len() {
            run.cut_last(before);
        } else if at.offset < run.len() {
            run.cut(at.offset, before);
        }
        self.forget(at.run, run);
    }

    /// A slot stops naming a run; the id of a run that none names is used again.
    fn forget(&self, id: RunId, mut run: Writing<'_>) {
        let unnamed = run.forget();
        drop(run);
        if unnamed {
            self.ids.lock().free.push(id.0);
        }
    }

    /// Copies a run for reading; false if it covers nothing or is being written.
    #[inline]
    pub(crate) fn read(&self, run: RunId, view: &mut RunView) -> bool {
        self.slab.get(run.0).is_some_and(|run| run.read(view))
    }

    /// Whether the run is still as it was when `view` was copied.
    pub(crate) fn is_unchanged(&self, run: RunId, view: &RunView) -> bool {
        self.slab.get(run.0).is_some_and(|run| run.is_unchanged(view))
    }

    /// Fetches a run that will be read.
    #[inline]
    pub(crate) fn prefetch(&self, run: RunId) {
        if let Some(run) = self.slab.get(run.0) {
            let at = std::ptr::from_ref(run).cast::<u8>();
            (0..size_of::<Run>()).step_by(64).for_each(|line| crate::prefetch::prefetch(at.wrapping_add(line)));
        }
    }

    /// Runs that a block names.
    pub(crate) fn len(&self) -> usize {
        let ids = self.ids.lock();
        ids.made as usize - ids.free.len()
    }

    /// Slots that name a run, as the run knows.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn named(&self, run: u32) -> u64 {
        self.slab.get(run).map_or(0, Run::named)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.slab.bytes() + self.ids.lock().free.capacity() * 4
    }

    fn run(&self, id: RunId) -> &Run {
        self.slab.get(id.0).expect("an id names a run that was made")
    }

    fn claim(&self) -> Option<RunId> {
        let mut ids = self.ids.lock();
        let id = match ids.free.pop() {
            Some(id) => id,
            // Out of ids the index is slower, not wrong.
            None if ids.made + 1 >= 1 << RunId::BITS => return None,
            None => {
                ids.made += 1;
                self.slab.make(ids.made, Run::new);
                ids.made
            }
        };
        Some(RunId(id))
    }
}

/// Runs of the first chunk; modelled, few, since loom keeps an eye on every one.
const FIRST: usize = if cfg!(routing_loom) { 4 } else { 512 };

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod tests;
