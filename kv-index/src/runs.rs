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

use smallvec::SmallVec;

use crate::block::BlockHash;
use crate::pod::PodId;
use crate::sets::{SetId, Sets};
use crate::slab::Slab;
use crate::sync::{AtomicU64, Backoff, Mutex, Ordering, fence};

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
        let run = self.run(run);
        // Relaxed: if it was set for an earlier use of the id, the block has left that run, and whatever run it
        // came to meanwhile was told that blocks may follow.
        if run.shape.load(Ordering::Relaxed) & FOLLOWED == 0 {
            run.lock().flag(FOLLOWED);
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
        self.slab.get(run.0).is_some_and(|run| run.version.load(Ordering::Acquire) == view.version)
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
        self.slab.get(run).map_or(0, |run| run.named.load(Ordering::Relaxed))
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
struct Run {
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
    fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            shape: AtomicU64::new(0),
            last: AtomicU64::new(0),
            named: AtomicU64::new(0),
            edges: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[inline]
    fn read(&self, view: &mut RunView) -> bool {
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

    fn lock(&self) -> Writing<'_> {
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
struct Writing<'a> {
    run: &'a Run,
    version: u64,
}

impl Writing<'_> {
    fn begin(&mut self, hash: BlockHash, set: SetId, follow: Follow) {
        self.put(0, 1, set);
        self.run.last.store(hash.get(), Ordering::Relaxed);
        self.run.named.store(1, Ordering::Relaxed);
        self.reshape(1, 1, OPEN | follow.flag());
    }

    /// Appends a block behind `before`; its offset, if the run is open, ends there and has room.
    fn push<const W: usize>(
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
    fn cut_last(&mut self, before: Option<BlockHash>) {
        let flags = self.flags();
        self.cut(self.len() - 1, before);
        self.reshape(self.len(), self.count(), flags);
    }

    /// Uncovers the block at `offset` and everything behind it, for good. What remains ends with `before`; if
    /// that is not known, nothing remains.
    fn cut(&mut self, offset: usize, before: Option<BlockHash>) {
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
    fn set<const W: usize>(&mut self, sets: &Sets<W>, offset: usize, set: SetId) -> bool {
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
        self.split(sets, offset, set)
    }

    /// Changes one block's holders wherever it lies, writing all edges anew.
    fn split<const W: usize>(&mut self, sets: &Sets<W>, offset: usize, set: SetId) -> bool {
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
    fn forget(&mut self) -> bool {
        let named = self.named().saturating_sub(1);
        debug_assert!(named as usize >= self.len(), "a run is named by all it covers");
        self.run.named.store(named, Ordering::Relaxed);
        named == 0
    }

    fn len(&self) -> usize {
        (self.run.shape.load(Ordering::Relaxed) >> LEN_SHIFT) as usize
    }

    fn count(&self) -> usize {
        (self.run.shape.load(Ordering::Relaxed) & COUNT) as usize
    }

    fn flags(&self) -> u64 {
        self.run.shape.load(Ordering::Relaxed) & (OPEN | FOLLOWED)
    }

    fn flag(&mut self, flag: u64) {
        self.reshape(self.len(), self.count(), self.flags() | flag);
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

/// Runs of the first chunk; modelled, few, since loom keeps an eye on every one.
const FIRST: usize = if cfg!(routing_loom) { 4 } else { 512 };

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

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod tests;
