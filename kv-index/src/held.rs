//! Per-pod block map: block hash → position in a segment (run), and state.
//!
//! Guarded by the pod's lock and never read by a search. Four blocks share a 64-byte line; a block that
//! finds its home line full goes to a later one, and every line it passed counts it, so that a look-up stops
//! as soon as nobody went further. From 65,536 blocks on there are 64 parts that are resized one at a time, so the
//! longest pause is for that many or for one part, 1/64th of the pod's blocks (`tests::a_resize_moves_one_part_at_most`).

mod entry;
mod part;

pub(crate) use entry::{Held, State};

use smallvec::SmallVec;

use crate::block::BlockHash;
use crate::held::entry::pack_place;
use crate::held::part::{HELD, Home, LINE, Line, PASSED_SHIFT, PER_LINE, Part, pair};
use crate::prefetch::prefetch;
use crate::runs::{Place, RunId};
use crate::spread::Spread;

/// The blocks of one pod.
#[derive(Debug, Default)]
pub(crate) struct HeldMap {
    /// One part while it is small, right here, then [`PARTS`].
    parts: SmallVec<[Part; 1]>,
    spread: Spread,
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
    /// An empty map.
    pub(crate) fn new(spread: Spread) -> Self {
        Self { spread, ..Self::default() }
    }

    /// What there is is forgotten.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.spread);
    }

    #[inline]
    pub(crate) fn find(&self, hash: BlockHash) -> Option<Spot> {
        let home = Home::of(hash, self.spread);
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
        let (spread, [part]) = (self.spread, &mut self.parts[..]) else { return 0 };
        if !part.has_room(blocks.len()) {
            return 0;
        }
        let (lines, start) = (part.lines.len, spots.len());
        let words = &mut part.lines.words[part.lines.skip..][..lines * LINE];
        let word = Held { place: None, state }.pack();
        for (at, hash) in blocks.iter().enumerate() {
            if let Some(&ahead) = blocks.get(at + AHEAD) {
                prefetch(words.as_ptr().wrapping_add(Home::of(ahead, spread).line(lines) * LINE));
            }
            let home = Home::of(*hash, spread).line(lines) * LINE;
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
            self.moves += u64::from(self.len + more <= WHOLE && part.make_room(more, self.spread));
        }
    }

    /// Finds a block, or adds it with this entry: where it is, and whether it was there.
    #[inline]
    pub(crate) fn find_or_insert(&mut self, hash: BlockHash, held: Held) -> (Spot, bool) {
        let home = Home::of(hash, self.spread);
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
        let home = Home::of(hash, self.spread);
        let at = home.part(self.parts.len());
        let part = &mut self.parts[at];
        self.moves += u64::from(part.make_room(1, self.spread));
        let (line, slot) = part.claim(hash, home.line(part.lines.len), held.pack());
        self.len += 1;
        (Spot::new(at, line, slot), false)
    }

    /// Takes out the block that was found at this spot.
    #[inline]
    pub(crate) fn remove_at(&mut self, hash: BlockHash, spot: Spot) {
        self.moves += u64::from(self.parts[spot.part()].remove(Home::of(hash, self.spread), spot, self.spread));
        self.len -= 1;
    }

    /// Takes a block out.
    pub(crate) fn remove(&mut self, hash: BlockHash) -> Option<Held> {
        let home = Home::of(hash, self.spread);
        let at = home.part(self.parts.len());
        let part = self.parts.get_mut(at)?;
        let spot = part.find(hash, home, at)?;
        let held = Held::unpack(part.lines.word(spot));
        self.moves += u64::from(part.remove(home, spot, self.spread));
        self.len -= 1;
        Some(held)
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: BlockHash) {
        let home = Home::of(hash, self.spread);
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
                let home = Home::of(hash, self.spread);
                let part = &mut self.parts[home.part(PARTS)];
                part.make_room(1, self.spread);
                part.claim(hash, home.line(part.lines.len), word);
            }
        }
        self.moves += 1;
    }
}

/// How many blocks ahead a line is asked for.
const AHEAD: usize = 16;
const PARTS: usize = 64;
/// Blocks up to which a map is one part.
const WHOLE: usize = 1 << 16;

#[cfg(all(test, not(routing_loom)))]
mod tests;
