//! Directory: block hash → position (segment and offset), once for all pods.
//!
//! A slot is eight bytes: a tag of the hash and a position. It is no more than a hint, since **the segment's own hash proves
//! it**: whoever looks a block up compares. The directory has every place of every segment, and for a moment those that a
//! segment is about to have or has just given up. A hash has two places only where pods contradict each other about what it follows.
//!
//! Seven slots and a count share a cache line. An entry that finds its home line full goes on to the next, and every line that it
//! passed counts it, so that a look-up ends where nobody went further. Who changes a shard holds its lock; who looks up does not, and may
//! see the array that a resize has just replaced.

use std::fmt;

use smallvec::SmallVec;

use crate::block::BlockHash;
use crate::prefetch::prefetch;
use crate::reclaim::Pin;
use crate::runs::{Place, RunId};
use crate::sharded::{Fresh, Line, SHARDS, ShardArray, class_for};
use crate::spread::Spread;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The sharded table.
pub(crate) struct Directory {
    shards: Box<[Shard]>,
    spread: Spread,
}

/// One line: most who look a block up are about to change it.
#[repr(align(64))]
struct Shard {
    array: ShardArray<Slots>,
    /// How many entries there are; who changes the shard holds it.
    live: Mutex<usize>,
}

/// Positions that a hash may have: those whose slots bear its tag.
pub(crate) type Candidates = SmallVec<[Place; 2]>;

impl Directory {
    pub(crate) fn new(spread: Spread) -> Self {
        let shard = |_| Shard { array: ShardArray::new(), live: Mutex::new(0) };
        Self { shards: (0..SHARDS).map(shard).collect(), spread }
    }

    /// Asks for the line of a hash ahead of its use.
    #[inline]
    pub(crate) fn prefetch(&self, hash: BlockHash) {
        let key = Key::of(hash, self.spread);
        prefetch(self.shards[key.shard].array.address(|lines| key.home(lines)));
    }

    /// Positions that `hash` may have. One that it has all the while is among them; one that moves meanwhile may not be.
    #[inline]
    pub(crate) fn candidates(&self, hash: BlockHash, pin: &Pin) -> Candidates {
        let key = Key::of(hash, self.spread);
        scan(self.shards[key.shard].array.lines(pin), key)
    }

    /// Enters a position, unless the hash may have others than the `known` ones already: then those.
    #[inline]
    pub(crate) fn insert(&self, hash: BlockHash, at: Place, known: &[Place], pin: &Pin) -> Result<(), Candidates> {
        let key = Key::of(hash, self.spread);
        let shard = &self.shards[key.shard];
        let mut live = shard.live.lock();
        let lines = shard.array.lines(pin);
        *live += 1;
        if *live * 4 <= lines.len() * SLOTS * 3 && put_first(&lines[key.home(lines.len())], key, key.word(at)) {
            return Ok(());
        }
        let found = scan(lines, key);
        if found.iter().any(|other| !known.contains(other)) {
            *live -= 1;
            return Err(found);
        }
        let crowded = *live * 4 > lines.len() * SLOTS * 3;
        put(if crowded { shard.resize(*live, pin) } else { lines }, key, key.word(at));
        Ok(())
    }

    /// Takes a position out. It is there.
    pub(crate) fn remove(&self, hash: BlockHash, at: Place, pin: &Pin) {
        let key = Key::of(hash, self.spread);
        let shard = &self.shards[key.shard];
        let mut live = shard.live.lock();
        let lines = shard.array.lines(pin);
        let (found, slot) = find(lines, key, key.word(at));
        // Release: whoever sees the slot vacant sees what led to it.
        slot.store(EMPTY, Ordering::Release);
        let mut line = key.home(lines.len());
        while line != found {
            add_passed(&lines[line], u64::MAX);
            line = after(line, lines.len());
        }
        *live -= 1;
        if lines.len() > 1 && *live * 6 < lines.len() * SLOTS {
            shard.resize(*live, pin);
        }
    }

    /// Lets a position that is there be another one. Who looks the hash up meanwhile finds one of the two.
    pub(crate) fn replace(&self, hash: BlockHash, from: Place, to: Place, pin: &Pin) {
        let key = Key::of(hash, self.spread);
        let shard = &self.shards[key.shard];
        let _alone = shard.live.lock();
        let (_, slot) = find(shard.array.lines(pin), key, key.word(from));
        // Release: publishes what led to the position; pairs with `scan`.
        slot.store(key.word(to), Ordering::Release);
    }

    /// Bytes of all arrays.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| size_of::<Shard>() + shard.array.bytes()).sum()
    }

    /// Every entry's position.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn entries(&self, pin: &Pin) -> Vec<Place> {
        let slots = self.shards.iter().flat_map(|shard| shard.array.lines(pin)).flat_map(|line| &line.slots);
        slots.map(|slot| slot.load(Ordering::Acquire)).filter(|word| *word != EMPTY).map(place).collect()
    }
}

impl Shard {
    /// Moves the entries to an array that they fill to 40%.
    #[cold]
    fn resize<'p>(&self, live: usize, pin: &'p Pin) -> &'p [Slots] {
        let fresh = Fresh::new(class_for(live * 5 / 2, SLOTS));
        for slot in self.array.lines(pin).iter().flat_map(|line| &line.slots) {
            // Relaxed: only holders of the shard's lock write slots.
            let word = slot.load(Ordering::Relaxed);
            if word != EMPTY {
                put(fresh.lines(), Key { shard: 0, tag: word >> TAG_SHIFT }, word);
            }
        }
        self.array.replace(fresh, pin);
        self.array.lines(pin)
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// Positions under a key.
#[inline]
fn scan(lines: &[Slots], key: Key) -> Candidates {
    let home = key.home(lines.len());
    let (mut found, mut at) = (Candidates::new(), home);
    loop {
        let line = &lines[at];
        for slot in &line.slots {
            // Acquire: makes what led to the position visible; pairs with `put`.
            let word = slot.load(Ordering::Acquire);
            if word >> TAG_SHIFT == key.tag && word != EMPTY {
                found.push(place(word));
            }
        }
        // Acquire: who passed this line is to be found further on; pairs with `put`.
        if line.passed.load(Ordering::Acquire) == 0 {
            return found;
        }
        at = after(at, lines.len());
        if at == home {
            return found;
        }
    }
}

/// The slot that has this word, and its line. Only who holds the shard's lock asks, and it is there.
fn find(lines: &[Slots], key: Key, word: u64) -> (usize, &AtomicU64) {
    let mut at = key.home(lines.len());
    loop {
        // Relaxed: only holders of the shard's lock write slots.
        if let Some(slot) = lines[at].slots.iter().find(|slot| slot.load(Ordering::Relaxed) == word) {
            return (at, slot);
        }
        assert!(lines[at].passed.load(Ordering::Relaxed) > 0, "the directory has what is taken out of it");
        at = after(at, lines.len());
    }
}

/// Puts a word into its home line, if there is a vacant slot, nobody passed it, and no entry has the same tag: whether it did.
#[inline]
fn put_first(line: &Slots, key: Key, word: u64) -> bool {
    let (mut vacant, mut is_alone) = (None, line.passed.load(Ordering::Relaxed) == 0);
    for slot in &line.slots {
        // Relaxed: only holders of the shard's lock write slots.
        match slot.load(Ordering::Relaxed) {
            EMPTY => vacant = Some(slot),
            other => is_alone &= other >> TAG_SHIFT != key.tag,
        }
    }
    let Some(vacant) = vacant.filter(|_| is_alone) else { return false };
    // Release: as in `put`.
    vacant.store(word, Ordering::Release);
    true
}

/// Puts a word into the first vacant slot from its home line on; there is one.
#[inline]
fn put(lines: &[Slots], key: Key, word: u64) {
    let mut at = key.home(lines.len());
    loop {
        if let Some(slot) = lines[at].slots.iter().find(|slot| slot.load(Ordering::Relaxed) == EMPTY) {
            // Release: publishes what led to the position; pairs with `scan`.
            slot.store(word, Ordering::Release);
            return;
        }
        // Before the entry is there: who looks for it goes on.
        add_passed(&lines[at], 1);
        at = after(at, lines.len());
    }
}

/// Counts an entry that passed a line, or no longer does. Only who holds the shard's lock counts.
fn add_passed(line: &Slots, change: u64) {
    line.passed.store(line.passed.load(Ordering::Relaxed).wrapping_add(change), Ordering::Release);
}

#[inline]
fn after(line: usize, lines: usize) -> usize {
    if line + 1 == lines { 0 } else { line + 1 }
}

/// Slots on one cache line, and how many entries passed it.
#[repr(C, align(64))]
struct Slots {
    slots: [AtomicU64; SLOTS],
    passed: AtomicU64,
}

impl Line for Slots {
    fn vacant() -> Self {
        Self { slots: std::array::from_fn(|_| AtomicU64::new(EMPTY)), passed: AtomicU64::new(0) }
    }
}

/// Where a hash lives: the shard from the top byte of its spread, the line from the tag that follows, so that a resize needs
/// no hashes.
#[derive(Clone, Copy)]
struct Key {
    shard: usize,
    tag: u64,
}

impl Key {
    #[inline]
    fn of(hash: BlockHash, spread: Spread) -> Self {
        let mixed = spread.of(hash);
        Self { shard: (mixed >> 56) as usize % SHARDS, tag: mixed << 8 >> TAG_SHIFT }
    }

    #[inline]
    fn home(self, lines: usize) -> usize {
        ((self.tag * lines as u64) >> TAG_BITS) as usize
    }

    #[inline]
    fn word(self, at: Place) -> u64 {
        self.tag << TAG_SHIFT | u64::from(at.offset) << RunId::BITS | u64::from(at.run.raw())
    }
}

/// The position that a word names; not that of an empty slot.
#[inline]
fn place(word: u64) -> Place {
    let run = RunId::from_low_bits(word);
    Place { run, offset: u32::from((word >> RunId::BITS) as u16) }
}

/// A slot is run, sixteen bits of offset, tag.
const TAG_SHIFT: u32 = RunId::BITS + 16;
const TAG_BITS: u32 = 64 - TAG_SHIFT;
/// No run has the id zero.
const EMPTY: u64 = 0;

const SLOTS: usize = if cfg!(all(test, routing_loom)) { 2 } else { 7 };

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod tests;
