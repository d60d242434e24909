//! One segment in memory: a seqlock-style versioned double buffer.
//!
//! A segment has two records. A writer fills the one that is not current and makes it current by counting `version`
//! up; a reader that finds the version unchanged has read what one writer left. A reader is turned back only by
//! a publication in its course, never by a writer that sleeps: it waits for nobody.

mod flags;
mod view;
mod writing;

pub(crate) use view::View;
pub(super) use writing::Writing;

use std::fmt;

use crate::blocks::{BlockHash, Parent};
use crate::pods::{PodId, PodSet};
use crate::reclamation::Pin;
use crate::segments::claims::Dissent;
use crate::segments::detached_spans::DetachedSpans;
use crate::segments::holders::{Holders, INLINE};
use crate::segments::segment::writing::Array;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Mutex, MutexGuard, Ordering, fence};

/// A segment: five cache lines for 256 pods, of which a reader mostly wants two.
#[repr(C, align(64))]
pub(super) struct Segment<const W: usize> {
    /// Publications so far; the lowest bit says which record is current.
    version: AtomicU64,
    /// See [`flags`].
    flags: AtomicU32,
    /// The segment that goes on from this one and could not become part of it, as far as it is worth another try; zero if none.
    next: AtomicU32,
    writer: Mutex<Writer<W>>,
    records: [Record<W>; 2],
}

/// What only writers read.
#[derive(Debug)]
struct Writer<const W: usize> {
    /// What the first block follows, as far as anybody said.
    parent: Parent,
    /// Who said something else, if anybody did.
    dissent: Option<Box<Dissent<W>>>,
    detached: Option<Box<DetachedSpans>>,
    /// Room in the array of hashes.
    capacity: u32,
    /// Whether the directory has an entry of the segment under its parent.
    waits: bool,
}

// What a gateway of up to 256 pods pays for a segment.
#[cfg(all(target_pointer_width = "64", not(all(test, routing_loom))))]
const _: () = assert!(size_of::<Segment<4>>() == 320);

/// What readers read: one state of the segment.
#[repr(C, align(64))]
struct Record<const W: usize> {
    /// The first block's hash; zero while the segment is not in use.
    head: AtomicU64,
    /// The last block's.
    last: AtomicU64,
    /// Every block's, in a place that only grows by moving.
    hashes: AtomicPtr<AtomicU64>,
    /// Blocks, drop-offs, and how often the segment began anew: see [`Shape`].
    shape: AtomicU64,
    base: [AtomicU64; W],
    /// The version at which a search found all blocks on its chain; of another one it says nothing.
    on_chain: AtomicU64,
    /// The drop-offs that have no place in `drop_offs`.
    spill: AtomicPtr<AtomicU32>,
    drop_offs: [AtomicU32; INLINE],
}

/// Spreads the lives that segments begin with.
const LIVES: u32 = 0x9E37_79B1;

/// A segment's length, how many drop-offs it has, and its *life*: how often it began anew, so that a place of an earlier life is told
/// from one of this.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    len: u32,
    drop_offs: u32,
    /// Whether some pod holds blocks behind one that it lacks.
    detached: bool,
    life: u32,
}

impl Shape {
    #[inline]
    fn unpack(word: u64) -> Self {
        Self {
            len: (word & 0x1_FFFF) as u32,
            drop_offs: (word >> 17 & 0x1_FFFF) as u32,
            detached: word >> 34 & 1 == 1,
            life: (word >> 35) as u32,
        }
    }

    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.len)
            | u64::from(self.drop_offs) << 17
            | u64::from(self.detached) << 34
            | u64::from(self.life) << 35
    }

    fn next_life(self) -> Self {
        Self { life: self.life.wrapping_add(1) & 0x1FFF_FFFF, ..self }
    }
}

impl<const W: usize> Segment<W> {
    /// The `birth`th segment: its versions and lives are not those of the one that had its id before.
    pub(super) fn new(birth: u64) -> Self {
        let shape = Shape { len: 0, drop_offs: 0, detached: false, life: (birth as u32).wrapping_mul(LIVES) >> 3 };
        Self {
            version: AtomicU64::new(birth << 24),
            flags: AtomicU32::new(0),
            next: AtomicU32::new(0),
            writer: Mutex::new(Writer {
                parent: Parent::Unknown,
                dissent: None,
                detached: None,
                capacity: 0,
                waits: false,
            }),
            records: [Record::new(shape), Record::new(shape)],
        }
    }

    #[inline]
    pub(super) fn prefetch(&self) {
        let at = std::ptr::from_ref(self).cast::<u8>();
        (0..size_of::<Self>()).step_by(64).for_each(|line| crate::prefetch::prefetch(at.wrapping_add(line)));
    }

    /// Looks at the segment as it is.
    #[inline]
    pub(super) fn view<'p>(&'p self, pin: &'p Pin) -> View<'p, W> {
        loop {
            // Acquire: pairs with the Release of `publish`: what follows is at least that new.
            let version = self.version.load(Ordering::Acquire);
            let record = &self.records[(version & 1) as usize];
            let shape = Shape::unpack(record.shape.load(Ordering::Relaxed));
            let view = View {
                segment: self,
                record,
                version,
                head: record.head.load(Ordering::Relaxed),
                last: record.last.load(Ordering::Relaxed),
                hashes: record.hashes.load(Ordering::Relaxed),
                spill: record.spill.load(Ordering::Relaxed),
                shape,
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

    /// Whether a store of `blocks` behind `parent` says nothing new: the segment begins with them, `pod` holds them all, and what the first one
    /// follows is known. Not everything that is nothing new is told.
    pub(super) fn is_known(&self, pod: PodId, parent: Parent, blocks: &[BlockHash], pin: &Pin) -> bool {
        let view = self.view(pin);
        let holds = view.reach(pod) as usize >= blocks.len();
        if !holds || !blocks.iter().enumerate().all(|(at, block)| view.has(at, *block)) {
            return false;
        }
        let writer = self.writer.lock();
        let is_said = parent != Parent::Unknown && writer.parent == parent && writer.dissent.is_none();
        is_said && view.is_current()
    }

    /// Makes the segment longer by the first of `blocks`, if `pod` holds all of it, nobody else any, and it ends with `last` at
    /// `from`; the commonest change by far, done without taking the holders apart. How many is asked for under the lock.
    pub(super) fn extend_own(
        &self,
        pod: PodId,
        last: BlockHash,
        from: u32,
        blocks: &[BlockHash],
        count: impl FnOnce(&[BlockHash]) -> usize,
    ) -> Option<usize> {
        let writer = self.writer.lock();
        let (version, record, shape) = self.own(&writer, pod, from)?;
        let room = (writer.capacity - from) as usize;
        // What is stored together is seen together: all of it or none.
        if room < blocks.len() || self.is_doubled() || record.last.load(Ordering::Relaxed) != last.get() {
            return None;
        }
        let count = count(blocks);
        if count == 0 {
            return None;
        }
        let len = from as usize + count;
        // SAFETY: the array has room for `len`; it lives until a writer, which only we can be now, gives it up.
        let hashes = unsafe { std::slice::from_raw_parts(record.hashes.load(Ordering::Relaxed), len) };
        // Release: a reader of an earlier version that sees a hash below sees that its version has passed, as in `publish`.
        fence(Ordering::Release);
        for (to, block) in hashes[from as usize..].iter().zip(blocks) {
            // Relaxed: as in `write`.
            to.store(block.get(), Ordering::Relaxed);
        }
        self.publish_length(version, record, Shape { len: len as u32, ..shape }, blocks[count - 1].get());
        Some(count)
    }

    /// Makes the segment end at `from` instead of `to`, if it is in that `life`, `pod` holds all of it and nobody else any: whether it
    /// did. The hashes that leave are handed to `forget` first.
    pub(super) fn shorten_own(
        &self,
        pod: PodId,
        life: u32,
        from: u32,
        to: u32,
        forget: impl FnOnce(&[AtomicU64]),
    ) -> bool {
        let writer = self.writer.lock();
        let own = self.own(&writer, pod, to).filter(|(.., shape)| from > 0 && shape.life == life);
        let Some((version, record, shape)) = own else { return false };
        // SAFETY: as in `extend_own`; `to` is the segment's length.
        let hashes = unsafe { std::slice::from_raw_parts(record.hashes.load(Ordering::Relaxed), to as usize) };
        forget(&hashes[from as usize..]);
        let last = hashes[from as usize - 1].load(Ordering::Relaxed);
        self.publish_length(version, record, Shape { len: from, ..shape }, last);
        true
    }

    /// Whether, at a glance, `pod` holds all of the segment, nobody else any, and it has `len` blocks: whether the lock is worth it.
    #[inline]
    pub(super) fn is_own(&self, pod: PodId, len: u32) -> bool {
        self.published(pod, len).is_some()
    }

    /// The version, record and shape, if `pod` holds all of the segment, nobody else any, and it has `len` blocks.
    fn own(&self, writer: &Writer<W>, pod: PodId, len: u32) -> Option<(u64, &Record<W>, Shape)> {
        self.published(pod, len).filter(|_| writer.detached.is_none())
    }

    /// The same as far as readers see it.
    #[inline]
    fn published(&self, pod: PodId, len: u32) -> Option<(u64, &Record<W>, Shape)> {
        // Relaxed, here and below: only holders of the segment's lock write it, and who holds it not believes nothing.
        let version = self.version.load(Ordering::Relaxed);
        let record = &self.records[(version & 1) as usize];
        let shape = Shape::unpack(record.shape.load(Ordering::Relaxed));
        let one = PodSet::<W>::of_one(pod);
        let of_one = record.base.iter().zip(one.words()).all(|(word, one)| word.load(Ordering::Relaxed) == *one);
        let own = shape.len == len && shape.drop_offs == 0 && of_one;
        own.then_some((version, record, shape))
    }

    /// Publishes what `record` says, with another length.
    fn publish_length(&self, version: u64, record: &Record<W>, shape: Shape, last: u64) {
        let next = &self.records[(version & 1 ^ 1) as usize];
        // Release: as in `publish`.
        fence(Ordering::Release);
        next.head.store(record.head.load(Ordering::Relaxed), Ordering::Relaxed);
        next.last.store(last, Ordering::Relaxed);
        next.hashes.store(record.hashes.load(Ordering::Relaxed), Ordering::Relaxed);
        next.shape.store(shape.pack(), Ordering::Relaxed);
        for (to, from) in next.base.iter().zip(&record.base) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        next.spill.store(std::ptr::null_mut(), Ordering::Relaxed);
        // Release: publishes the record and the hashes; pairs with `view`.
        self.version.store(version + 1, Ordering::Release);
    }

    /// Keeps other writers waiting until the guard is dropped; `bytes` has what all segments' arrays take.
    pub(super) fn lock<'p>(&'p self, bytes: &'p AtomicU64, pin: &'p Pin) -> Writing<'p, W> {
        self.write(self.writer.lock(), bytes, pin)
    }

    /// Bytes of the array that a segment which nobody uses has kept.
    pub(super) fn kept_bytes(&self) -> u64 {
        u64::from(self.writer.lock().capacity) * 8
    }

    /// Looks at the segment while nobody writes it, with what readers do not see.
    pub(super) fn peek<R>(&self, pin: &Pin, look: impl FnOnce(&View<'_, W>, Option<&DetachedSpans>) -> R) -> R {
        let writer = self.writer.lock();
        look(&self.view(pin), writer.detached.as_deref())
    }

    /// The same if nobody else writes it now.
    pub(super) fn try_lock<'p>(&'p self, bytes: &'p AtomicU64, pin: &'p Pin) -> Option<Writing<'p, W>> {
        Some(self.write(self.writer.try_lock()?, bytes, pin))
    }

    fn write<'p>(
        &'p self,
        mut writer: MutexGuard<'p, Writer<W>>,
        bytes: &'p AtomicU64,
        pin: &'p Pin,
    ) -> Writing<'p, W> {
        let view = self.view(pin);
        let drop_offs = (0..view.shape.drop_offs).map(|at| view.drop_off(at));
        let holders = Holders::from_parts(view.shape.len, view.base(), drop_offs, std::mem::take(&mut writer.detached));
        let mut writing = Writing {
            head: view.head,
            hashes: view.hashes,
            spill: view.spill,
            shape: view.shape,
            outgrown: None,
            holders,
            segment: self,
            writer,
            bytes,
            had: 0,
            pin,
        };
        writing.had = writing.own_bytes();
        writing
    }
}

impl<const W: usize> Drop for Segment<W> {
    fn drop(&mut self) {
        let capacity = self.writer.lock().capacity;
        let record = &self.records[(self.version.load(Ordering::Relaxed) & 1) as usize];
        let drop_offs = Shape::unpack(record.shape.load(Ordering::Relaxed)).drop_offs as usize;
        let (hashes, spill) = (record.hashes.load(Ordering::Relaxed), record.spill.load(Ordering::Relaxed));
        // SAFETY: (1) `capacity` is the length of the current record's array, see `Writing::write`; (2) the segment ends here,
        // and arrays of earlier records were taken back when they were replaced.
        drop(unsafe { Array::from_raw(hashes, capacity as usize) });
        // SAFETY: (1) the record spills its drop-offs beyond `INLINE`, see `Writing::publish`; (2) as above.
        drop(unsafe { Array::from_raw(spill, drop_offs.saturating_sub(INLINE)) });
    }
}

impl<const W: usize> fmt::Debug for Segment<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Segment").field("version", &self.version.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}

impl<const W: usize> Record<W> {
    fn new(shape: Shape) -> Self {
        Self {
            head: AtomicU64::new(0),
            last: AtomicU64::new(0),
            hashes: AtomicPtr::new(std::ptr::null_mut()),
            shape: AtomicU64::new(shape.pack()),
            base: std::array::from_fn(|_| AtomicU64::new(0)),
            on_chain: AtomicU64::new(u64::MAX),
            spill: AtomicPtr::new(std::ptr::null_mut()),
            drop_offs: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }
}
