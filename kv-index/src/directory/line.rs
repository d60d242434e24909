//! A cache line of the directory: slots, and a word that has the line's lock.
//!
//! The word's bits: how many entries whose home this is are elsewhere, since it was full, how many steps off the furthest of them, a
//! bit for each of 16 kinds of tags among them, which slots are taken, and whether the line is [`FROZEN`] or [`LOCKED`].

use crossbeam_utils::Backoff;

use crate::directory::key::TAG_SHIFT;
use crate::directory::sharded::Line;
use crate::sync::{AtomicU64, Ordering};
use crate::writers::Writers;

/// Slots on one cache line, and a word about them.
#[repr(C, align(64))]
pub(super) struct Slots {
    slots: [AtomicU64; SLOTS],
    word: AtomicU64,
}

/// Two lines that processors like to fetch together.
#[repr(C, align(128))]
pub(super) struct Pair(pub(super) [Slots; 2]);

/// A line that is locked, for some dozen instructions.
pub(super) struct Held<'l> {
    of: &'l Slots,
    word: u64,
}

impl Slots {
    /// Locks the line; none if its array is past.
    #[inline]
    pub(super) fn lock(&self, writers: Writers) -> Option<Held<'_>> {
        self.try_lock(writers).or_else(|| self.wait())
    }

    /// Locks the line, unless somebody has, or its array is past.
    #[inline]
    pub(super) fn try_lock(&self, writers: Writers) -> Option<Held<'_>> {
        let word = self.word.load(Ordering::Relaxed);
        if writers == Writers::One {
            // Nobody else writes: there is nobody to keep out.
            return (word & FROZEN == 0).then_some(Held { of: self, word });
        }
        // Acquire: makes what the one before did visible; pairs with the drop of `Held`.
        let is_free = word & (LOCKED | FROZEN) == 0;
        let locks = || self.word.compare_exchange(word, word | LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        (is_free && locks()).then(|| Held { of: self, word })
    }

    #[cold]
    fn wait(&self) -> Option<Held<'_>> {
        let backoff = Backoff::new();
        // Acquire: what led to the new array is visible.
        while self.word.load(Ordering::Acquire) & FROZEN == 0 {
            if let Some(held) = self.try_lock(Writers::Many) {
                return Some(held);
            }
            snooze(&backoff);
        }
        None
    }

    /// The slots' words.
    #[inline]
    pub(super) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        // Acquire: makes what led to a position visible; pairs with the stores in `Held`.
        self.slots.iter().map(|slot| slot.load(Ordering::Acquire)).filter(|word| *word != EMPTY)
    }

    /// How many slots are taken.
    pub(super) fn taken(&self) -> usize {
        (self.word.load(Ordering::Relaxed) >> TAKEN & ((1 << SLOTS) - 1)).count_ones() as usize
    }

    /// Whether a slot seems vacant: who locks the line knows.
    #[inline]
    pub(super) fn has_room(&self) -> bool {
        let all = (1 << SLOTS) - 1;
        self.word.load(Ordering::Relaxed) >> TAKEN & all != all
    }

    /// Hands out the words that bear a tag.
    #[inline]
    pub(super) fn tagged(&self, tag: u32, mut each: impl FnMut(u64)) {
        for slot in &self.slots {
            // Acquire: as in `words`.
            let word = slot.load(Ordering::Acquire);
            if word >> TAG_SHIFT == u64::from(tag) && word != EMPTY {
                each(word);
            }
        }
    }

    /// The word that bears a tag, if one does and no entry of the tag may be elsewhere.
    #[inline]
    pub(super) fn sole(&self, tag: u32) -> Option<u64> {
        // Acquire: as in `words`.
        let words: [u64; SLOTS] = std::array::from_fn(|at| self.slots[at].load(Ordering::Acquire));
        let bears = words.iter().enumerate().map(|(at, word)| u32::from(word >> TAG_SHIFT == u64::from(tag)) << at);
        let bears: u32 = bears.sum();
        let is_sole = bears.is_power_of_two() && self.reach(tag) == 0;
        words.get(bears.trailing_zeros() as usize).copied().filter(|word| is_sole && *word != EMPTY)
    }

    /// How many steps off entries of a tag may be that have their home here.
    #[inline]
    pub(super) fn reach(&self, tag: u32) -> usize {
        // Acquire: who is elsewhere is to be found there; pairs with the drop of `Held`.
        let word = self.word.load(Ordering::Acquire);
        if word & kind(tag) == 0 { 0 } else { reach(word) }
    }

    /// Puts a word into a line that nobody else sees, if there is a vacant slot.
    #[inline]
    pub(super) fn put_unseen(&self, word: u64) -> bool {
        // Relaxed, here and below: whoever publishes the line publishes this.
        let about = self.word.load(Ordering::Relaxed);
        let filled = (about >> TAKEN).trailing_ones() as usize;
        let Some(slot) = self.slots.get(filled) else { return false };
        slot.store(word, Ordering::Relaxed);
        self.word.store(about | taken(filled), Ordering::Relaxed);
        true
    }

    /// An entry has its home in a line that nobody else sees, and is elsewhere.
    pub(super) fn send_on_unseen(&self, tag: u32, steps: usize) {
        self.word.store(sent_on(self.word.load(Ordering::Relaxed), tag, steps), Ordering::Relaxed);
    }
}

impl Held<'_> {
    /// Whether no entry of the same tag is there, here or elsewhere.
    #[inline]
    pub(super) fn lacks(&self, tag: u32) -> bool {
        let mut lacks = self.word & kind(tag) == 0;
        for slot in &self.of.slots {
            // Relaxed: only who holds the line writes its slots.
            lacks &= slot.load(Ordering::Relaxed) >> TAG_SHIFT != u64::from(tag);
        }
        lacks
    }

    /// Puts a word into a vacant slot, if there is one.
    #[inline]
    pub(super) fn put(&mut self, word: u64) -> bool {
        let vacant = (self.word >> TAKEN).trailing_ones() as usize;
        let Some(slot) = self.of.slots.get(vacant) else { return false };
        // Release: publishes what led to the position; pairs with `words`.
        slot.store(word, Ordering::Release);
        self.word |= taken(vacant);
        true
    }

    /// Puts a word in the place of another, or nothing, if that is there.
    #[inline]
    pub(super) fn exchange(&mut self, from: u64, to: u64) -> bool {
        let mut at = SLOTS;
        // Not left early: which slot it is in cannot be predicted.
        for (slot, word) in self.of.slots.iter().enumerate() {
            at = if word.load(Ordering::Relaxed) == from { slot } else { at };
        }
        let Some(slot) = self.of.slots.get(at) else { return false };
        // Release: as in `put`.
        slot.store(to, Ordering::Release);
        if to == EMPTY {
            self.word &= !taken(at);
        }
        true
    }

    /// How many steps off entries may be that have their home here.
    pub(super) fn reach(&self) -> usize {
        reach(self.word)
    }

    /// An entry that has its home here is so many steps off.
    pub(super) fn send_on(&mut self, tag: u32, steps: usize) {
        self.word = sent_on(self.word, tag, steps);
    }

    /// An entry that was elsewhere leaves.
    pub(super) fn send_off(&mut self) {
        self.word -= 1;
        if self.word & SENT == 0 {
            self.word &= !((1 << TAKEN) - 1);
        }
    }

    /// Nobody changes the line any more.
    pub(super) fn freeze(mut self) {
        self.word |= FROZEN;
    }
}

impl Drop for Held<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: publishes what was done; pairs with `try_lock` and `reach`.
        self.of.word.store(self.word, Ordering::Release);
    }
}

// SAFETY: (1) it is two cache lines, and a zero is an empty slot, or says that nothing is taken and nobody holds the line.
unsafe impl Line for Pair {
    #[cfg(all(test, routing_loom))]
    fn vacant() -> Self {
        let slots = || Slots { slots: std::array::from_fn(|_| AtomicU64::new(EMPTY)), word: AtomicU64::new(0) };
        Self([slots(), slots()])
    }
}

/// Lets others run that hold what we want.
pub(super) fn snooze(backoff: &Backoff) {
    backoff.snooze();
    #[cfg(all(test, routing_loom))]
    loom::thread::yield_now();
}

/// No segment has the id zero.
pub(super) const EMPTY: u64 = 0;

pub(super) const SLOTS: usize = if cfg!(all(test, routing_loom)) { 2 } else { 7 };

/// Bits of a line's word: somebody changes the line; nobody will any more, since its array is past.
const LOCKED: u64 = 1 << 63;
const FROZEN: u64 = 1 << 62;
/// How many are elsewhere; where the other fields begin.
const SENT: u64 = (1 << REACH) - 1;
const REACH: u32 = 28;
const KINDS: u32 = 32;
const TAKEN: u32 = KINDS + 16;
/// The most steps that are told apart: where entries of one tag crowd, they are anywhere.
pub(super) const FURTHEST: usize = (1 << (KINDS - REACH)) - 1;

#[inline]
const fn reach(word: u64) -> usize {
    (word >> REACH) as usize & FURTHEST
}

/// The bit that stands for a tag, among others.
#[inline]
const fn kind(tag: u32) -> u64 {
    1 << (KINDS + tag % 16)
}

/// What the word says when one more is so many steps off.
const fn sent_on(word: u64, tag: u32, steps: usize) -> u64 {
    let steps = if steps < FURTHEST { steps } else { FURTHEST };
    let steps = if steps > reach(word) { steps } else { reach(word) };
    (word & !((FURTHEST as u64) << REACH) | (steps as u64) << REACH | kind(tag)) + 1
}

/// The bit of a slot that is taken.
#[inline]
const fn taken(slot: usize) -> u64 {
    1 << (TAKEN as usize + slot)
}
