//! Sharded hash table, lock-free reads: first block of a segment → the segment.
//!
//! A shard is one array of 64-byte buckets, four slots each. **A slot's key is written once**: a head
//! that leaves keeps its slot without a segment, until the shard is rebuilt into a new array. So a reader
//! that finds a key may trust the word beside it for ever, and needs neither a version nor a retry: a
//! search never waits for a writer. A rebuilt shard is published by one pointer; the old array is frozen
//! from then on and freed when no search can be reading it.
//!
//! The longest a writer can be held is one rebuild: it moves the live heads of one shard, 1/256th of the
//! table (`tests::a_rebuild_moves_one_shard_at_most`). Rebuilding at 80% into an array filled to 60% moves a
//! head three times in its life on average.

use std::fmt;

use crossbeam_utils::CachePadded;

use crate::blocks::BlockHash;
use crate::directory::SegmentId;
use crate::directory::sharded::{CLASSES, Fresh, Line, SHARDS, ShardArray, class_for, shard};
use crate::directory::spread::Spread;
use crate::prefetch::prefetch;
use crate::reclamation::Pin;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The sharded table.
pub(crate) struct Heads {
    /// Per shard its buckets: 2 KB that every search reads and only a rebuild writes.
    arrays: Box<[ShardArray<Bucket>]>,
    spread: Spread,
    writers: Box<[CachePadded<Mutex<Writer>>]>,
}

impl Heads {
    pub(crate) fn new(spread: Spread) -> Self {
        Self {
            spread,
            arrays: (0..SHARDS).map(|_| ShardArray::new()).collect(),
            writers: (0..SHARDS).map(|_| CachePadded::new(Mutex::new(Writer::default()))).collect(),
        }
    }

    /// The segment that begins with `hash`.
    #[inline]
    pub(crate) fn probe(&self, hash: BlockHash, pin: &Pin) -> Option<SegmentId> {
        self.probe_at(hash, Home::of(hash, self.spread), pin)
    }

    /// The same where its place is known already.
    #[inline]
    pub(crate) fn probe_at(&self, hash: BlockHash, place: Home, pin: &Pin) -> Option<SegmentId> {
        SegmentId::from_raw(self.array(place.shard, pin).read(hash, place) as u32)
    }

    /// Fetches the line that `probe` or `update` of this hash will read; its place.
    #[inline]
    pub(crate) fn prefetch(&self, hash: BlockHash) -> Home {
        let place = Home::of(hash, self.spread);
        let (buckets, count) = self.arrays[place.shard].address();
        prefetch(buckets.wrapping_add(place.home(count)));
        place
    }

    /// Lets `segment` begin with `hash`, unless a segment does already: then that one.
    pub(crate) fn insert(&self, hash: BlockHash, segment: SegmentId, pin: &Pin) -> Option<SegmentId> {
        SegmentId::from_raw(self.update(hash, pin, |old| if old == ABSENT { segment.raw().into() } else { old }) as u32)
    }

    /// No segment begins with `hash` any more.
    pub(crate) fn remove(&self, hash: BlockHash, pin: &Pin) {
        self.update(hash, pin, |_| ABSENT);
    }

    /// Sets what the slot of `hash` says to what `change` makes of it; returns what it said before.
    fn update(&self, hash: BlockHash, pin: &Pin, change: impl FnOnce(u64) -> u64) -> u64 {
        let place = Home::of(hash, self.spread);
        let mut writer = self.writers[place.shard].lock();
        let mut array = self.array(place.shard, pin);
        let mut found = array.find(hash, place);
        if let Found::Slot(slot) = found {
            // Relaxed: only holders of the shard's lock write slots.
            let old = slot.load(Ordering::Relaxed);
            let new = change(old);
            // Release: publishes the segment it names; pairs with `probe`.
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
        bucket.segments[slot].store(new, Ordering::Relaxed);
        // Release: publishes the slot's segment; pairs with `read`.
        bucket.keys[slot].store(hash.get(), Ordering::Release);
        writer.used += 1;
        writer.live += 1;
        ABSENT
    }

    /// Segments.
    pub(crate) fn len(&self) -> usize {
        self.writers.iter().map(|w| w.lock().live).sum()
    }

    /// Bytes of all arrays.
    pub(crate) fn bytes(&self) -> usize {
        let fixed = SHARDS * (size_of::<ShardArray<Bucket>>() + size_of::<CachePadded<Mutex<Writer>>>());
        fixed + self.arrays.iter().map(ShardArray::bytes).sum::<usize>()
    }

    /// The most heads a rebuild has moved while it held a shard.
    pub(crate) fn longest_rebuild(&self) -> usize {
        self.writers.iter().map(|w| w.lock().longest).max().unwrap_or(0)
    }

    /// Every head with its segment.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn entries(&self, pin: &Pin) -> Vec<(BlockHash, SegmentId)> {
        let buckets = (0..SHARDS).flat_map(|shard| self.array(shard, pin).buckets);
        let slots = buckets.flat_map(|bucket| bucket.keys.iter().zip(&bucket.segments));
        let read = |word: &AtomicU64| word.load(Ordering::Acquire);
        let slots =
            slots.filter_map(|(key, segment)| Some((stored(read(key))?, SegmentId::from_raw(read(segment) as u32)?)));
        slots.collect()
    }

    #[inline]
    fn array<'p>(&self, shard: usize, pin: &'p Pin) -> Array<'p> {
        Array { buckets: self.arrays[shard].lines(pin) }
    }

    /// Keeps the shard's count of live heads, and gives memory back when most have gone.
    fn count(&self, writer: &mut Writer, shard: usize, old: u64, new: u64, pin: &Pin) {
        match (old == ABSENT, new == ABSENT) {
            (true, false) => writer.live += 1,
            (false, true) => {
                writer.live -= 1;
                let class = self.arrays[shard].class();
                if class > 0 && writer.live < CLASSES[class] * SLOTS * 3 / 10 {
                    self.rebuild(writer, shard, 0, pin);
                }
            }
            _ => {}
        }
    }

    /// Moves the shard's live heads to a new array with room for `more`, and publishes it.
    fn rebuild(&self, writer: &mut Writer, shard: usize, more: usize, pin: &Pin) {
        // Filled to 60%, or to 40% while a shard is small and would have to be rebuilt often.
        let live = writer.live + more;
        let fresh = Fresh::new(class_for(if live < SMALL { live * 5 / 2 } else { live * 5 / 3 }, SLOTS));
        let new = Array { buckets: fresh.lines() };
        for bucket in self.array(shard, pin).buckets {
            for (key, segment) in bucket.keys.iter().zip(&bucket.segments) {
                let Some(hash) = stored(key.load(Ordering::Relaxed)) else { break };
                let segment = segment.load(Ordering::Relaxed);
                if segment == ABSENT {
                    continue;
                }
                let Found::Vacant(bucket, slot) = new.find(hash, Home::of(hash, self.spread)) else {
                    unreachable!("a shard holds each key once")
                };
                bucket.segments[slot].store(segment, Ordering::Relaxed);
                bucket.keys[slot].store(hash.get(), Ordering::Relaxed);
            }
        }
        self.arrays[shard].replace(fresh, pin);
        writer.used = writer.live;
        writer.longest = writer.longest.max(writer.live);
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
    /// Heads with a segment.
    live: usize,
    /// Slots with a key, those of heads that left included.
    used: usize,
    longest: usize,
}

/// Four slots on one cache line; they fill from the first.
#[repr(C, align(64))]
struct Bucket {
    keys: [AtomicU64; SLOTS],
    segments: [AtomicU64; SLOTS],
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
    /// The segment of a key. Compares all four keys of a bucket before it branches: which slot a key is
    /// in cannot be predicted.
    #[inline(always)]
    fn read(self, hash: BlockHash, place: Home) -> u64 {
        let mut at = place.home(self.buckets.len());
        loop {
            let bucket = &self.buckets[at];
            let mut segment = 0;
            for slot in 0..SLOTS {
                // Acquire: makes the slot's segment visible; pairs with `update`.
                let mask = u64::from(bucket.keys[slot].load(Ordering::Acquire) == hash.get()).wrapping_neg();
                // Acquire: makes what the segment was made of visible; pairs with `update`.
                segment |= bucket.segments[slot].load(Ordering::Acquire) & mask;
            }
            // A full bucket may have sent the key on. Ends: `limit` leaves a vacant slot in every array.
            if segment != ABSENT || bucket.keys[SLOTS - 1].load(Ordering::Relaxed) == VACANT {
                return segment;
            }
            at = if at + 1 == self.buckets.len() { 0 } else { at + 1 };
        }
    }

    /// The key's slot, or where it would go. Only the shard's writer asks.
    fn find(self, hash: BlockHash, place: Home) -> Found<'p> {
        let mut at = place.home(self.buckets.len());
        loop {
            let bucket = &self.buckets[at];
            for slot in 0..SLOTS {
                match bucket.keys[slot].load(Ordering::Relaxed) {
                    key if key == hash.get() => return Found::Slot(&bucket.segments[slot]),
                    VACANT => return Found::Vacant(bucket, slot),
                    _ => {}
                }
            }
            at = if at + 1 == self.buckets.len() { 0 } else { at + 1 };
        }
    }
}

// SAFETY: (1) it is one cache line, and a zero is a vacant key.
unsafe impl Line for Bucket {
    #[cfg(all(test, routing_loom))]
    fn vacant() -> Self {
        let vacant = || std::array::from_fn(|_| AtomicU64::new(VACANT));
        Self { keys: vacant(), segments: vacant() }
    }
}

/// Where a hash lives: the shard from the top byte of its spread, the bucket from what follows.
#[derive(Clone, Copy)]
pub(crate) struct Home {
    shard: usize,
    rest: u64,
}

impl Home {
    #[inline]
    fn of(hash: BlockHash, spread: Spread) -> Self {
        let (shard, rest) = shard(spread.of(hash));
        Self { shard, rest: rest >> 32 }
    }

    /// The bucket where the search for the key starts, in an array of `len`.
    #[inline]
    fn home(self, len: usize) -> usize {
        ((self.rest * len as u64) >> 32) as usize
    }
}

fn stored(key: u64) -> Option<BlockHash> {
    (key != VACANT).then(|| BlockHash::new(key))
}

/// Most slots that may have a key in an array of `len` buckets: 80%.
fn limit(len: usize) -> usize {
    len * SLOTS * 4 / 5
}

const SLOTS: usize = 4;
/// Heads of a shard up to which it grows in larger steps.
const SMALL: usize = 48;
const VACANT: u64 = 0;
/// What the slot of a head says that has no segment any more.
const ABSENT: u64 = 0;

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod tests;
