//! Resizing of a shard: its lines are frozen one by one, and their entries moved to an array that nobody else sees yet.

use crate::directory::key::{Key, TAG_SHIFT, sample};
use crate::directory::line::{FURTHEST, SLOTS, Slots};
use crate::directory::sharded::{Fresh, class_for};
use crate::directory::{Directory, flat, step, steps_within};
use crate::prefetch::prefetch_to_write;
use crate::sync::Ordering;
use crate::writers::WritePin;

impl Directory {
    /// Moves the entries of a shard that has so many lines to an array that they fill to between 40% and 50%, to half of that where the shard is
    /// small, or to a larger one than this. Unless somebody else just did.
    #[cold]
    pub(super) fn resize(&self, shard: usize, lines: usize, larger: bool, pin: &WritePin<'_>) {
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
        for (at, line) in old.iter().enumerate() {
            old.get(at + AHEAD).into_iter().for_each(|line| prefetch_to_write(line));
            line.lock(pin.writers()).expect("only who resizes freezes").freeze();
        }
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

/// Whether so many entries neither crowd nor are almost none.
#[inline]
pub(super) fn is_well_filled(entries: usize, lines: usize) -> bool {
    // An array that a small shard was given may be filled to no more than a fifth. One that is emptier yet misses the caches.
    let least = if lines < 4 * SMALL { 10 } else { 6 };
    entries * 4 <= lines * SLOTS * 3 && (lines <= 2 || entries * least >= lines * SLOTS)
}

/// Puts the words of frozen lines into vacant ones that nobody else sees; false if some do not fit.
fn fill(lines: &[Slots], old: &[Slots]) -> bool {
    old.iter().all(|line| {
        line.words().all(|word| {
            let tag = (word >> TAG_SHIFT) as u32;
            let at = Key { shard: 0, tag }.home(lines.len());
            let put = |steps: &usize| lines[step(at, *steps, lines.len())].put_unseen(word);
            let elsewhere = || steps_within(FURTHEST, lines.len()).find(put);
            lines[at].put_unseen(word) || elsewhere().map(|steps| lines[at].send_on_unseen(tag, steps)).is_some()
        })
    })
}

/// Lines of a shard below which it grows in larger steps: growing is a third of what filling a small table costs, and its memory is little.
const SMALL: usize = 512;

/// Lines ahead that a resize asks for.
const AHEAD: usize = 8;
