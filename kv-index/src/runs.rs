//! Path-compressed segments of the block tree (runs): consecutive blocks of one chain, and which pods hold them.
//!
//! Every block that a pod came to hold together with what it follows lies in exactly one run: as its first block, its
//! *head*, which [`Heads`] finds, or right behind its parent. So a search looks up heads only: it reads a run, sees
//! how far the run agrees with its chain, and looks up the next block as the head of the next run. Hashes being
//! cumulative, a run whose last hash is on the chain lies on it whole.
//!
//! Nothing is ever split or merged, so that a pod may keep a block's place for as long as it holds the block. A chain
//! that leaves a run in its middle goes on in a run of its own; a block that nobody holds any more in the
//! middle of a run keeps its place there.
//!
//! The rule that must never break: **a block is in one place**. A place for a block is made under the lock of the run
//! that its parent is in, or by the table of heads if it has none; see [`placing`].

mod holders;
mod islands;
mod placing;
mod run;

pub(crate) use placing::{Anchor, Take, Taken};
pub(crate) use run::View;

#[cfg(any(test, fuzzing))]
use crate::block::BlockHash;
use crate::block::Parent;
use crate::heads::Heads;
use crate::pod::PodId;
use crate::reclaim::Pin;
use crate::runs::run::{Run, Writing};
use crate::slab::Slab;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The name of a run. Never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunId(u32);

impl RunId {
    /// Bits an id takes: a run has a block, of which `Config` allows 2^24.
    pub(crate) const BITS: u32 = 25;

    pub(crate) const fn from_raw(raw: u32) -> Option<Self> {
        if raw == 0 { None } else { Some(Self(raw)) }
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

/// Consecutive blocks of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) run: RunId,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Every run.
#[derive(Debug)]
pub(crate) struct Runs<const W: usize> {
    slab: Slab<Run<W>, FIRST>,
    ids: Mutex<Ids>,
    /// Stretches that a pod holds behind a block that it lacks, over all runs.
    islands: AtomicU64,
    /// Runs that begin behind a block which may be nowhere, or have come anew. While there are none, a block whose
    /// parent is new is new too, and nobody has to look it up.
    orphans: AtomicU64,
    /// Bytes of the runs' own arrays.
    array_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Ids {
    free: Vec<u32>,
    made: u32,
}

impl<const W: usize> Runs<W> {
    pub(crate) fn new() -> Self {
        Self {
            slab: Slab::new(),
            ids: Mutex::new(Ids::default()),
            islands: AtomicU64::new(0),
            orphans: AtomicU64::new(0),
            array_bytes: AtomicU64::new(0),
        }
    }

    /// Looks at a run.
    #[inline]
    pub(crate) fn view<'p>(&'p self, run: RunId, pin: &'p Pin) -> View<'p, W> {
        self.run(run).view(pin)
    }

    /// Whether nothing was published in a run since this version.
    #[inline]
    pub(crate) fn is_at(&self, run: RunId, version: u64) -> bool {
        self.run(run).is_at(version)
    }

    /// Asks for a run's lines ahead of their use.
    #[inline]
    pub(crate) fn prefetch(&self, run: RunId) {
        let at = std::ptr::from_ref(self.run(run)).cast::<u8>();
        (0..size_of::<Run<W>>()).step_by(64).for_each(|line| crate::prefetch::prefetch(at.wrapping_add(line)));
    }

    /// A pod lost spans of one run, in order; how many of their blocks nobody holds any more.
    pub(crate) fn remove(&self, heads: &Heads, pod: PodId, spans: &[Span], pin: &Pin) -> usize {
        let (mut rest, mut gone) = (spans, 0);
        while let Some((&Span { run, from, to }, before)) = rest.split_last() {
            if !self.run(run).shorten_own(pod, from, to) {
                let mut writing = self.lock(run, pin);
                let islands = writing.holders.islands();
                gone += rest.iter().map(|span| writing.holders.remove(pod, span.from, span.to)).sum::<u32>();
                self.finish(heads, run, writing, islands, pin);
                break;
            }
            (rest, gone) = (before, gone + to - from);
        }
        gone as usize
    }

    /// A pod lost all it had in a run; how many blocks nobody holds any more. Does nothing if it had nothing.
    pub(crate) fn drop_pod(&self, heads: &Heads, pod: PodId, run: RunId, pin: &Pin) -> usize {
        let mut writing = self.lock(run, pin);
        let before = writing.holders.islands();
        if !writing.holders.has(pod) {
            return 0;
        }
        let gone = writing.holders.drop_pod(pod);
        self.finish(heads, run, writing, before, pin);
        gone as usize
    }

    /// What the block at a place that some pod holds follows.
    pub(crate) fn parent(&self, at: Place, pin: &Pin) -> Parent {
        let run = self.lock(at.run, pin);
        let parent = if at.offset == 0 { run.parent() } else { Some(run.hash(at.offset as usize - 1)) };
        parent.map_or(Parent::Root, Parent::Block)
    }

    /// Publishes a run that pods left, or frees it if nobody holds any of it; it had so many `islands`.
    fn finish(&self, heads: &Heads, id: RunId, mut writing: Writing<'_, W>, islands: usize, pin: &Pin) {
        self.count_islands(islands, writing.holders.islands());
        let len = writing.holders.len();
        let family = writing.family();
        if len == 0 || family.orphans_at(len) {
            // Relaxed, and before the blocks can be seen to be gone: whoever sees that, under this run's lock or by
            // the head that is removed below, sees the orphans too.
            self.orphans.fetch_add(std::mem::take(&mut family.children).into(), Ordering::Relaxed);
            family.life = family.life.wrapping_add(1);
        }
        if len > 0 {
            return writing.publish();
        }
        if let Some(head) = writing.head() {
            heads.remove(head, pin);
        }
        let parent = writing.family().parent.take();
        writing.publish();
        drop(writing);
        self.give_back(id);
        if let Some((parent, life)) = parent {
            if !self.run(parent).lose_child(life) {
                self.orphans.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn count_islands(&self, before: usize, after: usize) {
        if before != after {
            // Relaxed: a count that publishes nothing. Wraps, both ways, to the right sum.
            self.islands.fetch_add((after as u64).wrapping_sub(before as u64), Ordering::Relaxed);
        }
    }

    /// Runs in use.
    pub(crate) fn len(&self) -> usize {
        let ids = self.ids.lock();
        ids.made as usize - ids.free.len()
    }

    /// Ids given out so far, from 1 on.
    pub(crate) fn made(&self) -> u32 {
        self.ids.lock().made
    }

    pub(crate) fn islands(&self) -> usize {
        self.islands.load(Ordering::Relaxed) as usize
    }

    /// Bytes of all runs, arrays of hashes included.
    pub(crate) fn bytes(&self) -> usize {
        // Relaxed: a sum that publishes nothing.
        let arrays = self.array_bytes.load(Ordering::Relaxed) as usize;
        arrays + self.slab.bytes() + self.ids.lock().free.capacity() * 4
    }

    /// Panics if the runs' arrays take other bytes than counted.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn audit_bytes(&self, pin: &Pin) {
        // Before the look at each, which lets go of counts that are past.
        let counted = self.array_bytes.load(Ordering::Relaxed);
        let bytes: usize = (1..=self.made()).map(|id| self.lock(RunId(id), pin).own_bytes()).sum();
        assert_eq!(bytes as u64, counted, "bytes of arrays");
    }

    /// A run's blocks and who holds which: for audits.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn content(&self, run: RunId, pin: &Pin) -> (Vec<BlockHash>, holders::Holders<W>) {
        let writing = self.lock(run, pin);
        let hashes = (0..writing.holders.len() as usize).map(|at| writing.hash(at)).collect();
        (hashes, writing.holders.clone())
    }

    /// Keeps other writers of a run waiting until the guard is dropped.
    fn lock<'p>(&'p self, id: RunId, pin: &'p Pin) -> Writing<'p, W> {
        self.run(id).lock(&self.array_bytes, pin)
    }

    #[inline]
    fn run(&self, id: RunId) -> &Run<W> {
        self.slab.get(id.0).expect("an id names a run that was made")
    }

    fn claim(&self) -> RunId {
        let mut ids = self.ids.lock();
        RunId(ids.free.pop().unwrap_or_else(|| {
            ids.made += 1;
            assert!(ids.made < 1 << RunId::BITS, "runs are bounded by the configured blocks");
            self.slab.make(ids.made, Run::new);
            ids.made
        }))
    }

    fn give_back(&self, id: RunId) {
        self.ids.lock().free.push(id.0);
    }
}

/// Most blocks of a run: an offset takes sixteen bits.
pub(crate) const LONGEST: usize = if cfg!(routing_loom) { 3 } else { u16::MAX as usize };

/// Runs of the first chunk; modelled, few, since loom keeps an eye on every one.
const FIRST: usize = if cfg!(routing_loom) { 4 } else { 512 };

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod tests;
