//! One segment (run) in memory: a seqlock-style versioned double buffer.
//!
//! A run has two records. A writer fills the one that is not current and makes it current by counting `version`
//! up; a reader that finds the version unchanged has read what one writer left. A reader is turned back only by
//! a publication in its course, never by a writer that sleeps: it waits for nobody.

mod view;
mod writing;

pub(crate) use view::View;
pub(super) use writing::Writing;

use std::fmt;

use crate::block::BlockHash;
use crate::pod::PodId;
use crate::podset::PodSet;
use crate::reclaim::Pin;
use crate::runs::RunId;
use crate::runs::holders::{Holders, INLINE};
use crate::runs::islands::Islands;
use crate::runs::run::writing::Array;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Mutex, Ordering, fence};

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
    /// Whether a run ever went on from a block of this one.
    forked: bool,
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
    /// Blocks in the low half, cuts in the high half; the highest bit says whether a run ever went on from this one.
    shape: AtomicU64,
    base: [AtomicU64; W],
    /// The cuts that have no place in `cuts`.
    spill: AtomicPtr<AtomicU32>,
    cuts: [AtomicU32; INLINE],
}

/// The bit of a shape that says that a run went on from this one.
const FORKED: u64 = 1 << 63;

fn cuts_in(shape: u64) -> u32 {
    ((shape & !FORKED) >> 32) as u32
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
                cuts: cuts_in(shape),
                forked: shape & FORKED != 0,
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
        // Release: a reader of an earlier version that sees a hash below sees that its version has passed, as in `publish`.
        fence(Ordering::Release);
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
        let of_length = record.shape.load(Ordering::Relaxed) & !FORKED == u64::from(len);
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
        next.shape.store(u64::from(len) | record.shape.load(Ordering::Relaxed) & FORKED, Ordering::Relaxed);
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

    /// Keeps other writers waiting until the guard is dropped; `bytes` has what all runs' arrays take.
    pub(super) fn lock<'p>(&'p self, bytes: &'p AtomicU64, pin: &'p Pin) -> Writing<'p, W> {
        let mut writer = self.writer.lock();
        let view = self.view(pin);
        let cuts = (0..view.cuts).map(|at| view.cut(at));
        let holders = Holders::from_parts(view.len, view.base(), cuts, std::mem::take(&mut writer.islands));
        let mut writing = Writing {
            head: view.head,
            hashes: view.hashes,
            spill: view.spill,
            outgrown: None,
            holders,
            run: self,
            writer,
            bytes,
            had: 0,
            pin,
        };
        writing.had = writing.own_bytes();
        writing
    }
}

impl<const W: usize> Drop for Run<W> {
    fn drop(&mut self) {
        let capacity = self.writer.lock().capacity;
        let record = &self.records[(self.version.load(Ordering::Relaxed) & 1) as usize];
        let cuts = cuts_in(record.shape.load(Ordering::Relaxed)) as usize;
        let (hashes, spill) = (record.hashes.load(Ordering::Relaxed), record.spill.load(Ordering::Relaxed));
        // SAFETY: (1) `capacity` is the length of the current record's array, see `Writing::write`; (2) the run ends here,
        // and arrays of earlier records were taken back when they were replaced.
        drop(unsafe { Array::from_raw(hashes, capacity as usize) });
        // SAFETY: (1) the record spills its cuts beyond `INLINE`, see `Writing::publish`; (2) as above.
        drop(unsafe { Array::from_raw(spill, cuts.saturating_sub(INLINE)) });
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
