//! Sharded hash table, lock-free reads: first block of a segment (run) → the segment.
//!
//! A shard is one array of 64-byte buckets, four slots each. **A slot's key is written once**: a head
//! that leaves keeps its slot without a run, until the shard is rebuilt into a new array. So a reader
//! that finds a key may trust the word beside it for ever, and needs neither a version nor a retry: a
//! search never waits for a writer. A rebuilt shard is published by one pointer; the old array is frozen
//! from then on and freed when no search can be reading it.
//!
//! The longest a writer can be held is one rebuild: it moves the live heads of one shard, 1/256th of the
//! table (`tests::a_rebuild_moves_one_shard_at_most`). Rebuilding at 80% into an array filled to 60% moves a
//! head three times in its life on average.

use std::fmt;

use crossbeam_utils::CachePadded;

use crate::block::BlockHash;
use crate::prefetch::prefetch;
use crate::reclaim::Pin;
use crate::runs::RunId;
use crate::spread::Spread;
use crate::sync::{AtomicPtr, AtomicU64, Mutex, Ordering};

/// The sharded table.
pub(crate) struct Heads {
    /// Per shard its buckets, the size class in the low bits of the address: 2 KB that every search
    /// reads and only a rebuild writes.
    arrays: Box<[AtomicPtr<Bucket>]>,
    spread: Spread,
    writers: Box<[CachePadded<Mutex<Writer>>]>,
}

impl Heads {
    pub(crate) fn new(spread: Spread) -> Self {
        Self {
            spread,
            arrays: (0..SHARDS).map(|_| AtomicPtr::new(tag(allocate(0), 0))).collect(),
            writers: (0..SHARDS).map(|_| CachePadded::new(Mutex::new(Writer::default()))).collect(),
        }
    }

    /// The run that begins with `hash`.
    #[inline]
    pub(crate) fn probe(&self, hash: BlockHash, pin: &Pin) -> Option<RunId> {
        self.probe_at(hash, Place::of(hash, self.spread), pin)
    }

    /// The same where its place is known already.
    #[inline]
    pub(crate) fn probe_at(&self, hash: BlockHash, place: Place, pin: &Pin) -> Option<RunId> {
        RunId::from_raw(self.array(place.shard, pin).read(hash, place) as u32)
    }

    /// Fetches the line that `probe` or `update` of this hash will read; its place.
    #[inline]
    pub(crate) fn prefetch(&self, hash: BlockHash) -> Place {
        let place = Place::of(hash, self.spread);
        // Relaxed: the address is not read through here, and a stale one costs a useless fetch.
        let tagged = self.arrays[place.shard].load(Ordering::Relaxed);
        let (buckets, class) = untag(tagged);
        prefetch(buckets.wrapping_add(place.home(CLASSES[class])));
        place
    }

    /// Lets `run` begin with `hash`, unless a run does already: then that one.
    pub(crate) fn insert(&self, hash: BlockHash, run: RunId, pin: &Pin) -> Option<RunId> {
        RunId::from_raw(self.update(hash, pin, |old| if old == ABSENT { run.raw().into() } else { old }) as u32)
    }

    /// No run begins with `hash` any more.
    pub(crate) fn remove(&self, hash: BlockHash, pin: &Pin) {
        self.update(hash, pin, |_| ABSENT);
    }

    /// Sets what the slot of `hash` says to what `change` makes of it; returns what it said before.
    fn update(&self, hash: BlockHash, pin: &Pin, change: impl FnOnce(u64) -> u64) -> u64 {
        let place = Place::of(hash, self.spread);
        let mut writer = self.writers[place.shard].lock();
        let mut array = self.array(place.shard, pin);
        let mut found = array.find(hash, place);
        if let Found::Slot(slot) = found {
            // Relaxed: only holders of the shard's lock write slots.
            let old = slot.load(Ordering::Relaxed);
            let new = change(old);
            // Release: publishes the run it names; pairs with `probe`.
            slot.store(new, Ordering::Release);
            self.count(&mut writer, place.shard, old, new, pin);
            return old;
        }
        let new = change(ABSENT);
        if new == ABSENT {
            return new;
        }
        if writer.used + 1 > limit(array.buckets.len()) {
            self.rebuild(&mut writer, place.shard, 1, pin);
            array = self.array(place.shard, pin);
            found = array.find(hash, place);
        }
        let Found::Vacant(bucket, slot) = found else { unreachable!("a rebuild adds no key") };
        bucket.runs[slot].store(new, Ordering::Relaxed);
        // Release: publishes the slot's run; pairs with `read`.
        bucket.keys[slot].store(hash.get(), Ordering::Release);
        writer.used += 1;
        writer.live += 1;
        ABSENT
    }

    /// Runs.
    pub(crate) fn len(&self) -> usize {
        self.writers.iter().map(|w| w.lock().live).sum()
    }

    /// Bytes of all arrays.
    pub(crate) fn bytes(&self) -> usize {
        let fixed = self.arrays.len() * (size_of::<AtomicPtr<Bucket>>() + size_of::<CachePadded<Mutex<Writer>>>());
        let arrays: usize = self.arrays.iter().map(|a| CLASSES[untag(a.load(Ordering::Relaxed)).1]).sum();
        fixed + arrays * size_of::<Bucket>()
    }

    /// The most heads a rebuild has moved while it held a shard.
    pub(crate) fn longest_rebuild(&self) -> usize {
        self.writers.iter().map(|w| w.lock().longest).max().unwrap_or(0)
    }

    /// Every head with its run.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn entries(&self, pin: &Pin) -> Vec<(BlockHash, RunId)> {
        let buckets = (0..SHARDS).flat_map(|shard| self.array(shard, pin).buckets);
        let slots = buckets.flat_map(|bucket| bucket.keys.iter().zip(&bucket.runs));
        let read = |word: &AtomicU64| word.load(Ordering::Acquire);
        let slots = slots.filter_map(|(key, run)| Some((stored(read(key))?, RunId::from_raw(read(run) as u32)?)));
        slots.collect()
    }

    #[inline]
    fn array<'p>(&self, shard: usize, _pin: &'p Pin) -> Array<'p> {
        // Acquire: makes the keys and runs that `rebuild` wrote visible.
        let (buckets, class) = untag(self.arrays[shard].load(Ordering::Acquire));
        let len = CLASSES[class];
        // SAFETY: (1) the pointer came from `allocate(class)`, which made `len` initialised buckets: every
        // store to `arrays` tags with the class it allocated. (2) It lives until the pin ends: `rebuild` frees
        // it only through `Pin::later`, after taking it out of `arrays`, and we were pinned when we loaded it.
        // (3) Buckets are atomics, so shared access is all anybody needs.
        Array { buckets: unsafe { std::slice::from_raw_parts(buckets, len) } }
    }

    /// Keeps the shard's count of live heads, and gives memory back when most have gone.
    fn count(&self, writer: &mut Writer, shard: usize, old: u64, new: u64, pin: &Pin) {
        match (old == ABSENT, new == ABSENT) {
            (true, false) => writer.live += 1,
            (false, true) => {
                writer.live -= 1;
                let (_, class) = untag(self.arrays[shard].load(Ordering::Relaxed));
                if class > 0 && writer.live < CLASSES[class] * SLOTS * 3 / 10 {
                    self.rebuild(writer, shard, 0, pin);
                }
            }
            _ => {}
        }
    }

    /// Moves the shard's live heads to a new array with room for `more`, and publishes it.
    fn rebuild(&self, writer: &mut Writer, shard: usize, more: usize, pin: &Pin) {
        let class = class_for(writer.live + more);
        let fresh = allocate(class);
        // SAFETY: `allocate` made this many initialised buckets, and nobody else knows them yet.
        let new = Array { buckets: unsafe { std::slice::from_raw_parts(fresh, CLASSES[class]) } };
        for bucket in self.array(shard, pin).buckets {
            for (key, run) in bucket.keys.iter().zip(&bucket.runs) {
                let Some(hash) = stored(key.load(Ordering::Relaxed)) else { break };
                let run = run.load(Ordering::Relaxed);
                if run == ABSENT {
                    continue;
                }
                let Found::Vacant(bucket, slot) = new.find(hash, Place::of(hash, self.spread)) else {
                    unreachable!("a shard holds each key once")
                };
                bucket.runs[slot].store(run, Ordering::Relaxed);
                bucket.keys[slot].store(hash.get(), Ordering::Relaxed);
            }
        }
        // Release: publishes the new buckets; pairs with `array`.
        let old = self.arrays[shard].swap(tag(fresh, class), Ordering::AcqRel);
        writer.used = writer.live;
        writer.longest = writer.longest.max(writer.live);
        // SAFETY: (1) only tagged arrays are stored in `arrays`; (2) the swap took this one out.
        let garbage = unsafe { Garbage::new(old) };
        pin.later(move || drop(garbage));
    }
}

impl Drop for Heads {
    fn drop(&mut self) {
        for array in &self.arrays {
            // SAFETY: (1) as in `rebuild`; (2) the table ends here, and searches borrow it.
            drop(unsafe { Garbage::new(array.load(Ordering::Relaxed)) });
        }
    }
}

impl fmt::Debug for Heads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heads").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// What only a shard's writer needs to know.
#[derive(Debug, Default)]
struct Writer {
    /// Heads with a run.
    live: usize,
    /// Slots with a key, those of heads that left included.
    used: usize,
    longest: usize,
}

/// Four slots on one cache line; they fill from the first.
#[repr(C, align(64))]
struct Bucket {
    keys: [AtomicU64; SLOTS],
    runs: [AtomicU64; SLOTS],
}

/// One shard's buckets, borrowed for as long as the reader is pinned.
#[derive(Clone, Copy)]
struct Array<'p> {
    buckets: &'p [Bucket],
}

enum Found<'p> {
    Slot(&'p AtomicU64),
    /// Where the key would go.
    Vacant(&'p Bucket, usize),
}

impl<'p> Array<'p> {
    /// The run of a key. Compares all four keys of a bucket before it branches: which slot a key is
    /// in cannot be predicted.
    #[inline(always)]
    fn read(self, hash: BlockHash, place: Place) -> u64 {
        let mut at = place.home(self.buckets.len());
        loop {
            let bucket = &self.buckets[at];
            let mut run = 0;
            for slot in 0..SLOTS {
                // Acquire: makes the slot's run visible; pairs with `update`.
                let mask = u64::from(bucket.keys[slot].load(Ordering::Acquire) == hash.get()).wrapping_neg();
                // Acquire: makes what the run was made of visible; pairs with `update`.
                run |= bucket.runs[slot].load(Ordering::Acquire) & mask;
            }
            // A full bucket may have sent the key on. Ends: `limit` leaves a vacant slot in every array.
            if run != ABSENT || bucket.keys[SLOTS - 1].load(Ordering::Relaxed) == VACANT {
                return run;
            }
            at = if at + 1 == self.buckets.len() { 0 } else { at + 1 };
        }
    }

    /// The key's slot, or where it would go. Only the shard's writer asks.
    fn find(self, hash: BlockHash, place: Place) -> Found<'p> {
        let mut at = place.home(self.buckets.len());
        loop {
            let bucket = &self.buckets[at];
            for slot in 0..SLOTS {
                match bucket.keys[slot].load(Ordering::Relaxed) {
                    key if key == hash.get() => return Found::Slot(&bucket.runs[slot]),
                    VACANT => return Found::Vacant(bucket, slot),
                    _ => {}
                }
            }
            at = if at + 1 == self.buckets.len() { 0 } else { at + 1 };
        }
    }
}

/// Where a hash lives: the shard from the top byte of its spread, the bucket from what follows.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    shard: usize,
    rest: u64,
}

impl Place {
    #[inline]
    fn of(hash: BlockHash, spread: Spread) -> Self {
        let mixed = spread.of(hash);
        Self { shard: (mixed >> 56) as usize % SHARDS, rest: mixed << 8 >> 32 }
    }

    /// The bucket where the search for the key starts, in an array of `len`.
    #[inline]
    fn home(self, len: usize) -> usize {
        ((self.rest * len as u64) >> 32) as usize
    }
}

/// An array no search can reach any more.
struct Garbage(*mut Bucket);

// SAFETY: it is the array's only owner, and buckets are atomics.
unsafe impl Send for Garbage {}

impl Garbage {
    /// Takes a tagged array over; it is freed on drop.
    ///
    /// # Safety
    ///
    /// 1. The pointer is `tag(allocate(class), class)` for some class.
    /// 2. It is handed over once, and searches that began after that do not find it.
    unsafe fn new(tagged: *mut Bucket) -> Self {
        Self(tagged)
    }
}

impl Drop for Garbage {
    fn drop(&mut self) {
        let (buckets, class) = untag(self.0);
        let slice = std::ptr::slice_from_raw_parts_mut(buckets.cast_mut(), CLASSES[class]);
        // SAFETY: by (1) of `new`, `allocate(class)` leaked exactly this boxed slice; by (2) nobody else owns it, and
        // `rebuild` drops it through `Pin::later`, when the searches that may have found it are over.
        drop(unsafe { Box::from_raw(slice) });
    }
}

/// A leaked array of the class, all vacant, owned by whoever makes a `Garbage` of it.
fn allocate(class: usize) -> *const Bucket {
    let vacant = || std::array::from_fn(|_| AtomicU64::new(VACANT));
    let buckets: Box<[Bucket]> = (0..CLASSES[class]).map(|_| Bucket { keys: vacant(), runs: vacant() }).collect();
    Box::into_raw(buckets).cast_const().cast()
}

fn tag(buckets: *const Bucket, class: usize) -> *mut Bucket {
    buckets.map_addr(|address| address | class).cast_mut()
}

#[inline]
fn untag(tagged: *mut Bucket) -> (*const Bucket, usize) {
    let class = tagged.addr() & (CLASS_COUNT - 1);
    (tagged.map_addr(|address| address & !(CLASS_COUNT - 1)).cast_const(), class)
}

fn stored(key: u64) -> Option<BlockHash> {
    (key != VACANT).then(|| BlockHash::new(key))
}

/// Most slots that may have a key in an array of `len` buckets: 80%.
fn limit(len: usize) -> usize {
    len * SLOTS * 4 / 5
}

/// The smallest class that `live` heads fill to at most 60%, or to 40% while a shard is small and would have to
/// be rebuilt often.
fn class_for(live: usize) -> usize {
    let fifths = if live < SMALL { 2 } else { 3 };
    CLASSES.iter().position(|len| len * SLOTS * fifths / 5 >= live).unwrap_or(CLASS_COUNT - 1)
}

#[cfg(not(all(test, routing_loom)))]
const SHARDS: usize = 256;
#[cfg(all(test, routing_loom))]
const SHARDS: usize = 1;

const SLOTS: usize = 4;
/// Heads of a shard up to which it grows in larger steps.
const SMALL: usize = 48;
const VACANT: u64 = 0;
/// What the slot of a head says that has no run any more.
const ABSENT: u64 = 0;

/// A class fits in the address bits that a bucket's alignment leaves zero.
const CLASS_COUNT: usize = align_of::<Bucket>();

/// Buckets by size class: each a quarter more than the one before, up to two million.
const CLASSES: [usize; CLASS_COUNT] = {
    let mut classes = [1; CLASS_COUNT];
    let mut class = 1;
    while class < CLASS_COUNT {
        let before = classes[class - 1];
        classes[class] = before + if before < 4 { 1 } else { before / 4 };
        class += 1;
    }
    classes
};

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod tests;
