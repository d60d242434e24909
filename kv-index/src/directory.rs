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

mod ahead;
pub(crate) mod heads;
mod key;
mod line;
mod position;
mod resize;
pub(crate) mod sharded;
pub(crate) mod spread;

pub(crate) use ahead::HomesAhead;
pub(crate) use position::{BlockPosition, SegmentId};

use std::fmt;

use crossbeam_utils::{Backoff, CachePadded};
use smallvec::SmallVec;

use crate::blocks::BlockHash;
use crate::directory::key::{Key, place, sample};
use crate::directory::line::{EMPTY, FURTHEST, Held, Pair, Slots, snooze};
use crate::directory::resize::is_well_filled;
use crate::directory::sharded::{SHARDS, ShardArray};
use crate::directory::spread::Spread;
use crate::prefetch::{prefetch, prefetch_to_write};
use crate::reclamation::Pin;
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::writers::{WritePin, Writers};

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

/// The line where a key's entries begin, in the array that its shard had when this was found.
#[derive(Clone, Copy)]
pub(crate) struct Home<'p> {
    line: &'p Slots,
    /// The key, and whether that array counts it: one word, which is copied as such.
    about: u64,
}

impl<'p> Home<'p> {
    #[inline]
    fn new(key: Key, lines: &'p [Slots]) -> Self {
        let is_sampled = key.is_sampled(lines.len());
        let about = u64::from(key.tag) | u64::from(key.shard) << 32 | u64::from(is_sampled) << 40;
        Self { line: &lines[key.home(lines.len())], about }
    }

    #[inline]
    fn key(self) -> Key {
        Key { tag: self.about as u32, shard: (self.about >> 32) as u8 }
    }

    #[inline]
    fn is_sampled(self) -> bool {
        self.about >> 40 != 0
    }
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
        let (pairs, count) = self.arrays[key.shard()].address();
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
        scan(self.lines(key.shard(), pin), key)
    }

    /// The position that `hash` may have, if it is one and found at once. None says nothing.
    #[inline]
    pub(crate) fn sole(&self, hash: BlockHash, pin: &Pin) -> Option<BlockPosition> {
        let key = Key::of(hash, self.spread);
        let lines = self.lines(key.shard(), pin);
        lines[key.home(lines.len())].sole(key.tag).map(place)
    }

    /// Enters a position, unless the hash may have others than the `known` ones already: then those.
    #[inline]
    pub(crate) fn insert(
        &self,
        hash: BlockHash,
        at: BlockPosition,
        known: &[BlockPosition],
        pin: &WritePin<'_>,
    ) -> Result<(), Candidates> {
        if self.insert_alone(self.home(hash, pin), at, pin) {
            return Ok(());
        }
        self.insert_beside(hash, at, known, pin)
    }

    /// The same where nothing is known and where its entries begin was found beforehand.
    #[inline]
    pub(crate) fn insert_at(
        &self,
        home: Home<'_>,
        hash: BlockHash,
        at: BlockPosition,
        pin: &WritePin<'_>,
    ) -> Result<(), Candidates> {
        if self.insert_alone(home, at, pin) { Ok(()) } else { self.insert_beside(hash, at, &[], pin) }
    }

    /// Where a hash's entries begin, by the array that its shard has now.
    #[inline]
    fn home<'p>(&self, hash: BlockHash, pin: &'p Pin) -> Home<'p> {
        let key = Key::of(hash, self.spread);
        Home::new(key, self.lines(key.shard(), pin))
    }

    /// The same, and asks for the line, which will be changed.
    #[inline]
    pub(crate) fn home_ahead<'p>(&self, hash: BlockHash, pin: &'p Pin) -> Home<'p> {
        let home = self.home(hash, pin);
        prefetch_to_write(home.line);
        home
    }

    /// Enters a position, unless an entry bears the hash's tag: whether it did. Most do.
    #[inline]
    fn insert_alone(&self, home: Home<'_>, at: BlockPosition, pin: &WritePin<'_>) -> bool {
        let key = home.key();
        // One that is of a past array is frozen.
        let Some(mut line) = home.line.lock(pin.writers()).filter(|line| line.lacks(key.tag)) else { return false };
        let has_room = line.put(key.word(at));
        if has_room {
            // Before it is counted: a resize waits for it.
            drop(line);
        } else if !self.put_on(key, at, line, pin) {
            return false;
        }
        if home.is_sampled() {
            self.count(key, 1, pin);
        }
        true
    }

    /// Enters a position behind its home line, which is full.
    #[inline(never)]
    fn put_on(&self, key: Key, at: BlockPosition, home: Held<'_>, pin: &WritePin<'_>) -> bool {
        // As long as we have the home line, the array is the one that it is of.
        put(self.lines(key.shard(), pin), key, key.word(at), home, pin.writers())
    }

    /// The same where [`Self::insert_alone`] did not.
    #[inline(never)]
    fn insert_beside(
        &self,
        hash: BlockHash,
        at: BlockPosition,
        known: &[BlockPosition],
        pin: &WritePin<'_>,
    ) -> Result<(), Candidates> {
        let key = Key::of(hash, self.spread);
        loop {
            let (lines, home) = self.lock_home(key, pin);
            // Whoever enters the same hash waits for our home line: nobody is missed.
            let found = scan(lines, key);
            if found.iter().any(|other| !known.contains(other)) {
                return Err(found);
            }
            if put(lines, key, key.word(at), home, pin.writers()) {
                if key.is_sampled(lines.len()) {
                    self.count(key, 1, pin);
                }
                return Ok(());
            }
            self.resize(key.shard(), lines.len(), true, pin);
        }
    }

    /// Takes a position out. It is there.
    pub(crate) fn remove(&self, hash: BlockHash, at: BlockPosition, pin: &WritePin<'_>) {
        self.remove_at(self.home(hash, pin), at, pin);
    }

    /// The same where the hash's entries begin was found beforehand.
    #[inline]
    pub(crate) fn remove_at(&self, home: Home<'_>, at: BlockPosition, pin: &WritePin<'_>) {
        let key = home.key();
        if self.exchange(home, key.word(at), EMPTY, pin) {
            self.count(key, -1, pin);
        }
    }

    /// Lets a position that is there be another one. Who looks the hash up meanwhile finds one of the two.
    pub(crate) fn replace(&self, hash: BlockHash, from: BlockPosition, to: BlockPosition, pin: &WritePin<'_>) {
        let home = self.home(hash, pin);
        let key = home.key();
        self.exchange(home, key.word(from), key.word(to), pin);
    }

    /// Puts a word in the place of one that is there; whether the shard counts it.
    #[inline]
    fn exchange(&self, home: Home<'_>, from: u64, to: u64, pin: &WritePin<'_>) -> bool {
        if home.line.lock(pin.writers()).is_some_and(|mut line| line.exchange(from, to)) {
            return home.is_sampled();
        }
        self.exchange_elsewhere(home.key(), from, to, pin)
    }

    /// The same where it may not be in its home line.
    #[inline(never)]
    fn exchange_elsewhere(&self, key: Key, from: u64, to: u64, pin: &WritePin<'_>) -> bool {
        let backoff = Backoff::new();
        loop {
            let (lines, mut home) = self.lock_home(key, pin);
            if home.exchange(from, to) {
                return key.is_sampled(lines.len());
            }
            let at = key.home(lines.len());
            let has = |line: &usize| lines[*line].words().any(|word| word == from);
            let there = steps_within(home.reach(), lines.len()).map(|steps| step(at, steps, lines.len())).find(has);
            let line = there.expect("the directory has what is taken out of it");
            let held = if line > at { lines[line].lock(pin.writers()) } else { lines[line].try_lock(pin.writers()) };
            if let Some(mut held) = held {
                held.exchange(from, to);
                if to == EMPTY {
                    home.send_off();
                }
                return key.is_sampled(lines.len());
            }
            // The neighbour before: who has it may wait for our home.
            drop(home);
            snooze(&backoff);
        }
    }

    /// A shard's lines, and the one where a key's entries begin, locked.
    #[inline(always)]
    fn lock_home<'p>(&self, key: Key, pin: &'p WritePin<'_>) -> (&'p [Slots], Held<'p>) {
        loop {
            let lines = self.lines(key.shard(), pin);
            if let Some(home) = lines[key.home(lines.len())].lock(pin.writers()) {
                return (lines, home);
            }
            self.wait_for_resize(key.shard());
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

    /// Counts an entry that came or left and is counted, and sees to it that the shard is neither crowded nor almost empty.
    #[inline(never)]
    fn count(&self, key: Key, change: i64, pin: &WritePin<'_>) {
        let (shard, lines) = (&self.shards[key.shard()], self.lines(key.shard(), pin).len());
        // Relaxed: a count that publishes nothing. Wraps, both ways.
        let about = match pin.writers() {
            Writers::Many => shard.sampled.fetch_add(change as u64, Ordering::Relaxed).wrapping_add(change as u64),
            Writers::One => {
                let about = shard.sampled.load(Ordering::Relaxed).wrapping_add(change as u64);
                shard.sampled.store(about, Ordering::Relaxed);
                about
            }
        } as i64;
        if !is_well_filled(about.max(0) as usize * sample(lines), lines) {
            self.resize(key.shard(), lines, false, pin);
        }
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
fn put(lines: &[Slots], key: Key, word: u64, mut home: Held<'_>, writers: Writers) -> bool {
    if home.put(word) {
        return true;
    }
    let at = key.home(lines.len());
    let put = |steps: usize| {
        let line = step(at, steps, lines.len());
        // Whom we would wait for may wait for our home: the next line will do.
        let held = || if line < at { lines[line].try_lock(writers) } else { lines[line].lock(writers) };
        // Most neighbours of a full line are not; a look at one that is costs less than its lock.
        lines[line].has_room() && held().is_some_and(|mut line| line.put(word))
    };
    // Until then nobody finds the entry, and our home line keeps others from entering the hash.
    let found = steps_within(FURTHEST, lines.len()).find(|steps| put(*steps));
    found.into_iter().for_each(|steps| home.send_on(key.tag, steps));
    found.is_some()
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

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod tests;
