//! One run in memory: its words, how a reader copies them, and how a writer changes them.
//!
//! A versioned record with one writer at a time. The rule that must never break: a reader that finds the version
//! even and unchanged has copied what one writer left.

use smallvec::SmallVec;

use crate::block::BlockHash;
use crate::pod::PodId;
use crate::sets::{SetId, Sets};
use crate::sync::{AtomicU64, Backoff, Ordering, fence};

/// Whether blocks may be stored under a block that comes to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follow {
    Nothing,
    Perhaps,
}

impl Follow {
    fn flag(self) -> u64 {
        if self == Self::Perhaps { FOLLOWED } else { 0 }
    }
}

/// A copy of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunView {
    version: u64,
    /// Blocks covered.
    pub(crate) len: usize,
    /// The hash of the last of them.
    pub(crate) last: BlockHash,
    /// Whether anything outside the run may follow one of its blocks.
    pub(crate) followed: bool,
    count: usize,
    edges: [u64; EDGES],
}

impl RunView {
    /// Stretches of equal holders in order.
    #[inline]
    pub(crate) fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        self.edges[..self.count].iter().map(|&edge| unpack(edge))
    }
}

/// Consecutive blocks of a run with the same holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// One past the offset of the last.
    pub(crate) end: usize,
    pub(crate) set: SetId,
    /// The only pod that does not hold the next stretch too, if there is one next and it is so.
    pub(crate) leaver: Option<PodId>,
}

impl Default for RunView {
    fn default() -> Self {
        Self { version: 0, len: 0, last: BlockHash::new(0), followed: true, count: 0, edges: [0; EDGES] }
    }
}

/// Four cache lines. `version` is odd while a writer is at it.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Run {
    version: AtomicU64,
    /// Blocks covered, whether the run is open to more and may be followed, and the count of edges.
    shape: AtomicU64,
    /// The hash of the last block covered.
    last: AtomicU64,
    /// Blocks whose slot names this run: at least those covered.
    named: AtomicU64,
    edges: [AtomicU64; EDGES],
}

impl Run {
    pub(super) fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            shape: AtomicU64::new(0),
            last: AtomicU64::new(0),
            named: AtomicU64::new(0),
            edges: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Copies the run; false if it covers nothing or is being written.
    #[inline]
    pub(super) fn read(&self, view: &mut RunView) -> bool {
        // Acquire: pairs with the Release of `Writing::drop`, so what follows is at least that new.
        view.version = self.version.load(Ordering::Acquire);
        let shape = self.shape.load(Ordering::Relaxed);
        view.last = BlockHash::new(self.last.load(Ordering::Relaxed));
        view.len = (shape >> LEN_SHIFT) as usize;
        view.followed = shape & FOLLOWED != 0;
        view.count = ((shape & COUNT) as usize).min(EDGES);
        for (to, from) in view.edges[..view.count].iter_mut().zip(&self.edges) {
            *to = from.load(Ordering::Relaxed);
        }
        // Acquire: if any load above saw a writer's store, the load below sees that writer's version; pairs
        // with the fence in `lock`.
        fence(Ordering::Acquire);
        let unchanged = self.version.load(Ordering::Relaxed) == view.version;
        unchanged && view.version & 1 == 0 && view.len > 0
    }

    /// Whether the run is still as it was when `view` was copied.
    pub(super) fn is_unchanged(&self, view: &RunView) -> bool {
        self.version.load(Ordering::Acquire) == view.version
    }

    pub(super) fn is_followed(&self) -> bool {
        // Relaxed: the flag publishes nothing.
        self.shape.load(Ordering::Relaxed) & FOLLOWED != 0
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn named(&self) -> u64 {
        self.named.load(Ordering::Relaxed)
    }

    /// Keeps readers away, and other writers waiting, until the guard is dropped.
    pub(super) fn lock(&self) -> Writing<'_> {
        let backoff = Backoff::new();
        loop {
            let version = self.version.load(Ordering::Relaxed);
            // Acquire: pairs with the Release of `Writing::drop`: we see what the last writer wrote.
            if version & 1 == 0
                && self
                    .version
                    .compare_exchange_weak(version, version + 1, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                // Release: a reader that sees one of our stores sees the odd version; pairs with `read`.
                fence(Ordering::Release);
                return Writing { run: self, version: version + 2 };
            }
            backoff.snooze();
        }
    }
}

/// A run being written; readers turn away meanwhile.
pub(super) struct Writing<'a> {
    run: &'a Run,
    version: u64,
}

impl Writing<'_> {
    pub(super) fn begin(&mut self, hash: BlockHash, set: SetId, follow: Follow) {
        self.put(0, 1, set);
        self.run.last.store(hash.get(), Ordering::Relaxed);
        self.run.named.store(1, Ordering::Relaxed);
        self.reshape(1, 1, OPEN | follow.flag());
    }

    /// Appends a block behind `before`; its offset, if the run is open, ends there and has room.
    pub(super) fn push<const W: usize>(
        &mut self,
        sets: &Sets<W>,
        before: BlockHash,
        hash: BlockHash,
        set: SetId,
        follow: Follow,
    ) -> Option<usize> {
        let (len, count) = (self.len(), self.count());
        let fits = self.flags() & OPEN != 0 && len > 0 && len < LONGEST;
        if !fits || self.run.last.load(Ordering::Relaxed) != before.get() {
            return None;
        }
        let last = self.edge(count - 1).set;
        let count = if last == set { count } else { count + 1 };
        if count > EDGES {
            return None;
        }
        self.put(count - 1, len + 1, set);
        if last != set {
            self.label(sets, count - 2);
        }
        self.run.last.store(hash.get(), Ordering::Relaxed);
        self.run.named.store(self.named() + 1, Ordering::Relaxed);
        self.reshape(len + 1, count, self.flags() | follow.flag());
        Some(len)
    }

    /// Uncovers the last block. The run stays open: nobody behind it names it.
    pub(super) fn cut_last(&mut self, before: Option<BlockHash>) {
        let flags = self.flags();
        self.cut(self.len() - 1, before);
        self.reshape(self.len(), self.count(), flags);
    }

    /// Uncovers the block at `offset` and everything behind it, for good. What remains ends with `before`; if
    /// that is not known, nothing remains.
    pub(super) fn cut(&mut self, offset: usize, before: Option<BlockHash>) {
        let len = if before.is_some() { offset } else { 0 };
        let mut count = self.count();
        while count > 0 && (if count > 1 { self.edge(count - 2).end } else { 0 }) >= len {
            count -= 1;
        }
        if count > 0 {
            self.put(count - 1, len, self.edge(count - 1).set);
        }
        self.run.last.store(before.map_or(0, BlockHash::get), Ordering::Relaxed);
        self.reshape(len, count, FOLLOWED);
    }

    /// Changes one block's holders; false if the edges would not fit.
    pub(super) fn set<const W: usize>(&mut self, sets: &Sets<W>, offset: usize, set: SetId) -> bool {
        let count = self.count();
        let at = (0..count).find(|&at| offset < self.edge(at).end).unwrap_or(count - 1);
        let start = if at > 0 { self.edge(at - 1).end } else { 0 };
        let here = self.edge(at);
        if here.end - start > 1 {
            // A store goes forward and an eviction backward, so mostly an edge moves by one.
            if at > 0 && offset == start && self.edge(at - 1).set == set {
                self.rewrite(at - 1, Stretch { end: offset + 1, ..self.edge(at - 1) });
                return true;
            }
            if at + 1 < count && offset + 1 == here.end && self.edge(at + 1).set == set {
                self.rewrite(at, Stretch { end: offset, ..here });
                return true;
            }
        }
        self.respell(sets, offset, set)
    }

    /// Changes one block's holders wherever it lies, writing all edges anew.
    fn respell<const W: usize>(&mut self, sets: &Sets<W>, offset: usize, set: SetId) -> bool {
        let mut edges: SmallVec<[Stretch; EDGES + 2]> = SmallVec::new();
        let (mut start, mut changed) = (0, 0);
        let mut put = |stretch: Stretch| {
            if edges.last().is_some_and(|last| last.set == stretch.set) {
                edges.pop();
            }
            edges.push(stretch);
            edges.len() - 1
        };
        for at in 0..self.count() {
            let old = self.edge(at);
            if (start..old.end).contains(&offset) {
                if start < offset {
                    put(Stretch { end: offset, ..old });
                }
                changed = put(Stretch { end: offset + 1, set, leaver: None });
                if offset + 1 < old.end {
                    put(old);
                }
            } else {
                put(old);
            }
            start = old.end;
        }
        if edges.len() > EDGES {
            return false;
        }
        for (at, stretch) in edges.iter().enumerate() {
            self.rewrite(at, *stretch);
        }
        // Who leaves at its end, and who before it, may be another now.
        for at in changed.saturating_sub(1)..(changed + 1).min(edges.len() - 1) {
            self.label(sets, at);
        }
        self.reshape(self.len(), edges.len(), self.flags());
        true
    }

    /// A block stops naming the run; true if it was the last to.
    pub(super) fn forget(&mut self) -> bool {
        let named = self.named().saturating_sub(1);
        debug_assert!(named as usize >= self.len(), "a run is named by all it covers");
        self.run.named.store(named, Ordering::Relaxed);
        named == 0
    }

    pub(super) fn len(&self) -> usize {
        (self.run.shape.load(Ordering::Relaxed) >> LEN_SHIFT) as usize
    }

    fn count(&self) -> usize {
        (self.run.shape.load(Ordering::Relaxed) & COUNT) as usize
    }

    fn flags(&self) -> u64 {
        self.run.shape.load(Ordering::Relaxed) & (OPEN | FOLLOWED)
    }

    pub(super) fn mark_followed(&mut self) {
        self.reshape(self.len(), self.count(), self.flags() | FOLLOWED);
    }

    fn named(&self) -> u64 {
        self.run.named.load(Ordering::Relaxed)
    }

    #[inline]
    fn edge(&self, at: usize) -> Stretch {
        unpack(self.run.edges[at].load(Ordering::Relaxed))
    }

    fn put(&mut self, at: usize, end: usize, set: SetId) {
        self.rewrite(at, Stretch { end, set, leaver: None });
    }

    #[inline]
    fn rewrite(&mut self, at: usize, stretch: Stretch) {
        self.run.edges[at].store(pack(stretch), Ordering::Relaxed);
    }

    /// Works out who leaves between a stretch and the next.
    fn label<const W: usize>(&mut self, sets: &Sets<W>, at: usize) {
        let stretch = self.edge(at);
        let leaver = sets.leaver(stretch.set, self.edge(at + 1).set);
        self.rewrite(at, Stretch { leaver, ..stretch });
    }

    fn reshape(&mut self, len: usize, count: usize, flags: u64) {
        self.run.shape.store((len as u64) << LEN_SHIFT | flags | count as u64, Ordering::Relaxed);
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        // Release: publishes the run as we leave it; pairs with `lock` and `read`.
        self.run.version.store(self.version, Ordering::Release);
    }
}

/// A stretch in a word: who leaves (or zero), where it ends, who holds it.
#[inline]
fn pack(stretch: Stretch) -> u64 {
    let leaver = stretch.leaver.map_or(0, |pod| pod.index() as u64 + 1);
    leaver << LEAVER_SHIFT | (stretch.end as u64) << SetId::BITS | u64::from(stretch.set.raw())
}

#[inline]
fn unpack(edge: u64) -> Stretch {
    let leaver = (edge >> LEAVER_SHIFT) as u16;
    Stretch {
        end: (edge >> SetId::BITS) as usize & (2 * LONGEST - 1),
        set: SetId::from_raw((edge & ((1 << SetId::BITS) - 1)) as u32),
        leaver: leaver.checked_sub(1).map(PodId::new),
    }
}

/// Stretches a run can tell apart.
const EDGES: usize = 28;

/// Blocks a run can cover: what an offset in a slot can count.
pub(crate) const LONGEST: usize = 1 << 16;

/// An end is at most `LONGEST`, so it takes one bit more than an offset.
const LEAVER_SHIFT: u32 = SetId::BITS + LONGEST.ilog2() + 1;

const LEN_SHIFT: u32 = 32;
const COUNT: u64 = OPEN - 1;
/// The run may grow.
const OPEN: u64 = 1 << 8;
/// Something outside the run may follow one of its blocks.
const FOLLOWED: u64 = 1 << 9;
