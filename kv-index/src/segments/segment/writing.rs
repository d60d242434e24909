//! The writer's side of a segment: changes, and publication of the next version.

use super::{Segment, Shape, Writer};
use crate::blocks::{BlockHash, Parent};
use crate::reclamation::Pin;
use crate::segments::LONGEST;
use crate::segments::claims::Dissent;
use crate::segments::holders::{Holders, INLINE};
use crate::sync::{AtomicU32, AtomicU64, MutexGuard, Ordering, fence};

/// A segment with its one writer.
pub(in crate::segments) struct Writing<'p, const W: usize> {
    pub(super) segment: &'p Segment<W>,
    pub(super) writer: MutexGuard<'p, Writer<W>>,
    pub(super) head: u64,
    pub(super) hashes: *mut AtomicU64,
    pub(super) spill: *mut AtomicU32,
    /// As published.
    pub(super) shape: Shape,
    /// The array that readers see until the new one is published.
    pub(super) outgrown: Option<Array<AtomicU64>>,
    pub(in crate::segments) holders: Holders<W>,
    /// Bytes of all segments' arrays, and what this one's were of them.
    pub(super) bytes: &'p AtomicU64,
    pub(super) had: usize,
    pub(super) pin: &'p Pin,
}

impl<'p, const W: usize> Writing<'p, W> {
    pub(in crate::segments) fn begins_with(&self, hash: BlockHash) -> bool {
        self.head == hash.get()
    }

    pub(in crate::segments) fn head(&self) -> Option<BlockHash> {
        (self.head != 0).then(|| BlockHash::new(self.head))
    }

    /// What the first block follows, as far as anybody said.
    pub(in crate::segments) fn parent(&self) -> Parent {
        self.writer.parent
    }

    pub(in crate::segments) fn set_parent(&mut self, parent: Parent) {
        self.writer.parent = parent;
    }

    /// Whether the directory has an entry of the segment under its parent.
    pub(in crate::segments) fn waits(&self) -> bool {
        self.writer.waits
    }

    pub(in crate::segments) fn set_waits(&mut self, waits: bool) {
        self.writer.waits = waits;
    }

    /// How often the segment began anew.
    pub(in crate::segments) fn life(&self) -> u32 {
        self.shape.life
    }

    pub(in crate::segments) fn is_doubled(&self) -> bool {
        self.segment.is_doubled()
    }

    pub(in crate::segments) fn set_doubled(&self) {
        self.segment.set_doubled();
    }

    /// Who says that the first block follows something else than the parent, if anybody does.
    pub(in crate::segments) fn dissent(&self) -> Option<&Dissent<W>> {
        self.writer.dissent.as_deref()
    }

    pub(in crate::segments) fn take_dissent(&mut self) -> Option<Dissent<W>> {
        self.writer.dissent.take().map(|dissent| *dissent)
    }

    pub(in crate::segments) fn set_dissent(&mut self, dissent: Option<Dissent<W>>) {
        self.writer.dissent = dissent.map(Box::new);
    }

    pub(in crate::segments) fn is_unsaid(&self) -> bool {
        self.segment.is_unsaid()
    }

    pub(in crate::segments) fn set_unsaid(&self) {
        self.segment.set_unsaid();
    }

    /// The segment is about to begin anew.
    pub(in crate::segments) fn clear_flags(&self) {
        self.segment.clear_flags();
    }

    /// Places of the segment are void from now on, though its blocks may be elsewhere.
    pub(in crate::segments) fn end_life(&mut self) {
        self.shape = self.shape.next_life();
    }

    /// Whether the block at `offset` is this one, if there is one.
    pub(in crate::segments) fn is_at(&self, offset: u32, hash: BlockHash) -> bool {
        self.common(offset as usize, &[hash]) == 1
    }

    /// The blocks' hashes.
    pub(in crate::segments) fn hashes(&self) -> &[AtomicU64] {
        if self.hashes.is_null() {
            return &[];
        }
        // SAFETY: the array has room for the segment's blocks, and lives until a writer, which only we can be now,
        // gives it up; it is all atomics.
        unsafe { std::slice::from_raw_parts(self.hashes, self.holders.len() as usize) }
    }

    /// The hashes of the blocks that were the segment's last ones when it was locked and are so no more.
    pub(in crate::segments) fn trimmed(&self) -> &[AtomicU64] {
        let (from, to) = (self.holders.len() as usize, self.shape.len as usize);
        if self.hashes.is_null() || from >= to {
            return &[];
        }
        // SAFETY: as in `hashes`, which had so many when the segment was locked; nobody wrote there since.
        unsafe { std::slice::from_raw_parts(self.hashes.add(from), to - from) }
    }

    pub(in crate::segments) fn hash(&self, offset: usize) -> BlockHash {
        // Relaxed: only holders of the segment's lock write it.
        BlockHash::new(self.hashes()[offset].load(Ordering::Relaxed))
    }

    /// How many of `blocks` the segment has from `offset` on.
    pub(in crate::segments) fn common(&self, offset: usize, blocks: &[BlockHash]) -> usize {
        let hashes = self.hashes().get(offset..).unwrap_or_default();
        hashes.iter().zip(blocks).take_while(|(hash, block)| hash.load(Ordering::Relaxed) == block.get()).count()
    }

    /// Begins the segment anew with the first of these blocks, which follow `parent`.
    pub(in crate::segments) fn begin(&mut self, parent: Parent, blocks: &[BlockHash], holders: Holders<W>) {
        self.writer.parent = parent;
        self.shape = self.shape.next_life();
        self.head = blocks[0].get();
        // Of what follows nobody knows yet how much comes here.
        self.write(0, &blocks[..1], blocks.len().min(EXPECTED));
        self.holders = holders;
    }

    /// Writes blocks behind the last one. Who holds them is for the caller to say.
    pub(in crate::segments) fn write_behind(&mut self, blocks: &[BlockHash]) {
        self.write(self.holders.len() as usize, blocks, blocks.len());
    }

    /// Writes blocks from there on, where `room` of them are expected.
    fn write(&mut self, from: usize, blocks: &[BlockHash], room: usize) {
        let len = from + room.min(LONGEST - from);
        if len > self.writer.capacity as usize {
            let slack = if from == 0 { (len / 8).max(LEAST_SLACK) } else { (len / 4).max(2 * LEAST_SLACK) };
            let array = Array::new(len + slack, AtomicU64::new);
            for (to, hash) in array.iter().zip(&self.hashes()[..from]) {
                to.store(hash.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            // SAFETY: (1) the array of hashes is as long as `capacity` says, both changed together; (2) the next lines
            // replace it, and `publish` replaces it in the record, under the lock that we hold.
            self.outgrown = unsafe { Array::from_raw(self.hashes, self.writer.capacity as usize) };
            self.writer.capacity = array.len() as u32;
            self.hashes = array.into_raw();
        }
        // SAFETY: the array has room for `len`, as was just seen to; it is ours as in `hashes`.
        let hashes = unsafe { std::slice::from_raw_parts(self.hashes.add(from), blocks.len()) };
        // Release: a reader of an earlier version that sees a hash below sees that its version has passed, as in `publish`.
        fence(Ordering::Release);
        for (to, block) in hashes.iter().zip(blocks) {
            // Relaxed: readers come here by a state that `publish` publishes, or find that theirs is no longer current.
            to.store(block.get(), Ordering::Relaxed);
        }
    }

    /// Makes the segment's present state the one that readers see. A segment without blocks is out of use.
    pub(in crate::segments) fn publish(&mut self) {
        let (len, drop_offs) = (self.holders.len(), self.holders.drop_offs());
        let spilled = drop_offs.get(INLINE..).filter(|rest| !rest.is_empty());
        let spill = spilled.map_or(std::ptr::null_mut(), |rest| {
            let array = Array::new(rest.len(), AtomicU32::new);
            array.iter().zip(rest).for_each(|(to, drop_off)| to.store(drop_off.raw(), Ordering::Relaxed));
            array.into_raw()
        });
        let last = self.hashes().last().map_or(0, |last| last.load(Ordering::Relaxed));
        let head = if len > 0 { self.head } else { 0 };
        let version = self.segment.version.load(Ordering::Relaxed);
        let old_drop_offs =
            Shape::unpack(self.segment.records[(version & 1) as usize].shape.load(Ordering::Relaxed)).drop_offs;
        let record = &self.segment.records[(version & 1 ^ 1) as usize];
        // Release: a reader of the version before this one that sees a store below sees that its version has
        // passed; pairs with the fence in `is_current`.
        fence(Ordering::Release);
        record.head.store(head, Ordering::Relaxed);
        record.last.store(last, Ordering::Relaxed);
        let kept = len > 0 || self.writer.capacity as usize <= KEPT;
        let hashes = if kept { self.hashes } else { std::ptr::null_mut() };
        record.hashes.store(hashes, Ordering::Relaxed);
        let detached = self.holders.detached() > 0;
        self.shape = Shape { len, drop_offs: drop_offs.len() as u32, detached, ..self.shape };
        record.shape.store(self.shape.pack(), Ordering::Relaxed);
        for (to, word) in record.base.iter().zip(self.holders.base().words()) {
            to.store(*word, Ordering::Relaxed);
        }
        for (to, drop_off) in record.drop_offs.iter().zip(drop_offs) {
            to.store(drop_off.raw(), Ordering::Relaxed);
        }
        record.spill.store(spill, Ordering::Relaxed);
        // Release: publishes the record and the arrays it names; pairs with `view`.
        self.segment.version.store(version + 1, Ordering::Release);
        // Only now: a reader that pins after an array was given up must not be able to find it.
        let outgrown = self.outgrown.take();
        self.retire(outgrown);
        let spill = std::mem::replace(&mut self.spill, spill);
        // SAFETY: (1) the record before this one had `old_drop_offs`, and spilled all beyond `INLINE`; (2) neither this guard nor
        // the current record names it any more.
        self.retire(unsafe { Array::from_raw(spill, (old_drop_offs as usize).saturating_sub(INLINE)) });
        if len == 0 {
            self.writer.dissent = None;
        }
        // A small array is kept for whoever uses the segment next: short conversations come and go all the time.
        if len == 0 && self.writer.capacity as usize > KEPT {
            let capacity = std::mem::take(&mut self.writer.capacity);
            let hashes = std::mem::replace(&mut self.hashes, hashes);
            // SAFETY: (1) as in `write`; (2) both this guard and the current record have null in its place.
            self.retire(unsafe { Array::from_raw(hashes, capacity as usize) });
        }
    }

    /// Bytes of the segment's arrays.
    pub(in crate::segments) fn own_bytes(&self) -> usize {
        let dissent = self.dissent().map_or(0, Dissent::bytes);
        self.writer.capacity as usize * 8 + spilled(&self.holders) * 4 + self.holders.detached_bytes() + dissent
    }

    fn retire<T: Send + 'static>(&self, old: Option<Array<T>>) {
        if let Some(old) = old {
            self.pin.later(move || drop(old));
        }
    }
}

impl<const W: usize> Drop for Writing<'_, W> {
    fn drop(&mut self) {
        let (capacity, spilled) = (self.writer.capacity as usize, spilled(&self.holders));
        self.writer.detached = std::mem::take(&mut self.holders).into_detached();
        let detached = self.writer.detached.as_ref().map_or(0, |detached| detached.bytes());
        let has = capacity * 8 + spilled * 4 + detached + self.dissent().map_or(0, Dissent::bytes);
        if has != self.had {
            // Relaxed: a sum that publishes nothing. Wraps, both ways, to the right one.
            self.bytes.fetch_add((has as u64).wrapping_sub(self.had as u64), Ordering::Relaxed);
        }
    }
}

/// Drop-offs that have no place in the segment itself.
fn spilled<const W: usize>(holders: &Holders<W>) -> usize {
    holders.drop_offs().len().saturating_sub(INLINE)
}

/// A boxed slice behind a pointer of one word, its length kept elsewhere.
pub(super) struct Array<T>(Box<[T]>);

impl<T> Array<T> {
    fn new<V: Default>(len: usize, new: impl Fn(V) -> T) -> Self {
        Self((0..len).map(|_| new(V::default())).collect())
    }

    fn into_raw(self) -> *mut T {
        Box::into_raw(self.0).cast()
    }

    /// Takes the array behind a pointer back; none if the pointer is null.
    ///
    /// # Safety
    ///
    /// Unless the pointer is null:
    ///
    /// 1. It came from `into_raw` of an array of `len`.
    /// 2. No other call takes it back.
    pub(super) unsafe fn from_raw(pointer: *mut T, len: usize) -> Option<Self> {
        if pointer.is_null() {
            return None;
        }
        // SAFETY: by (1) this is the boxed slice that `into_raw` leaked, and by (2) nobody else owns it.
        Some(Self(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(pointer, len)) }))
    }
}

impl<T> std::ops::Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// Blocks that an array of hashes may have room for to be kept with a segment that nobody uses.
const KEPT: usize = 72;

/// Blocks that a segment has room for when it begins, if as many may come.
const EXPECTED: usize = 64;

/// Least room kept free in an array of hashes, in blocks.
const LEAST_SLACK: usize = 4;
