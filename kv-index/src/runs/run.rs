//! One run in memory: what readers copy, and how a writer publishes the next state.
//!
//! A run has two records. A writer fills the one that is not current and makes it current by counting `version`
//! up; a reader that finds the version unchanged has read what one writer left. A reader is turned back only by
//! a publication in its course, never by a writer that sleeps: it waits for nobody.

use std::fmt;

use crate::block::BlockHash;
use crate::pod::PodId;
use crate::podset::PodSet;
use crate::reclaim::Pin;
use crate::runs::RunId;
use crate::runs::holders::{Cut, Holders, INLINE};
use crate::runs::islands::Islands;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, fence};

/// A run: five cache lines for 256 pods, of which a reader mostly wants two.
#[repr(C, align(64))]
pub(super) struct Run<const W: usize> {
    /// Publications so far; the lowest bit says which record is current.
    version: AtomicU64,
    writer: Mutex<Writer>,
    records: [Record<W>; 2],
}

/// What only writers read.
#[derive(Debug, Default)]
struct Writer {
    /// The hash of the block before the first one; zero if that is the start of a prompt.
    parent: u64,
    islands: Option<Box<Islands>>,
    /// Room in the array of hashes.
    capacity: u32,
    family: Family,
}

/// Which runs go on where this one is left, and which one this goes on from.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Family {
    /// Runs that begin behind a block of this one, orphans left out.
    pub(super) children: u32,
    /// The last block that one begins behind, or one behind that.
    pub(super) deepest: u32,
    /// Counted up when blocks leave that children may go on from: these are orphans from then on.
    pub(super) life: u32,
    /// The run that this one goes on from, and its life at that time.
    pub(super) parent: Option<(RunId, u32)>,
}

impl Family {
    /// Whether children would begin behind nothing if the run had `len` blocks.
    pub(super) fn orphans_at(self, len: u32) -> bool {
        self.children > 0 && self.deepest >= len
    }

    /// Whether a child may begin behind the last block of the run, which has `len`.
    pub(super) fn goes_on_at(self, len: u32) -> bool {
        self.children > 0 && self.deepest + 1 >= len
    }

    /// A run begins behind the block at `offset`.
    pub(super) fn add_child(&mut self, offset: u32) {
        self.deepest = if self.children == 0 { offset } else { self.deepest.max(offset) };
        self.children += 1;
    }
}

// What a gateway of up to 256 pods pays for a run.
#[cfg(all(target_pointer_width = "64", not(all(test, routing_loom))))]
const _: () = assert!(size_of::<Run<4>>() == 320);

/// What readers read: one state of the run.
#[repr(C, align(64))]
struct Record<const W: usize> {
    /// The first block's hash; zero while the run is not in use.
    head: AtomicU64,
    /// The last block's.
    last: AtomicU64,
    /// Every block's, in a place that only grows by moving.
    hashes: AtomicPtr<AtomicU64>,
    /// Blocks in the low half, cuts in the high half.
    shape: AtomicU64,
    base: [AtomicU64; W],
    /// The cuts that have no place in `cuts`.
    spill: AtomicPtr<AtomicU32>,
    cuts: [AtomicU32; INLINE],
}

impl<const W: usize> Run<W> {
    pub(super) fn new() -> Self {
        Self {
            version: AtomicU64::new(0),
            writer: Mutex::new(Writer::default()),
            records: [Record::new(), Record::new()],
        }
    }

    /// Looks at the run as it is.
    #[inline]
    pub(super) fn view<'p>(&'p self, pin: &'p Pin) -> View<'p, W> {
        loop {
            // Acquire: pairs with the Release of `publish`: what follows is at least that new.
            let version = self.version.load(Ordering::Acquire);
            let record = &self.records[(version & 1) as usize];
            let shape = record.shape.load(Ordering::Relaxed);
            let view = View {
                run: self,
                record,
                version,
                head: record.head.load(Ordering::Relaxed),
                last: record.last.load(Ordering::Relaxed),
                hashes: record.hashes.load(Ordering::Relaxed),
                spill: record.spill.load(Ordering::Relaxed),
                len: shape as u32,
                cuts: (shape >> 32) as u32,
                _pin: pin,
            };
            if view.is_current() {
                return view;
            }
        }
    }

    /// Whether nothing was published since this version.
    #[inline]
    pub(super) fn is_at(&self, version: u64) -> bool {
        // Relaxed: whoever read that version has seen to the order in `View::is_current`.
        self.version.load(Ordering::Relaxed) == version
    }

    /// Bytes of the arrays.
    pub(super) fn bytes(&self) -> usize {
        let record = &self.records[(self.version.load(Ordering::Relaxed) & 1) as usize];
        let cuts = (record.shape.load(Ordering::Relaxed) >> 32) as usize;
        let writer = self.writer.lock();
        writer.capacity as usize * 8
            + cuts.saturating_sub(INLINE) * 4
            + writer.islands.as_ref().map_or(0, |islands| islands.bytes())
    }

    /// Makes the run longer by the first `count` of `blocks`, if `pod` holds all of it, nobody else any, and it ends
    /// at `from`; the commonest change by far, done without taking the holders apart. `count` is asked for under the lock.
    pub(super) fn extend_own(
        &self,
        pod: PodId,
        from: u32,
        blocks: &[BlockHash],
        count: impl FnOnce(Family) -> usize,
    ) -> Option<usize> {
        let writer = self.writer.lock();
        let (version, record) = self.own(&writer, pod, from)?;
        let count = count(writer.family);
        let len = from as usize + count;
        if count == 0 || len > writer.capacity as usize {
            return None;
        }
        // SAFETY: the array has room for `len`; it lives until a writer, which only we can be now, gives it up.
        let hashes = unsafe { std::slice::from_raw_parts(record.hashes.load(Ordering::Relaxed), len) };
        for (to, block) in hashes[from as usize..].iter().zip(blocks) {
            // Relaxed: as in `write`.
            to.store(block.get(), Ordering::Relaxed);
        }
        self.publish_length(version, record, len as u32, blocks[count - 1].get());
        Some(count)
    }

    /// Makes the run end at `from` instead of `to`, if `pod` holds all of it, nobody else any, and no run goes on
    /// from it: whether it did.
    pub(super) fn shorten_own(&self, pod: PodId, from: u32, to: u32) -> bool {
        let writer = self.writer.lock();
        let orphans = writer.family.orphans_at(from);
        let Some((version, record)) = self.own(&writer, pod, to).filter(|_| from > 0 && !orphans) else {
            return false;
        };
        // SAFETY: as in `extend_own`, and `from` is less than the run's length.
        let last = unsafe { (*record.hashes.load(Ordering::Relaxed).add(from as usize - 1)).load(Ordering::Relaxed) };
        self.publish_length(version, record, from, last);
        true
    }

    /// The version and record, if `pod` holds all of the run, nobody else any, and it has `len` blocks.
    fn own(&self, writer: &Writer, pod: PodId, len: u32) -> Option<(u64, &Record<W>)> {
        // Relaxed, here and below: only holders of the run's lock write it.
        let version = self.version.load(Ordering::Relaxed);
        let record = &self.records[(version & 1) as usize];
        let of_length = record.shape.load(Ordering::Relaxed) == u64::from(len);
        let one = PodSet::<W>::of_one(pod);
        let of_one = record.base.iter().zip(one.words()).all(|(word, one)| word.load(Ordering::Relaxed) == *one);
        (of_length && of_one && writer.islands.is_none()).then_some((version, record))
    }

    /// Publishes what `record` says, with another length.
    fn publish_length(&self, version: u64, record: &Record<W>, len: u32, last: u64) {
        let next = &self.records[(version & 1 ^ 1) as usize];
        // Release: as in `publish`.
        fence(Ordering::Release);
        next.head.store(record.head.load(Ordering::Relaxed), Ordering::Relaxed);
        next.last.store(last, Ordering::Relaxed);
        next.hashes.store(record.hashes.load(Ordering::Relaxed), Ordering::Relaxed);
        next.shape.store(len.into(), Ordering::Relaxed);
        for (to, from) in next.base.iter().zip(&record.base) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        next.spill.store(std::ptr::null_mut(), Ordering::Relaxed);
        // Release: publishes the record and the hashes; pairs with `view`.
        self.version.store(version + 1, Ordering::Release);
    }

    /// One run less goes on from this one as it was in that life: whether it is still that life.
    pub(super) fn lose_child(&self, life: u32) -> bool {
        let mut writer = self.writer.lock();
        let same = writer.family.life == life;
        writer.family.children -= u32::from(same);
        same
    }

    /// Keeps other writers waiting until the guard is dropped.
    pub(super) fn lock<'p>(&'p self, pin: &'p Pin) -> Writing<'p, W> {
        let mut writer = self.writer.lock();
        let view = self.view(pin);
        let cuts = (0..view.cuts).map(|at| view.cut(at));
        let holders = Holders::from_parts(view.len, view.base(), cuts, std::mem::take(&mut writer.islands));
        Writing {
            head: view.head,
            hashes: view.hashes,
            spill: view.spill,
            outgrown: None,
            holders,
            run: self,
            writer,
            pin,
        }
    }
}

impl<const W: usize> Drop for Run<W> {
    fn drop(&mut self) {
        let capacity = self.writer.lock().capacity;
        let record = &self.records[(self.version.load(Ordering::Relaxed) & 1) as usize];
        let cuts = (record.shape.load(Ordering::Relaxed) >> 32) as usize;
        drop(Array::from_raw(record.hashes.load(Ordering::Relaxed), capacity as usize));
        drop(Array::from_raw(record.spill.load(Ordering::Relaxed), cuts.saturating_sub(INLINE)));
    }
}

impl<const W: usize> fmt::Debug for Run<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("version", &self.version.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}

impl<const W: usize> Record<W> {
    fn new() -> Self {
        Self {
            head: AtomicU64::new(0),
            last: AtomicU64::new(0),
            hashes: AtomicPtr::new(std::ptr::null_mut()),
            shape: AtomicU64::new(0),
            base: std::array::from_fn(|_| AtomicU64::new(0)),
            spill: AtomicPtr::new(std::ptr::null_mut()),
            cuts: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}

/// A run as a reader sees it. What is read through it counts only if the view is current afterwards.
#[derive(Clone, Copy)]
pub(crate) struct View<'p, const W: usize> {
    run: &'p Run<W>,
    record: &'p Record<W>,
    version: u64,
    head: u64,
    last: u64,
    hashes: *mut AtomicU64,
    spill: *mut AtomicU32,
    len: u32,
    cuts: u32,
    _pin: &'p Pin,
}

impl<'p, const W: usize> View<'p, W> {
    /// Whether nothing was published since.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        // Acquire: if a load before saw a store of a later writer, the load below sees the version that was
        // published before that store; pairs with the fence in `publish`.
        fence(Ordering::Acquire);
        self.run.version.load(Ordering::Relaxed) == self.version
    }

    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Whether the run begins with this block; a run that is not in use begins with none.
    #[inline]
    pub(crate) fn begins_with(&self, hash: BlockHash) -> bool {
        self.head == hash.get()
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub(crate) fn ends_with(&self, hash: BlockHash) -> bool {
        self.last == hash.get()
    }

    /// Whether the block at `offset`, which is below `len`, is this one.
    #[inline]
    pub(crate) fn has(&self, offset: usize, hash: BlockHash) -> bool {
        self.hash(offset) == hash.get()
    }

    #[inline]
    pub(crate) fn hash(&self, offset: usize) -> u64 {
        assert!(offset < self.len(), "no block beyond the run's end");
        // SAFETY: `hashes` and `len` are of one published state, since `view` found the version unchanged after
        // reading both, and in every such state the array has room for `len`. The array lives while we are pinned:
        // a writer gives it to `Pin::later` after publishing another, and we were pinned when this one was current.
        unsafe { (*self.hashes.add(offset)).load(Ordering::Relaxed) }
    }

    /// Asks for the line of a block's hash ahead of its use.
    #[inline]
    pub(crate) fn prefetch_hashes(&self, offset: usize) {
        crate::prefetch::prefetch(self.hashes.wrapping_add(offset));
    }

    /// Who holds the first block.
    #[inline]
    pub(crate) fn base(&self) -> PodSet<W> {
        PodSet::from_words(std::array::from_fn(|word| self.record.base[word].load(Ordering::Relaxed)))
    }

    /// The cuts, ascending.
    #[inline]
    pub(crate) fn cuts(&self) -> impl Iterator<Item = Cut> + use<'_, 'p, W> {
        (0..self.cuts).map(|at| self.cut(at))
    }

    #[inline]
    fn cut(&self, at: u32) -> Cut {
        let raw = match self.record.cuts.get(at as usize) {
            Some(cut) => cut.load(Ordering::Relaxed),
            // SAFETY: as for `hash`: `spill` has room for all cuts of its state beyond the first `INLINE`, and both
            // callers stay below that state's `cuts`.
            None => unsafe { (*self.spill.add(at as usize - INLINE)).load(Ordering::Relaxed) },
        };
        Cut::from_raw(raw)
    }
}

/// A run with its one writer.
pub(super) struct Writing<'p, const W: usize> {
    run: &'p Run<W>,
    writer: MutexGuard<'p, Writer>,
    head: u64,
    hashes: *mut AtomicU64,
    spill: *mut AtomicU32,
    /// The array that readers see until the new one is published.
    outgrown: Option<Array<AtomicU64>>,
    pub(super) holders: Holders<W>,
    pin: &'p Pin,
}

impl<'p, const W: usize> Writing<'p, W> {
    pub(super) fn begins_with(&self, hash: BlockHash) -> bool {
        self.head == hash.get()
    }

    pub(super) fn head(&self) -> Option<BlockHash> {
        (self.head != 0).then(|| BlockHash::new(self.head))
    }

    /// The block before the first one; none at the start of a prompt.
    pub(super) fn parent(&self) -> Option<BlockHash> {
        (self.writer.parent != 0).then(|| BlockHash::new(self.writer.parent))
    }

    pub(super) fn family(&mut self) -> &mut Family {
        &mut self.writer.family
    }

    /// The blocks' hashes.
    pub(super) fn hashes(&self) -> &[AtomicU64] {
        if self.hashes.is_null() {
            return &[];
        }
        // SAFETY: the array has room for the run's blocks, and lives until a writer, which only we can be now,
        // gives it up; it is all atomics.
        unsafe { std::slice::from_raw_parts(self.hashes, self.holders.len() as usize) }
    }

    pub(super) fn hash(&self, offset: usize) -> BlockHash {
        // Relaxed: only holders of the run's lock write it.
        BlockHash::new(self.hashes()[offset].load(Ordering::Relaxed))
    }

    /// How many of `blocks` the run has from `offset` on.
    pub(super) fn common(&self, offset: usize, blocks: &[BlockHash]) -> usize {
        let hashes = self.hashes().get(offset..).unwrap_or_default();
        hashes.iter().zip(blocks).take_while(|(hash, block)| hash.load(Ordering::Relaxed) == block.get()).count()
    }

    /// Begins the run anew: one pod holds these blocks, which follow `parent`.
    pub(super) fn begin(&mut self, parent: Option<BlockHash>, blocks: &[BlockHash], holders: Holders<W>) {
        self.writer.parent = parent.map_or(0, BlockHash::get);
        self.head = blocks[0].get();
        self.write(0, blocks);
        self.holders = holders;
    }

    /// Writes blocks behind the last one. Who holds them is for the caller to say.
    pub(super) fn write_behind(&mut self, blocks: &[BlockHash]) {
        self.write(self.holders.len() as usize, blocks);
    }

    fn write(&mut self, from: usize, blocks: &[BlockHash]) {
        let len = from + blocks.len();
        if len > self.writer.capacity as usize {
            let slack = if from == 0 { (len / 8).max(LEAST_SLACK) } else { (len / 4).max(2 * LEAST_SLACK) };
            let array = Array::new(len + slack, AtomicU64::new);
            for (to, hash) in array.iter().zip(&self.hashes()[..from]) {
                to.store(hash.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            self.outgrown = Array::from_raw(self.hashes, self.writer.capacity as usize);
            self.writer.capacity = array.len() as u32;
            self.hashes = array.into_raw();
        }
        // SAFETY: the array has room for `len`, as was just seen to; it is ours as in `hashes`.
        let hashes = unsafe { std::slice::from_raw_parts(self.hashes.add(from), blocks.len()) };
        for (to, block) in hashes.iter().zip(blocks) {
            // Relaxed: readers come here by a state that `publish` publishes, or find that theirs is no longer current.
            to.store(block.get(), Ordering::Relaxed);
        }
    }

    /// Makes the run's present state the one that readers see. A run without blocks is out of use.
    pub(super) fn publish(&mut self) {
        let (len, cuts) = (self.holders.len(), self.holders.cuts());
        let spilled = cuts.get(INLINE..).filter(|rest| !rest.is_empty());
        let spill = spilled.map_or(std::ptr::null_mut(), |rest| {
            let array = Array::new(rest.len(), AtomicU32::new);
            array.iter().zip(rest).for_each(|(to, cut)| to.store(cut.raw(), Ordering::Relaxed));
            array.into_raw()
        });
        let last = self.hashes().last().map_or(0, |last| last.load(Ordering::Relaxed));
        let head = if len > 0 { self.head } else { 0 };
        let version = self.run.version.load(Ordering::Relaxed);
        let old_cuts = (self.run.records[(version & 1) as usize].shape.load(Ordering::Relaxed) >> 32) as usize;
        let record = &self.run.records[(version & 1 ^ 1) as usize];
        // Release: a reader of the version before this one that sees a store below sees that its version has
        // passed; pairs with the fence in `is_current`.
        fence(Ordering::Release);
        record.head.store(head, Ordering::Relaxed);
        record.last.store(last, Ordering::Relaxed);
        let kept = len > 0 || self.writer.capacity as usize <= KEPT;
        let hashes = if kept { self.hashes } else { std::ptr::null_mut() };
        record.hashes.store(hashes, Ordering::Relaxed);
        record.shape.store(u64::from(len) | (cuts.len() as u64) << 32, Ordering::Relaxed);
        for (to, word) in record.base.iter().zip(self.holders.base().words()) {
            to.store(*word, Ordering::Relaxed);
        }
        for (to, cut) in record.cuts.iter().zip(cuts) {
            to.store(cut.raw(), Ordering::Relaxed);
        }
        record.spill.store(spill, Ordering::Relaxed);
        // Release: publishes the record and the arrays it names; pairs with `view`.
        self.run.version.store(version + 1, Ordering::Release);
        // Only now: a reader that pins after an array was given up must not be able to find it.
        let outgrown = self.outgrown.take();
        self.retire(outgrown);
        let spill = std::mem::replace(&mut self.spill, spill);
        self.retire(Array::from_raw(spill, old_cuts.saturating_sub(INLINE)));
        // A small array is kept for whoever uses the run next: short conversations come and go all the time.
        if len == 0 && self.writer.capacity as usize > KEPT {
            let capacity = std::mem::take(&mut self.writer.capacity);
            let hashes = std::mem::replace(&mut self.hashes, hashes);
            self.retire(Array::from_raw(hashes, capacity as usize));
        }
    }

    fn retire<T: Send + 'static>(&self, old: Option<Array<T>>) {
        if let Some(old) = old {
            self.pin.later(move || drop(old));
        }
    }
}

impl<const W: usize> Drop for Writing<'_, W> {
    fn drop(&mut self) {
        self.writer.islands = std::mem::take(&mut self.holders).into_islands();
    }
}

/// A boxed slice behind a pointer of one word, its length kept elsewhere.
struct Array<T>(Box<[T]>);

impl<T> Array<T> {
    fn new<V: Default>(len: usize, new: impl Fn(V) -> T) -> Self {
        Self((0..len).map(|_| new(V::default())).collect())
    }

    fn into_raw(self) -> *mut T {
        Box::into_raw(self.0).cast()
    }

    /// The array behind a pointer, if there is one; the caller is the only one to ask for it.
    fn from_raw(pointer: *mut T, len: usize) -> Option<Self> {
        if pointer.is_null() {
            return None;
        }
        // SAFETY: the pointer came from `into_raw` of an array of this length: of hashes, whose capacity is kept
        // beside them, or of spilled cuts, whose number is in the record. It was taken out of the run by whoever
        // asks, under the run's lock or in its drop, so this happens once.
        Some(Self(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(pointer, len)) }))
    }
}

impl<T> std::ops::Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// Blocks that an array of hashes may have room for to be kept with a run that nobody uses.
const KEPT: usize = 16;

/// Least room kept free in an array of hashes, in blocks.
const LEAST_SLACK: usize = 4;
