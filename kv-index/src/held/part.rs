//! Bucketized hash table: pairs of cache lines of four blocks each.

use super::{Held, Spot};
use crate::block::BlockHash;
use crate::spread::Spread;

#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) lines: Lines,
    pub(super) len: usize,
}

impl Part {
    #[inline]
    pub(super) fn find(&self, hash: BlockHash, home: Home, part: usize) -> Option<Spot> {
        if self.len == 0 {
            return None;
        }
        let start = home.line(self.lines.len);
        let mut at = start;
        loop {
            let line = self.lines.at(at);
            let found = line.slots_with(hash.get());
            if found != 0 {
                return Some(Spot::new(part, at, found.trailing_zeros()));
            }
            at = self.after(start, at);
            // In a small part every line may have been passed by somebody: once around is enough.
            if line.passed() == 0 || at == start {
                return None;
            }
        }
    }

    /// Whether so many more blocks fit.
    #[inline]
    pub(super) fn has_room(&self, more: usize) -> bool {
        (self.len + more) * 4 <= self.lines.len * PER_LINE * 3
    }

    /// Sees to it that so many more blocks fit; whether that moved the others.
    pub(super) fn make_room(&mut self, more: usize, spread: Spread) -> bool {
        if self.has_room(more) {
            return false;
        }
        let grown = if self.lines.len < STEEP { 2 * self.lines.len } else { self.lines.len * 3 / 2 };
        self.resize(grown.max(2).max(((self.len + more) * 4).div_ceil(PER_LINE * 3)), spread);
        true
    }

    /// Puts a block into the first vacancy from its home line; says to every line passed that it passed.
    #[inline]
    pub(super) fn claim(&mut self, hash: BlockHash, home: usize, word: u64) -> (usize, u32) {
        self.len += 1;
        let mut at = home;
        loop {
            let line = self.lines.at(at);
            let (vacant, passed) = (line.slots_with(0), line.passed());
            if vacant != 0 {
                let slot = vacant.trailing_zeros();
                self.lines.fill(at, slot, hash, word);
                return (at, slot);
            }
            self.lines.set_passed(at, passed.saturating_add(1));
            at = self.after(home, at);
        }
    }

    /// Takes a block out; whether that moved the others.
    pub(super) fn remove(&mut self, home: Home, spot: Spot, spread: Spread) -> bool {
        let home = home.line(self.lines.len);
        let mut at = home;
        while at != spot.line() {
            let passed = self.lines.at(at).passed();
            // A saturated count is no longer a count: it stays until the part is resized.
            if passed < u8::MAX {
                self.lines.set_passed(at, passed - 1);
            }
            at = self.after(home, at);
        }
        *self.lines.word_mut(Spot(spot.0 - PER_LINE as u64)) = 0;
        self.len -= 1;
        let sparse = self.len * 5 < self.lines.len * PER_LINE && self.lines.len > 2;
        if sparse {
            self.resize((self.len * 5 / 9).max(2), spread);
        }
        sparse
    }

    /// Moves the part to a new array of so many lines.
    #[cold]
    pub(super) fn resize(&mut self, lines: usize, spread: Spread) {
        let old = std::mem::replace(&mut self.lines, Lines::new(lines));
        self.len = 0;
        for line in old.iter() {
            let mut left = !line.slots_with(0) & ((1 << PER_LINE) - 1);
            while left != 0 {
                let slot = left.trailing_zeros() as usize % PER_LINE;
                left &= left - 1;
                let hash = BlockHash::new(line.hashes[slot]);
                self.claim(hash, Home::of(hash, spread).line(self.lines.len), line.words[slot] & HELD);
            }
        }
    }

    /// Where a block goes on that found this line full: to the other line of its home's pair, which the processor
    /// mostly has fetched too, and then from pair to pair, until it is home again.
    #[inline]
    pub(super) fn after(&self, home: usize, at: usize) -> usize {
        if at == home {
            return home ^ 1;
        }
        let next = if at == home ^ 1 { (home | 1) + 1 } else { at + 1 };
        let next = if next == self.lines.len { 0 } else { next };
        if next == home & !1 { home } else { next }
    }
}

/// An array of lines, each on one cache line.
///
/// Of plain words, so that a new array is memory that the system hands out zeroed, and nobody has to write first.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) words: Vec<u64>,
    /// Words before the first line.
    pub(super) skip: usize,
    pub(super) len: usize,
}

impl Lines {
    /// So many lines, or one more: they come in pairs.
    pub(super) fn new(len: usize) -> Self {
        let len = len.next_multiple_of(2);
        let words = vec![0; (len + 2) * LINE - 1];
        let skip = words.as_ptr().addr().wrapping_neg() % 128 / size_of::<u64>();
        Self { words, skip, len }
    }

    #[inline]
    pub(super) fn at(&self, line: usize) -> Line<'_> {
        Line::of(&self.words[self.skip + line * LINE..]).expect("a line is whole")
    }

    /// The hashes and words of a line.
    #[inline]
    pub(super) fn at_mut(&mut self, line: usize) -> (&mut [u64], &mut [u64]) {
        self.words[self.skip + line * LINE..][..LINE].split_at_mut(PER_LINE)
    }

    #[inline]
    pub(super) fn word(&self, spot: Spot) -> u64 {
        self.words[self.skip + spot.word()]
    }

    #[inline]
    pub(super) fn word_mut(&mut self, spot: Spot) -> &mut u64 {
        &mut self.words[self.skip + spot.word()]
    }

    #[inline]
    pub(super) fn address(&self, line: usize) -> *const u64 {
        self.words.as_ptr().wrapping_add(self.skip + line * LINE)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        (0..self.len).map(|line| self.at(line))
    }

    pub(super) fn pop(&mut self) -> Option<Line<'_>> {
        self.len = self.len.checked_sub(1)?;
        Some(self.at(self.len))
    }

    #[inline]
    pub(super) fn fill(&mut self, line: usize, slot: u32, hash: BlockHash, word: u64) {
        let (hashes, words) = self.at_mut(line);
        hashes[slot as usize] = hash.get();
        let held = &mut words[slot as usize];
        *held = *held & !HELD | word;
    }

    #[inline]
    pub(super) fn set_passed(&mut self, line: usize, passed: u8) {
        let (_, words) = self.at_mut(line);
        words[0] = words[0] & HELD | u64::from(passed) << PASSED_SHIFT;
    }
}

/// Four blocks on one cache line.
#[derive(Clone, Copy)]
pub(super) struct Line<'a> {
    hashes: &'a [u64; PER_LINE],
    /// Each block's entry; the top byte of the first also counts the blocks that found this line full and went on.
    words: &'a [u64; PER_LINE],
}

impl<'a> Line<'a> {
    #[inline]
    pub(super) fn of(words: &'a [u64]) -> Option<Self> {
        let (hashes, words) = words.split_first_chunk()?;
        Some(Self { hashes, words: words.first_chunk()? })
    }

    /// Which slots have this hash, a bit each. All four at once: which it is cannot be predicted.
    #[inline]
    pub(super) fn slots_with(self, hash: u64) -> u32 {
        bits::equal(self.hashes, hash)
    }

    #[inline]
    pub(super) fn passed(self) -> u8 {
        (self.words[0] >> PASSED_SHIFT) as u8
    }

    pub(super) fn filled(self) -> impl Iterator<Item = (BlockHash, u64)> + 'a {
        let filled = (0..PER_LINE).filter(move |&slot| self.hashes[slot] != 0);
        filled.map(move |slot| (BlockHash::new(self.hashes[slot]), self.words[slot] & HELD))
    }

    pub(super) fn entries(self) -> impl Iterator<Item = (BlockHash, Held)> + 'a {
        self.filled().map(|(hash, word)| (hash, Held::unpack(word)))
    }
}

/// Comparing four words with one.
mod bits {
    /// Which of the words equal `word`, a bit each.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    pub(super) fn equal(words: &[u64; 4], word: u64) -> u32 {
        use std::arch::x86_64::{
            __m128i, _mm_and_si128, _mm_castsi128_pd, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_pd,
            _mm_set1_epi64x, _mm_shuffle_epi32,
        };
        let at: *const __m128i = words.as_ptr().cast();
        // SAFETY: SSE2 is part of every x86-64, and the two loads, which need no alignment, read the four words.
        unsafe {
            let wanted = _mm_set1_epi64x(word as i64);
            // Equal where both halves are: there is no comparison of 64 bits in SSE2.
            let equal = |pair: __m128i| {
                let halves = _mm_cmpeq_epi32(pair, wanted);
                let both = _mm_and_si128(halves, _mm_shuffle_epi32::<0b10_11_00_01>(halves));
                _mm_movemask_pd(_mm_castsi128_pd(both)) as u32
            };
            equal(_mm_loadu_si128(at)) | equal(_mm_loadu_si128(at.add(1))) << 2
        }
    }

    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    #[inline(always)]
    pub(super) fn equal(words: &[u64; 4], word: u64) -> u32 {
        (0..4).fold(0, |bits, at| bits | u32::from(words[at] == word) << at)
    }
}

/// The line that begins at word `home`, and the other one of its pair.
#[inline]
pub(super) fn pair(words: &[u64], home: usize) -> Option<(Line<'_>, Line<'_>)> {
    let both = words.get(home & !LINE..)?.first_chunk::<{ 2 * LINE }>()?;
    let (first, second) = both.split_at(LINE);
    let (first, second) = (Line::of(first)?, Line::of(second)?);
    Some(if home & LINE == 0 { (first, second) } else { (second, first) })
}

/// Where a block belongs: the part from the top bits of its spread, the line from what follows.
#[derive(Clone, Copy)]
pub(super) struct Home(u64);

impl Home {
    #[inline]
    pub(super) fn of(hash: BlockHash, spread: Spread) -> Self {
        Self(spread.of(hash))
    }

    /// Among one part or [`PARTS`].
    #[inline]
    pub(super) fn part(self, parts: usize) -> usize {
        (self.0 >> 58) as usize & parts.wrapping_sub(1)
    }

    #[inline]
    pub(super) fn line(self, lines: usize) -> usize {
        (((self.0 << 6 >> 32) * lines as u64) >> 32) as usize
    }
}

/// Lines of a part up to which it grows by doubling: those of a map that is one part.
const STEEP: usize = super::WHOLE / PER_LINE;
pub(super) const PER_LINE: usize = 4;
/// Words of a line.
pub(super) const LINE: usize = 2 * PER_LINE;
pub(super) const PASSED_SHIFT: u32 = 56;
/// What of a word is a block's entry.
pub(super) const HELD: u64 = (1 << PASSED_SHIFT) - 1;
const _: () = assert!(super::entry::BITS <= PASSED_SHIFT);
