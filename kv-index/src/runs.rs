//! Path-compressed segments of the block tree (runs): consecutive blocks of one chain, and which pods hold them.
//!
//! Every block lies in a run: as its first block, its *head*, which [`Heads`] finds, or behind what it follows. So a search
//! looks up heads only: it reads a run, sees how far the run agrees with its chain, and looks up the next block as the head of
//! the next run. Hashes being cumulative, a run whose last hash is on the chain lies on it whole. Writers find a block by
//! the [`Directory`], which has every place of every run.
//!
//! A block that nobody holds any more in the middle of a run keeps its place there. A chain that leaves a run in its middle goes
//! on in a run of its own; where a run goes on in one that the same pods hold, the two become one.
//!
//! The rules that must never break:
//! - **A pod holds a block in one place.**
//! - A block has one place, or one as a head and one in the middle of a run. Both runs are *doubled* then, said before the second
//!   place can be seen: a search that loses a pod in such a run looks the block up. That happens where pods contradict each
//!   other about what a block follows; see [`placing`].

mod chunks;
mod entering;
mod holders;
mod islands;
mod leaving;
mod look;
mod merging;
mod placing;
mod run;

pub(crate) use leaving::{Gone, Span};
pub(crate) use merging::WAITING;
pub(crate) use placing::{Anchor, Take, Taken};
pub(crate) use run::View;

use crate::block::{BlockHash, Parent};
use crate::directory::Directory;
use crate::heads::Heads;
use crate::pod::PodId;
use crate::podset::PodSet;
use crate::reclaim::Pin;
use crate::runs::chunks::Chunks;
use crate::runs::run::{Run, Writing};
use crate::shared::SharedPodSet;
use crate::spread::Spread;
use crate::sync::{AtomicU64, Ordering};

/// The name of a run. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RunId(u32);

impl RunId {
    /// Bits an id takes: a run has a block, of which `Config` allows 2^24.
    pub(crate) const BITS: u32 = 25;

    pub(crate) const fn from_raw(raw: u32) -> Option<Self> {
        if raw == 0 { None } else { Some(Self(raw)) }
    }

    /// The name in the low bits of a word, which is not that of nothing.
    pub(crate) const fn from_low_bits(word: u64) -> Self {
        Self((word & ((1 << Self::BITS) - 1)) as u32)
    }

    pub(crate) const fn raw(self) -> u32 {
        self.0
    }
}

/// A block's place: its run and how many blocks of the run come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) run: RunId,
    pub(crate) offset: u32,
}

impl Place {
    pub(crate) fn plus(self, blocks: usize) -> Self {
        Self { offset: self.offset + blocks as u32, ..self }
    }
}

/// Every run.
#[derive(Debug)]
pub(crate) struct Runs<const W: usize> {
    pub(crate) heads: Heads,
    pub(crate) directory: Directory,
    store: Chunks<Run<W>>,
    /// Stands for every run that is gone: it has no blocks.
    nobody: Run<W>,
    /// Runs that were ever made, so that one which is made anew under an id is told from the one before.
    births: AtomicU64,
    /// Pods that hold a block in the middle of a run without having said that it follows what is before it there: searches look up
    /// where they stop.
    loose: SharedPodSet<W>,
    /// Stretches that a pod holds behind a block that it lacks, over all runs.
    islands: AtomicU64,
    /// Walks from run to run that are under way: nothing is merged meanwhile.
    walks: AtomicU64,
    /// Bytes of the runs' own arrays.
    array_bytes: AtomicU64,
}

/// Nothing is merged while there is one.
pub(crate) struct Still<'a>(&'a AtomicU64);

impl Drop for Still<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl<const W: usize> Runs<W> {
    pub(crate) fn new(spread: Spread) -> Self {
        Self {
            heads: Heads::new(spread),
            directory: Directory::new(spread),
            store: Chunks::new(),
            nobody: Run::new(0),
            births: AtomicU64::new(1),
            loose: SharedPodSet::new(),
            islands: AtomicU64::new(0),
            walks: AtomicU64::new(0),
            array_bytes: AtomicU64::new(0),
        }
    }

    /// Looks at a run.
    #[inline]
    pub(crate) fn view<'p>(&'p self, run: RunId, pin: &'p Pin) -> View<'p, W> {
        self.run(run, pin).view(pin)
    }

    /// Whether nothing was published in a run since this version.
    #[inline]
    pub(crate) fn is_at(&self, run: RunId, version: u64, pin: &Pin) -> bool {
        self.run(run, pin).is_at(version)
    }

    /// Asks for a run's lines ahead of their use.
    #[inline]
    pub(crate) fn prefetch(&self, run: RunId, pin: &Pin) {
        self.run(run, pin).prefetch();
    }

    /// Looks at all of a run: asks for its lines before it reads the first.
    #[inline]
    pub(crate) fn view_whole<'p>(&'p self, run: RunId, pin: &'p Pin) -> View<'p, W> {
        let run = self.run(run, pin);
        run.prefetch();
        run.view(pin)
    }

    /// Pods whose places say less than they hold.
    #[inline]
    pub(crate) fn loose(&self) -> PodSet<W> {
        self.loose.get()
    }

    pub(crate) fn set_loose(&self, pod: PodId) {
        self.loose.insert(pod);
    }

    /// The pod holds nothing any more.
    pub(crate) fn unset_loose(&self, pod: PodId) {
        self.loose.remove(pod);
    }

    /// Whether the block at a place is this one.
    #[inline]
    pub(crate) fn is_there(&self, at: Place, hash: BlockHash, pin: &Pin) -> bool {
        loop {
            let view = self.view(at.run, pin);
            let there = view.is_at(at.offset, hash);
            if view.is_current() {
                return there;
            }
        }
    }

    /// Keeps every block in its run until the guard is dropped, so that a walk from run to run meets each once.
    pub(crate) fn hold_still(&self) -> Still<'_> {
        // SeqCst, and before the first run is locked: who merges that one later sees it.
        self.walks.fetch_add(1, Ordering::SeqCst);
        Still(&self.walks)
    }

    /// Hands out what a pod holds of a run: where each stretch begins, what that follows, and its blocks.
    pub(crate) fn for_held(&self, pod: PodId, id: RunId, pin: &Pin, mut each: impl FnMut(Place, Parent, &[BlockHash])) {
        let run = self.lock(id, pin);
        for (from, to) in run.holders.held(pod, 0, run.holders.len()) {
            let parent = match from {
                // Of what others said nobody knows whether this pod did.
                0 if run.is_apart() => Parent::Unknown,
                0 => run.parent(),
                _ => Parent::Block(run.hash(from as usize - 1)),
            };
            let blocks: Vec<BlockHash> = (from..to).map(|at| run.hash(at as usize)).collect();
            each(Place { run: id, offset: from }, parent, &blocks);
        }
    }

    /// Whether a pod has a part in a run.
    pub(crate) fn has(&self, pod: PodId, run: RunId, pin: &Pin) -> bool {
        self.lock(run, pin).holders.has(pod)
    }

    fn count_islands(&self, before: usize, after: usize) {
        if before != after {
            // Relaxed: a count that publishes nothing. Wraps, both ways, to the right sum.
            self.islands.fetch_add((after as u64).wrapping_sub(before as u64), Ordering::Relaxed);
        }
    }

    /// Runs in use.
    pub(crate) fn len(&self) -> usize {
        self.store.len()
    }

    pub(crate) fn islands(&self) -> usize {
        self.islands.load(Ordering::Relaxed) as usize
    }

    /// Bytes of all runs, arrays of hashes and tables included.
    pub(crate) fn bytes(&self) -> usize {
        // Relaxed: a sum that publishes nothing.
        let arrays = self.array_bytes.load(Ordering::Relaxed) as usize;
        let tables = self.heads.bytes() + self.directory.bytes();
        arrays + tables + self.store.bytes()
    }

    /// Panics if the runs' arrays take other bytes than counted.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn audit_bytes(&self, pin: &Pin) {
        // Before the look at each, which lets go of counts that are past.
        let counted = self.array_bytes.load(Ordering::Relaxed);
        let bytes: usize = self.store.ids().into_iter().map(|id| self.lock(RunId(id), pin).own_bytes()).sum();
        assert_eq!(bytes as u64, counted, "bytes of arrays");
    }

    /// A run's blocks, who holds which, and whether some may be elsewhere too: for audits.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn content(&self, run: RunId, pin: &Pin) -> (Vec<BlockHash>, holders::Holders<W>, bool) {
        let writing = self.lock(run, pin);
        let hashes = (0..writing.holders.len() as usize).map(|at| writing.hash(at)).collect();
        (hashes, writing.holders.clone(), writing.is_doubled())
    }

    /// Keeps other writers of a run waiting until the guard is dropped.
    fn lock<'p>(&'p self, id: RunId, pin: &'p Pin) -> Writing<'p, W> {
        self.run(id, pin).lock(&self.array_bytes, pin)
    }

    /// A run, or one without blocks if that is gone.
    #[inline]
    fn run<'p>(&'p self, id: RunId, pin: &'p Pin) -> &'p Run<W> {
        self.store.get(id.0, pin).unwrap_or(&self.nobody)
    }

    fn claim(&self) -> RunId {
        // Relaxed: a number that no other has.
        RunId(self.store.claim(|| Run::new(self.births.fetch_add(1, Ordering::Relaxed))))
    }

    fn give_back(&self, id: RunId, pin: &Pin) {
        let leave = |run: &Run<W>| {
            // Relaxed: a sum that publishes nothing.
            self.array_bytes.fetch_sub(run.kept_bytes(), Ordering::Relaxed);
        };
        self.store.give_back(id.0, leave, pin);
    }
}

/// Most blocks of a run: an offset takes sixteen bits.
pub(crate) const LONGEST: usize = if cfg!(routing_loom) { 3 } else { u16::MAX as usize };

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod tests;
