//! Directory: block hash → position (segment and offset), once for all pods.
//!
//! A slot is eight bytes: a tag of the hash and a position. It is no more than a hint, since **the segment's own hash proves
//! it**: whoever looks a block up compares. The directory has every place of every segment, and for a moment those that a
//! segment is about to have or has just given up. A hash has two places only where pods contradict each other about what it follows.
//!
//! Seven slots and a word share a cache line: the word has the line's lock, and how many entries passed it. An entry that finds its home
//! line full goes on to the next, and every line that it passed counts it, so that a look-up ends where nobody went further. Who
//! changes an entry locks its line and, but for one in eight that the shard counts, touches no other memory that threads share; who
//! passes lines, or resizes the shard, holds the shard's lock too. Look-ups take no lock, and may see the array that a resize has just replaced.

use std::fmt;

use crossbeam_utils::{Backoff, CachePadded};
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
    /// 2 KB that everybody reads and only a resize writes.
    arrays: Box<[ShardArray<Slots>]>,
    shards: Box<[CachePadded<Shard>]>,
    spread: Spread,
}

#[derive(Default)]
struct Shard {
    /// Held by who changes several lines.
    lines: Mutex<()>,
    /// Entries whose tag is a multiple of [`SAMPLE`]: a count of every one would be a line that all cores write.
    sampled: AtomicU64,
}

/// Positions that a hash may have: those whose slots bear its tag.
pub(crate) type Candidates = SmallVec<[Place; 2]>;

impl Directory {
    pub(crate) fn new(spread: Spread) -> Self {
        Self {
            arrays: (0..SHARDS).map(|_| ShardArray::new()).collect(),
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            spread,
        }
    }

    /// Asks for the line of a hash ahead of its use.
    #[inline]
    pub(crate) fn prefetch(&self, hash: BlockHash) {
        let key = Key::of(hash, self.spread);
        prefetch(self.arrays[key.shard].address(|lines| key.home(lines)));
    }

    /// Positions that `hash` may have. One that it has all the while is among them; one that moves meanwhile may not be.
    #[inline]
    pub(crate) fn candidates(&self, hash: BlockHash, pin: &Pin) -> Candidates {
        let key = Key::of(hash, self.spread);
        scan(self.arrays[key.shard].lines(pin), key)
    }

    /// Enters a position, unless the hash may have others than the `known` ones already: then those.
    #[inline]
    pub(crate) fn insert(&self, hash: BlockHash, at: Place, known: &[Place], pin: &Pin) -> Result<(), Candidates> {
        let key = Key::of(hash, self.spread);
        let lines = self.arrays[key.shard].lines(pin);
        if let Some(line) = lines[key.home(lines.len())].lock() {
            if line.put_alone(key, key.word(at)) {
                drop(line);
                self.count(key, 1, lines.len(), pin);
                return Ok(());
            }
        }
        self.insert_anywhere(key, at, known, pin)
    }

    /// The same where the home line has an entry of the same tag, is full, or was passed.
    #[inline(never)]
    fn insert_anywhere(&self, key: Key, at: Place, known: &[Place], pin: &Pin) -> Result<(), Candidates> {
        let alone = self.shards[key.shard].lines.lock();
        let lines = loop {
            let lines = self.arrays[key.shard].lines(pin);
            // Whoever enters the same hash needs this line too.
            let home = lines[key.home(lines.len())].lock().expect("we hold the shard: nobody freezes it");
            let found = scan(lines, key);
            if found.iter().any(|other| !known.contains(other)) {
                return Err(found);
            }
            if put(lines, key, key.word(at), Some(home)) {
                break lines;
            }
            self.resize(key.shard, pin);
        };
        drop(alone);
        self.count(key, 1, lines.len(), pin);
        Ok(())
    }

    /// Takes a position out. It is there.
    pub(crate) fn remove(&self, hash: BlockHash, at: Place, pin: &Pin) {
        let key = Key::of(hash, self.spread);
        let word = key.word(at);
        let lines = self.arrays[key.shard].lines(pin);
        let near = lines[key.home(lines.len())].lock().is_some_and(|line| line.exchange(word, EMPTY));
        if !near {
            let _alone = self.shards[key.shard].lines.lock();
            let lines = self.arrays[key.shard].lines(pin);
            let mut at = key.home(lines.len());
            loop {
                let mut line = lines[at].lock().expect("we hold the shard: nobody freezes it");
                if line.exchange(word, EMPTY) {
                    break;
                }
                line.passed = line.passed.checked_sub(1).expect("the directory has what is taken out of it");
                at = after(at, lines.len());
            }
        }
        self.count(key, -1, lines.len(), pin);
    }

    /// Lets a position that is there be another one. Who looks the hash up meanwhile finds one of the two.
    pub(crate) fn replace(&self, hash: BlockHash, from: Place, to: Place, pin: &Pin) {
        let key = Key::of(hash, self.spread);
        let _alone = self.shards[key.shard].lines.lock();
        let lines = self.arrays[key.shard].lines(pin);
        let mut at = key.home(lines.len());
        while !lines[at].lock().is_some_and(|line| line.exchange(key.word(from), key.word(to))) {
            at = after(at, lines.len());
        }
    }

    /// Bytes of all arrays.
    pub(crate) fn bytes(&self) -> usize {
        self.arrays.iter().map(|array| size_of::<CachePadded<Shard>>() + array.bytes()).sum()
    }

    /// Every entry's position.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn entries(&self, pin: &Pin) -> Vec<Place> {
        let slots = self.arrays.iter().flat_map(|array| array.lines(pin)).flat_map(|line| &line.slots);
        slots.map(|slot| slot.load(Ordering::Acquire)).filter(|word| *word != EMPTY).map(place).collect()
    }

    /// Counts an entry that came or left, and sees to it that the shard is neither crowded nor almost empty.
    #[inline]
    fn count(&self, key: Key, change: i64, lines: usize, pin: &Pin) {
        if key.tag % SAMPLE != 0 {
            return;
        }
        let shard = &self.shards[key.shard];
        // Relaxed: a count that publishes nothing. Wraps, both ways.
        let about = shard.sampled.fetch_add(change as u64, Ordering::Relaxed).wrapping_add(change as u64) as i64;
        let (about, slots) = (about.max(0) as usize * SAMPLE as usize, lines * SLOTS);
        if change > 0 && about * 4 > slots * 3 || change < 0 && lines > 1 && about * 6 < slots {
            let _alone = shard.lines.lock();
            if self.arrays[key.shard].lines(pin).len() == lines {
                self.resize(key.shard, pin);
            }
        }
    }

    /// Moves a shard's entries to an array that they fill to 40%. The shard's lock is held.
    #[cold]
    fn resize(&self, shard: usize, pin: &Pin) {
        let old = self.arrays[shard].lines(pin);
        let mut words = Vec::with_capacity(old.len() * SLOTS);
        for line in old {
            let line = line.lock().expect("we hold the shard: nobody else freezes it");
            // Relaxed: only who holds the line writes its slots.
            words.extend(line.of.slots.iter().map(|slot| slot.load(Ordering::Relaxed)).filter(|word| *word != EMPTY));
            line.freeze();
        }
        let fresh = Fresh::new(class_for((words.len() + 1) * 5 / 2, SLOTS));
        let mut sampled = 0;
        for &word in &words {
            let key = Key { shard, tag: word >> TAG_SHIFT };
            sampled += u64::from(key.tag % SAMPLE == 0);
            put(fresh.lines(), key, word, None);
        }
        self.shards[shard].sampled.store(sampled, Ordering::Relaxed);
        self.arrays[shard].replace(fresh, pin);
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
        // Acquire: who passed this line is to be found further on; pairs with the drop of `Held`.
        if line.word.load(Ordering::Acquire) & PASSED == 0 {
            return found;
        }
        at = after(at, lines.len());
        if at == home {
            return found;
        }
    }
}

/// Puts a word into the first vacant slot from its home line on, which may be locked already; false if there is none. Who calls it
/// holds the shard, or nobody else sees the lines.
fn put<'l>(lines: &'l [Slots], key: Key, word: u64, home: Option<Held<'l>>) -> bool {
    let start = key.home(lines.len());
    let (mut at, mut home, mut passed) = (start, home, 0);
    loop {
        let held = home.take().or_else(|| lines[at].lock());
        let mut line = held.expect("we hold the shard: nobody freezes it");
        if line.exchange(EMPTY, word) {
            return true;
        }
        // Before the entry is there: who looks for it goes on.
        line.passed += 1;
        passed += 1;
        at = after(at, lines.len());
        if passed == lines.len() {
            drop(line);
            for line in lines {
                line.lock().expect("as above").passed -= 1;
            }
            return false;
        }
    }
}

#[inline]
fn after(line: usize, lines: usize) -> usize {
    if line + 1 == lines { 0 } else { line + 1 }
}

/// Slots on one cache line, and a word: [`LOCKED`], [`FROZEN`], and how many entries passed the line.
#[repr(C, align(64))]
struct Slots {
    slots: [AtomicU64; SLOTS],
    word: AtomicU64,
}

/// A line that is locked.
struct Held<'l> {
    of: &'l Slots,
    passed: u64,
}

impl Slots {
    /// Locks the line, for some dozen instructions; none if its array is past.
    #[inline]
    fn lock(&self) -> Option<Held<'_>> {
        let word = self.word.load(Ordering::Relaxed);
        // Acquire: makes what the one before did visible; pairs with the drop of `Held`.
        let is_free = word & (LOCKED | FROZEN) == 0;
        if is_free && self.word.compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Some(Held { of: self, passed: word });
        }
        self.wait()
    }

    #[cold]
    fn wait(&self) -> Option<Held<'_>> {
        let backoff = Backoff::new();
        loop {
            let word = self.word.load(Ordering::Acquire) & !LOCKED;
            if word & FROZEN != 0 {
                return None;
            }
            if self.word.compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Some(Held { of: self, passed: word });
            }
            backoff.snooze();
            #[cfg(all(test, routing_loom))]
            loom::thread::yield_now();
        }
    }
}

impl Held<'_> {
    /// Puts a word into the line, if there is a vacant slot, nobody passed it, and no entry has the same tag: whether it did.
    #[inline]
    fn put_alone(&self, key: Key, word: u64) -> bool {
        let (mut vacant, mut is_alone) = (None, self.passed == 0);
        for slot in &self.of.slots {
            // Relaxed: only who holds the line writes its slots.
            match slot.load(Ordering::Relaxed) {
                EMPTY => vacant = Some(slot),
                other => is_alone &= other >> TAG_SHIFT != key.tag,
            }
        }
        let Some(vacant) = vacant.filter(|_| is_alone) else { return false };
        // Release: publishes what led to the position; pairs with `scan`.
        vacant.store(word, Ordering::Release);
        true
    }

    /// Puts a word in the place of another, if that is there.
    fn exchange(&self, from: u64, to: u64) -> bool {
        let slot = self.of.slots.iter().find(|slot| slot.load(Ordering::Relaxed) == from);
        // Release: as in `put_alone`.
        slot.is_some_and(|slot| {
            slot.store(to, Ordering::Release);
            true
        })
    }

    /// Nobody changes the line any more.
    fn freeze(mut self) {
        self.passed |= FROZEN;
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: publishes what was done; pairs with `lock` and `scan`.
        self.of.word.store(self.passed, Ordering::Release);
    }
}

impl Line for Slots {
    fn vacant() -> Self {
        Self { slots: std::array::from_fn(|_| AtomicU64::new(EMPTY)), word: AtomicU64::new(0) }
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

/// Bits of a line's word: somebody changes the line; nobody will any more, since its array is past.
const LOCKED: u64 = 1 << 63;
const FROZEN: u64 = 1 << 62;
const PASSED: u64 = FROZEN - 1;

const SLOTS: usize = if cfg!(all(test, routing_loom)) { 2 } else { 7 };
const SAMPLE: u64 = if cfg!(all(test, routing_loom)) { 1 } else { 8 };

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod tests;
