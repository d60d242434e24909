//! Directory: block hash → position (segment and offset), once for all pods.
//!
//! A slot is eight bytes: a tag of the hash and a position. It is no more than a hint, since **the segment's own hash proves
//! it**: whoever looks a block up compares. The directory has every place of every segment, and for a moment those that a
//! segment is about to have or has just given up. A hash has two places only where pods contradict each other about what it follows.
//!
//! Seven slots and a word share a cache line ([`line`]): the word has the line's lock. An entry that finds its home line full goes to the
//! line beside it, or further on, and its home line says how far. Who changes an entry locks its home line and then the one that the
//! entry is in, and touches no other memory that threads share, but for the few entries that a shard counts. It waits for a line behind
//! its home, never for one before: nobody waits in a circle. Only a resize takes the shard's lock, and freezes line by line; who
//! finds its home frozen waits for that. Look-ups take no lock, and may see the array that a resize has just replaced.

pub(crate) mod heads;
mod key;
mod line;
mod position;
pub(crate) mod sharded;
pub(crate) mod spread;

pub(crate) use position::{BlockPosition, SegmentId};

use std::fmt;

use crossbeam_utils::{Backoff, CachePadded};
use smallvec::SmallVec;

use crate::blocks::BlockHash;
use crate::directory::key::{Key, TAG_SHIFT, place, sample};
use crate::directory::line::{EMPTY, FURTHEST, Held, Pair, SLOTS, Slots, snooze};
use crate::directory::sharded::{Fresh, SHARDS, ShardArray, class_for};
use crate::directory::spread::Spread;
use crate::prefetch::{prefetch, prefetch_to_write};
use crate::reclamation::Pin;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The sharded table.
pub(crate) struct Directory {
    /// 2 KB that everybody reads and only a resize writes.
    arrays: Box<[ShardArray<Pair>]>,
    shards: Box<[CachePadded<Shard>]>,
    spread: Spread,
}

#[derive(Default)]
struct Shard {
    /// Held by who resizes it.
    resize: Mutex<()>,
    /// About one in [`sample`] entries, those whose tags are multiples of that: a count of every one would be a line that all cores write.
    sampled: AtomicU64,
}

/// Positions that a hash may have: those whose slots bear its tag.
pub(crate) type Candidates = SmallVec<[BlockPosition; 2]>;

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
        prefetch(self.address(key));
    }

    /// The same if an entry will be made or taken out.
    #[inline]
    pub(crate) fn prefetch_to_write(&self, hash: BlockHash) {
        let key = Key::of(hash, self.spread);
        prefetch_to_write(self.address(key));
    }

    #[inline]
    fn address(&self, key: Key) -> *const Slots {
        let (pairs, count) = self.arrays[key.shard].address();
        pairs.cast::<Slots>().wrapping_add(key.home(2 * count))
    }

    /// A shard's lines.
    #[inline]
    fn lines<'p>(&self, shard: usize, pin: &'p Pin) -> &'p [Slots] {
        flat(self.arrays[shard].lines(pin))
    }

    /// Positions that `hash` may have. One that it has all the while is among them; one that moves meanwhile may not be.
    #[inline]
    pub(crate) fn candidates(&self, hash: BlockHash, pin: &Pin) -> Candidates {
        let key = Key::of(hash, self.spread);
        scan(self.lines(key.shard, pin), key)
    }

    /// The position that `hash` may have, if it is one and found at once. None says nothing.
    #[inline]
    pub(crate) fn sole(&self, hash: BlockHash, pin: &Pin) -> Option<BlockPosition> {
        let key = Key::of(hash, self.spread);
        let lines = self.lines(key.shard, pin);
        lines[key.home(lines.len())].sole(key.tag).map(place)
    }

    /// Enters a position, unless the hash may have others than the `known` ones already: then those.
    #[inline]
    pub(crate) fn insert(
        &self,
        hash: BlockHash,
        at: BlockPosition,
        known: &[BlockPosition],
        pin: &Pin,
    ) -> Result<(), Candidates> {
        if self.insert_alone(hash, at, pin) {
            return Ok(());
        }
        self.insert_beside(hash, at, known, pin)
    }

    /// Enters a position, if the hash's home line has a place for it and no entry bears its tag: whether it did. Most do.
    #[inline]
    fn insert_alone(&self, hash: BlockHash, at: BlockPosition, pin: &Pin) -> bool {
        let key = Key::of(hash, self.spread);
        let lines = self.lines(key.shard, pin);
        let Some(mut home) = lines[key.home(lines.len())].lock() else { return false };
        let entered = home.put_alone(key.tag, key.word(at));
        drop(home);
        if entered {
            self.count(key, 1, lines.len(), pin);
        }
        entered
    }

    /// The same where [`Self::insert_alone`] did not.
    #[inline(never)]
    fn insert_beside(
        &self,
        hash: BlockHash,
        at: BlockPosition,
        known: &[BlockPosition],
        pin: &Pin,
    ) -> Result<(), Candidates> {
        let key = Key::of(hash, self.spread);
        loop {
            let (lines, home) = self.lock_home(key, pin);
            // Whoever enters the same hash waits for our home line: nobody is missed.
            let found = scan(lines, key);
            if found.iter().any(|other| !known.contains(other)) {
                return Err(found);
            }
            if put(lines, key, key.word(at), home) {
                self.count(key, 1, lines.len(), pin);
                return Ok(());
            }
            self.resize(key.shard, lines.len(), true, pin);
        }
    }

    /// Takes a position out. It is there.
    pub(crate) fn remove(&self, hash: BlockHash, at: BlockPosition, pin: &Pin) {
        let key = Key::of(hash, self.spread);
        let lines = self.exchange(key, key.word(at), EMPTY, pin);
        self.count(key, -1, lines, pin);
    }

    /// Lets a position that is there be another one. Who looks the hash up meanwhile finds one of the two.
    pub(crate) fn replace(&self, hash: BlockHash, from: BlockPosition, to: BlockPosition, pin: &Pin) {
        let key = Key::of(hash, self.spread);
        self.exchange(key, key.word(from), key.word(to), pin);
    }

    /// Puts a word in the place of one that is there; how many lines the shard has.
    #[inline]
    fn exchange(&self, key: Key, from: u64, to: u64, pin: &Pin) -> usize {
        let (lines, mut home) = self.lock_home(key, pin);
        if home.exchange(from, to) {
            return lines.len();
        }
        drop(home);
        self.exchange_elsewhere(key, from, to, pin)
    }

    /// The same where it may not be in its home line.
    #[inline(never)]
    fn exchange_elsewhere(&self, key: Key, from: u64, to: u64, pin: &Pin) -> usize {
        let backoff = Backoff::new();
        loop {
            let (lines, mut home) = self.lock_home(key, pin);
            if home.exchange(from, to) {
                return lines.len();
            }
            let at = key.home(lines.len());
            let has = |line: &usize| lines[*line].words().any(|word| word == from);
            let there = steps_within(home.reach(), lines.len()).map(|steps| step(at, steps, lines.len())).find(has);
            let line = there.expect("the directory has what is taken out of it");
            let held = if line > at { lines[line].lock() } else { lines[line].try_lock() };
            if let Some(mut held) = held {
                held.exchange(from, to);
                if to == EMPTY {
                    home.send_off();
                }
                return lines.len();
            }
            // The neighbour before: who has it may wait for our home.
            drop(home);
            snooze(&backoff);
        }
    }

    /// A shard's lines, and the one where a key's entries begin, locked.
    #[inline(always)]
    fn lock_home<'p>(&self, key: Key, pin: &'p Pin) -> (&'p [Slots], Held<'p>) {
        loop {
            let lines = self.lines(key.shard, pin);
            if let Some(home) = lines[key.home(lines.len())].lock() {
                return (lines, home);
            }
            self.wait_for_resize(key.shard);
        }
    }

    /// Waits until a shard has its new array.
    #[cold]
    fn wait_for_resize(&self, shard: usize) {
        drop(self.shards[shard].resize.lock());
    }

    /// Bytes of all arrays.
    pub(crate) fn bytes(&self) -> usize {
        self.arrays.iter().map(|array| size_of::<CachePadded<Shard>>() + array.bytes()).sum()
    }

    /// Every entry's position.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn entries(&self, pin: &Pin) -> Vec<BlockPosition> {
        (0..SHARDS).flat_map(|shard| self.lines(shard, pin)).flat_map(Slots::words).map(place).collect()
    }

    /// Counts an entry that came or left, and sees to it that the shard is neither crowded nor almost empty.
    #[inline]
    fn count(&self, key: Key, change: i64, lines: usize, pin: &Pin) {
        if !key.is_sampled(lines) {
            return;
        }
        let shard = &self.shards[key.shard];
        // Relaxed: a count that publishes nothing. Wraps, both ways.
        let about = shard.sampled.fetch_add(change as u64, Ordering::Relaxed).wrapping_add(change as u64) as i64;
        if !is_well_filled(about.max(0) as usize * sample(lines), lines) {
            self.resize(key.shard, lines, false, pin);
        }
    }

    /// Moves the entries of a shard that has so many lines to an array that they fill to between 40% and 50%, to half of that where the shard is
    /// small, or to a larger one than this. Unless somebody else just did.
    #[cold]
    fn resize(&self, shard: usize, lines: usize, larger: bool, pin: &Pin) {
        let array = &self.arrays[shard];
        let _alone = self.shards[shard].resize.lock();
        let old = self.lines(shard, pin);
        if old.len() != lines {
            return;
        }
        let about =
            |count: usize, lines| self.shards[shard].sampled.store((count / sample(lines)) as u64, Ordering::Relaxed);
        let count = old.iter().map(Slots::taken).sum();
        if !larger && is_well_filled(count, lines) {
            // The sample was not like the rest.
            return about(count, lines);
        }
        old.iter().for_each(|line| line.lock().expect("only who resizes freezes").freeze());
        let least = if larger { array.class() + 1 } else { 0 };
        let mut class = class_for((count + 1) * if lines < SMALL { 4 } else { 2 }, 2 * SLOTS).max(least);
        let fresh = loop {
            let fresh = Fresh::new(class);
            if fill(flat(fresh.lines()), old) {
                break fresh;
            }
            class += 1;
        };
        about(count, 2 * fresh.lines().len());
        array.replace(fresh, pin);
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Directory").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

/// The lines of pairs.
#[inline]
fn flat(pairs: &[Pair]) -> &[Slots] {
    // SAFETY: a pair is two lines, and nothing else: see the assertion below.
    unsafe { std::slice::from_raw_parts(pairs.as_ptr().cast(), 2 * pairs.len()) }
}

const _: () = assert!(size_of::<Pair>() == 2 * size_of::<Slots>());

/// Whether so many entries neither crowd nor are almost none.
#[inline]
fn is_well_filled(entries: usize, lines: usize) -> bool {
    // An array that a small shard was given may be filled to no more than a fifth. One that is emptier yet misses the caches.
    let least = if lines < 4 * SMALL { 10 } else { 6 };
    entries * 4 <= lines * SLOTS * 3 && (lines <= 2 || entries * least >= lines * SLOTS)
}

/// Lines of a shard below which it grows in larger steps: growing is a third of what filling a small table costs, and its memory is little.
const SMALL: usize = 512;

/// Positions under a key.
#[inline]
fn scan(lines: &[Slots], key: Key) -> Candidates {
    let (mut found, at) = (Candidates::new(), key.home(lines.len()));
    let home = &lines[at];
    home.tagged(key.tag, |word| found.push(place(word)));
    for steps in steps_within(home.reach(key.tag), lines.len()) {
        lines[step(at, steps, lines.len())].tagged(key.tag, |word| found.push(place(word)));
    }
    found
}

/// Puts a word into its home line or the first vacant slot further on; false if there is none.
fn put(lines: &[Slots], key: Key, word: u64, mut home: Held<'_>) -> bool {
    if home.put(word) {
        return true;
    }
    let at = key.home(lines.len());
    let put = |steps: usize| {
        let line = step(at, steps, lines.len());
        // Whom we would wait for may wait for our home: the next line will do.
        let held = if line < at { lines[line].try_lock() } else { Some(lines[line].lock().expect(UNFROZEN)) };
        held.is_some_and(|mut line| line.put(word))
    };
    // Until then nobody finds the entry, and our home line keeps others from entering the hash.
    let found = steps_within(FURTHEST, lines.len()).find(|steps| put(*steps));
    found.into_iter().for_each(|steps| home.send_on(key.tag, steps));
    found.is_some()
}

/// Puts the words of frozen lines into others that nobody else sees; false if some do not fit.
fn fill(lines: &[Slots], old: &[Slots]) -> bool {
    old.iter().all(|line| {
        line.words().all(|word| {
            let tag = word >> TAG_SHIFT;
            let at = Key { shard: 0, tag }.home(lines.len());
            let put = |steps: &usize| lines[step(at, *steps, lines.len())].put_unseen(word);
            let elsewhere = || steps_within(FURTHEST, lines.len()).find(put);
            lines[at].put_unseen(word) || elsewhere().map(|steps| lines[at].send_on_unseen(tag, steps)).is_some()
        })
    })
}

/// The line that is so many steps off a home line: first the other one of its pair, then those behind the pair, then those before.
#[inline]
fn step(home: usize, steps: usize, lines: usize) -> usize {
    let line = if steps == 1 { home ^ 1 } else { (home | 1) + steps - 1 };
    if line < lines { line } else { line - lines }
}

/// The steps from a home line whose reach this is.
#[inline]
fn steps_within(reach: usize, lines: usize) -> std::ops::Range<usize> {
    1..if reach < FURTHEST { reach + 1 } else { lines }
}

/// A resize freezes lines from the first on: who holds one keeps it from those behind.
const UNFROZEN: &str = "nobody freezes a line behind one that is held";

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod tests;
