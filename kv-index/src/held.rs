//! What one pod holds: block → its place among the runs, and its state.
//!
//! Guarded by the pod's lock and never read by a search. Four blocks share a 64-byte line; a block that
//! finds its home line full goes to a later one, and every line it passed counts it, so that a look-up stops
//! as soon as nobody went further. From 65,536 blocks on there are 64 parts that are resized one at a time, so the
//! longest pause is for that many or for one part, 1/64th of the pod's blocks (`tests::a_resize_moves_one_part_at_most`).

use smallvec::SmallVec;

use crate::block::BlockHash;
use crate::prefetch::prefetch;
use crate::runs::{Place, RunId};

/// One held block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// Where it is; none if the pod holds it apart from what it follows.
    pub(crate) place: Option<Place>,
    pub(crate) state: State,
}

impl Held {
    #[inline]
    fn pack(self) -> u64 {
        self.place.map_or(0, pack_place) | u64::from(self.state.0) << STATE_SHIFT
    }

    #[inline]
    fn unpack(word: u64) -> Self {
        let run = RunId::from_raw((word & ((1 << RunId::BITS) - 1)) as u32);
        let place = run.map(|run| Place { run, offset: u32::from((word >> RunId::BITS) as u16) });
        Self { place, state: State((word >> STATE_SHIFT) as u8) }
    }
}

/// Tiers that hold a block, and what else there is to know about it, in a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State(u8);

impl State {
    /// The block has an entry among the pod's details: several copies, or a location.
    pub(crate) const DETAILED: Self = Self(1 << 4);
    /// No engine has confirmed the block.
    pub(crate) const SPECULATED: Self = Self(1 << 5);
    /// Sources contradicted each other about the parent: whatever is said of it from now on is not believed.
    pub(crate) const CONTRADICTED: Self = Self(1 << 6);

    pub(crate) const fn tiers(self) -> u8 {
        self.0 & 0xF
    }

    /// Whether an engine has the block in these tiers, and whatever else there is to know, it is not speculated.
    pub(crate) const fn is_plainly_in(self, tiers: u8) -> bool {
        self.0 & (tiers | Self::SPECULATED.0) == tiers
    }

    pub(crate) const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub(crate) const fn with(self, flag: Self) -> Self {
        Self(self.0 | flag.0)
    }

    pub(crate) const fn without(self, flag: Self) -> Self {
        Self(self.0 & !flag.0)
    }

    pub(crate) const fn with_tiers(self, tiers: u8) -> Self {
        Self(self.0 & !0xF | tiers)
    }
}

/// The blocks of one pod.
#[derive(Debug, Default)]
pub(crate) struct HeldMap {
    /// One part while it is small, right here, then [`PARTS`].
    parts: SmallVec<[Part; 1]>,
    len: usize,
    /// Counts what makes a [`Spot`] void.
    moves: u64,
}

/// Where a block's entry is, until the map moves: its part, and its word among those of the part's lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot(u64);

impl Spot {
    #[inline]
    fn new(part: usize, line: usize, slot: u32) -> Self {
        let word = line * LINE + PER_LINE + slot as usize;
        Self((part as u64) << 56 | word as u64)
    }

    #[inline]
    fn part(self) -> usize {
        (self.0 >> 56) as usize
    }

    #[inline]
    fn word(self) -> usize {
        (self.0 << 8 >> 8) as usize
    }

    #[inline]
    fn line(self) -> usize {
        self.word() / LINE
    }
}

impl HeldMap {
    #[inline]
    pub(crate) fn find(&self, hash: BlockHash) -> Option<Spot> {
        let home = Home::of(hash);
        let part = home.part(self.parts.len());
        self.parts.get(part)?.find(hash, home, part)
    }

    #[inline]
    pub(crate) fn get(&self, hash: BlockHash) -> Option<Held> {
        self.find(hash).map(|spot| self.at(spot))
    }

    #[inline]
    pub(crate) fn at(&self, spot: Spot) -> Held {
        Held::unpack(self.parts[spot.part()].lines.word(spot))
    }

    /// Overwrites a block's entry.
    #[inline]
    pub(crate) fn put(&mut self, spot: Spot, held: Held) {
        let word = self.parts[spot.part()].lines.word_mut(spot);
        *word = *word & !HELD | held.pack();
    }

    /// Gives blocks that have none their places, one behind the other.
    #[inline]
    pub(crate) fn set_places(&mut self, spots: &[Spot], first: Place) {
        let mut packed = pack_place(first);
        if let [part] = &mut self.parts[..] {
            let words = &mut part.lines.words[part.lines.skip..];
            for spot in spots {
                words[spot.word()] |= packed;
                packed += 1 << RunId::BITS;
            }
            return;
        }
        for spot in spots {
            *self.parts[spot.part()].lines.word_mut(*spot) |= packed;
            packed += 1 << RunId::BITS;
        }
    }

    /// Adds blocks with this state, up to the first that is there or takes a second look; how many. Their spots are
    /// added to `spots`. There is room for all of them, or none is added.
    pub(crate) fn insert_plain(&mut self, blocks: &[BlockHash], state: State, spots: &mut Vec<Spot>) -> usize {
        let [part] = &mut self.parts[..] else { return 0 };
        if !part.has_room(blocks.len()) {
            return 0;
        }
        let (lines, start) = (part.lines.len, spots.len());
        let words = &mut part.lines.words[part.lines.skip..][..lines * LINE];
        let word = Held { place: None, state }.pack();
        for (at, hash) in blocks.iter().enumerate() {
            if let Some(&ahead) = blocks.get(at + AHEAD) {
                prefetch(words.as_ptr().wrapping_add(Home::of(ahead).line(lines) * LINE));
            }
            let home = Home::of(*hash).line(lines) * LINE;
            let Some((line, other)) = pair(words, home) else { break };
            let (found, mut vacant) = (line.slots_with(hash.get()), line.slots_with(0));
            let mut to = home;
            if found != 0 {
                break;
            }
            if vacant == 0 || line.passed() != 0 {
                if other.slots_with(hash.get()) != 0 || other.passed() != 0 || line.passed() == u8::MAX {
                    break;
                }
                if vacant == 0 {
                    (to, vacant) = (home ^ LINE, other.slots_with(0));
                    if vacant == 0 {
                        break;
                    }
                    words[home + PER_LINE] += 1 << PASSED_SHIFT;
                }
            }
            let slot = to + vacant.trailing_zeros() as usize;
            words[slot] = hash.get();
            words[slot + PER_LINE] = words[slot + PER_LINE] & !HELD | word;
            spots.push(Spot((slot + PER_LINE) as u64));
        }
        let count = spots.len() - start;
        part.len += count;
        self.len += count;
        count
    }

    /// Makes room for so many more blocks in one go, where that is not too much at once.
    pub(crate) fn reserve(&mut self, more: usize) {
        if self.parts.is_empty() {
            self.parts.push(Part::default());
        }
        if let [part] = &mut self.parts[..] {
            self.moves += u64::from(self.len + more <= WHOLE && part.make_room(more));
        }
    }

    /// Finds a block, or adds it with this entry: where it is, and whether it was there.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, hash: BlockHash, held: Held) -> (Spot, bool) {
        let home = Home::of(hash);
        let at = home.part(self.parts.len());
        if let Some(part) = self.parts.get_mut(at).filter(|part| part.has_room(1)) {
            let line_at = home.line(part.lines.len);
            let line = part.lines.at(line_at);
            let found = line.slots_with(hash.get());
            if found != 0 {
                return (Spot::new(at, line_at, found.trailing_zeros()), true);
            }
            if line.passed() == 0 {
                let (line_at, slot) = part.claim(hash, line_at, held.pack());
                self.len += 1;
                return (Spot::new(at, line_at, slot), false);
            }
        }
        self.find_or_insert_anywhere(hash, held)
    }

    /// The same where the home line does not tell.
    #[inline(never)]
    fn find_or_insert_anywhere(&mut self, hash: BlockHash, held: Held) -> (Spot, bool) {
        if let Some(spot) = self.find(hash) {
            return (spot, true);
        }
        if self.parts.is_empty() {
            self.parts.push(Part::default());
        }
        if self.parts.len() == 1 && self.len >= WHOLE {
            self.divide();
        }
        let home = Home::of(hash);
        let at = home.part(self.parts.len());
        let part = &mut self.parts[at];
        self.moves += u64::from(part.make_room(1));
        let (line, slot) = part.claim(hash, home.line(part.lines.len), held.pack());
        self.len += 1;
        (Spot::new(at, line, slot), false)
    }

    /// Takes out the block that was found at this spot.
    #[inline]
    pub(crate) fn remove_at(&mut self, hash: BlockHash, spot: Spot) {
        self.moves += u64::from(self.parts[spot.part()].remove(Home::of(hash), spot));
        self.len -= 1;
    }

    /// Takes a block out.
    pub(crate) fn remove(&mut self, hash: BlockHash) -> Option<Held> {
        let home = Home::of(hash);
        let at = home.part(self.parts.len());
        let part = self.parts.get_mut(at)?;
        let spot = part.find(hash, home, at)?;
        let held = Held::unpack(part.lines.word(spot));
        self.moves += u64::from(part.remove(home, spot));
        self.len -= 1;
        Some(held)
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: BlockHash) {
        let home = Home::of(hash);
        if let Some(part) = self.parts.get(home.part(self.parts.len())) {
            prefetch(part.lines.address(home.line(part.lines.len)));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Changes when spots found before are void.
    #[inline]
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }

    /// Every block with its entry, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockHash, Held)> + '_ {
        self.parts.iter().flat_map(|part| part.lines.iter()).flat_map(Line::entries)
    }

    /// Takes up to about `budget` blocks out of a map nobody looks anything up in any more.
    pub(crate) fn drain_some(&mut self, budget: usize, out: &mut Vec<Held>) {
        let before = out.len();
        while out.len() - before < budget {
            let Some(part) = self.parts.last_mut() else { break };
            match part.lines.pop() {
                Some(line) => out.extend(line.entries().map(|(_, held)| held)),
                None => drop(self.parts.pop()),
            }
        }
        self.len -= out.len() - before;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|p| p.lines.words.capacity() * size_of::<u64>() + size_of::<Part>()).sum::<usize>()
    }

    /// Moves the blocks of a map that is no longer small to parts that are resized one at a time.
    #[cold]
    fn divide(&mut self) {
        let whole = std::mem::take(&mut self.parts);
        self.parts.resize_with(PARTS, Part::default);
        for line in whole.iter().flat_map(|part| part.lines.iter()) {
            for (hash, word) in line.filled() {
                let home = Home::of(hash);
                let part = &mut self.parts[home.part(PARTS)];
                part.make_room(1);
                part.claim(hash, home.line(part.lines.len), word);
            }
        }
        self.moves += 1;
    }
}

#[derive(Debug, Default)]
struct Part {
    lines: Lines,
    len: usize,
}

impl Part {
    #[inline]
    fn find(&self, hash: BlockHash, home: Home, part: usize) -> Option<Spot> {
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
    fn has_room(&self, more: usize) -> bool {
        (self.len + more) * 4 <= self.lines.len * PER_LINE * 3
    }

    /// Sees to it that so many more blocks fit; whether that moved the others.
    fn make_room(&mut self, more: usize) -> bool {
        if self.has_room(more) {
            return false;
        }
        let grown = if self.lines.len < STEEP { 2 * self.lines.len } else { self.lines.len * 3 / 2 };
        self.resize(grown.max(2).max(((self.len + more) * 4).div_ceil(PER_LINE * 3)));
        true
    }

    /// Puts a block into the first vacancy from its home line; says to every line passed that it passed.
    #[inline]
    fn claim(&mut self, hash: BlockHash, home: usize, word: u64) -> (usize, u32) {
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
    fn remove(&mut self, home: Home, spot: Spot) -> bool {
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
            self.resize((self.len * 5 / 9).max(2));
        }
        sparse
    }

    /// Moves the part to a new array of so many lines.
    #[cold]
    fn resize(&mut self, lines: usize) {
        let old = std::mem::replace(&mut self.lines, Lines::new(lines));
        self.len = 0;
        for line in old.iter() {
            let mut left = !line.slots_with(0) & ((1 << PER_LINE) - 1);
            while left != 0 {
                let slot = left.trailing_zeros() as usize % PER_LINE;
                left &= left - 1;
                let hash = BlockHash::new(line.hashes[slot]);
                self.claim(hash, Home::of(hash).line(self.lines.len), line.words[slot] & HELD);
            }
        }
    }

    /// Where a block goes on that found this line full: to the other line of its home's pair, which the processor
    /// mostly has fetched too, and then from pair to pair, until it is home again.
    #[inline]
    fn after(&self, home: usize, at: usize) -> usize {
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
struct Lines {
    words: Vec<u64>,
    /// Words before the first line.
    skip: usize,
    len: usize,
}

impl Lines {
    /// So many lines, or one more: they come in pairs.
    fn new(len: usize) -> Self {
        let len = len.next_multiple_of(2);
        let words = vec![0; (len + 2) * LINE - 1];
        let skip = words.as_ptr().addr().wrapping_neg() % 128 / size_of::<u64>();
        Self { words, skip, len }
    }

    #[inline]
    fn at(&self, line: usize) -> Line<'_> {
        Line::of(&self.words[self.skip + line * LINE..]).expect("a line is whole")
    }

    /// The hashes and words of a line.
    #[inline]
    fn at_mut(&mut self, line: usize) -> (&mut [u64], &mut [u64]) {
        self.words[self.skip + line * LINE..][..LINE].split_at_mut(PER_LINE)
    }

    #[inline]
    fn word(&self, spot: Spot) -> u64 {
        self.words[self.skip + spot.word()]
    }

    #[inline]
    fn word_mut(&mut self, spot: Spot) -> &mut u64 {
        &mut self.words[self.skip + spot.word()]
    }

    #[inline]
    fn address(&self, line: usize) -> *const u64 {
        self.words.as_ptr().wrapping_add(self.skip + line * LINE)
    }

    fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        (0..self.len).map(|line| self.at(line))
    }

    fn pop(&mut self) -> Option<Line<'_>> {
        self.len = self.len.checked_sub(1)?;
        Some(self.at(self.len))
    }

    #[inline]
    fn fill(&mut self, line: usize, slot: u32, hash: BlockHash, word: u64) {
        let (hashes, words) = self.at_mut(line);
        hashes[slot as usize] = hash.get();
        let held = &mut words[slot as usize];
        *held = *held & !HELD | word;
    }

    #[inline]
    fn set_passed(&mut self, line: usize, passed: u8) {
        let (_, words) = self.at_mut(line);
        words[0] = words[0] & HELD | u64::from(passed) << PASSED_SHIFT;
    }
}

/// Four blocks on one cache line.
#[derive(Clone, Copy)]
struct Line<'a> {
    hashes: &'a [u64; PER_LINE],
    /// Each block's entry; the top byte of the first also counts the blocks that found this line full and went on.
    words: &'a [u64; PER_LINE],
}

impl<'a> Line<'a> {
    #[inline]
    fn of(words: &'a [u64]) -> Option<Self> {
        let (hashes, words) = words.split_first_chunk()?;
        Some(Self { hashes, words: words.first_chunk()? })
    }

    /// Which slots have this hash, a bit each. All four at once: which it is cannot be predicted.
    #[inline]
    fn slots_with(self, hash: u64) -> u32 {
        bits::equal(self.hashes, hash)
    }

    #[inline]
    fn passed(self) -> u8 {
        (self.words[0] >> PASSED_SHIFT) as u8
    }

    fn filled(self) -> impl Iterator<Item = (BlockHash, u64)> + 'a {
        let filled = (0..PER_LINE).filter(move |&slot| self.hashes[slot] != 0);
        filled.map(move |slot| (BlockHash::new(self.hashes[slot]), self.words[slot] & HELD))
    }

    fn entries(self) -> impl Iterator<Item = (BlockHash, Held)> + 'a {
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
fn pair(words: &[u64], home: usize) -> Option<(Line<'_>, Line<'_>)> {
    let both = words.get(home & !LINE..)?.first_chunk::<{ 2 * LINE }>()?;
    let (first, second) = both.split_at(LINE);
    let (first, second) = (Line::of(first)?, Line::of(second)?);
    Some(if home & LINE == 0 { (first, second) } else { (second, first) })
}

/// Where a block belongs: Fibonacci placement, the part from the top bits, the line from what follows.
#[derive(Clone, Copy)]
struct Home(u64);

impl Home {
    #[inline]
    fn of(hash: BlockHash) -> Self {
        Self(hash.get().wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    /// Among one part or [`PARTS`].
    #[inline]
    fn part(self, parts: usize) -> usize {
        (self.0 >> 58) as usize & parts.wrapping_sub(1)
    }

    #[inline]
    fn line(self, lines: usize) -> usize {
        (((self.0 << 6 >> 32) * lines as u64) >> 32) as usize
    }
}

#[inline]
fn pack_place(at: Place) -> u64 {
    u64::from(at.run.raw()) | u64::from(at.offset) << RunId::BITS
}

/// How many blocks ahead a line is asked for.
const AHEAD: usize = 16;
const PARTS: usize = 64;
/// Blocks up to which a map is one part.
const WHOLE: usize = 1 << 16;
/// Lines of a part up to which it grows by doubling: those of a map that is one part.
const STEEP: usize = WHOLE / PER_LINE;
const PER_LINE: usize = 4;
/// Words of a line.
const LINE: usize = 2 * PER_LINE;
/// The state follows the run and sixteen bits of offset.
const STATE_SHIFT: u32 = RunId::BITS + 16;
const PASSED_SHIFT: u32 = 56;
/// What of a word is a block's entry.
const HELD: u64 = (1 << PASSED_SHIFT) - 1;
const _: () = assert!(STATE_SHIFT + 8 <= PASSED_SHIFT);

#[cfg(all(test, not(routing_loom)))]
mod tests;
