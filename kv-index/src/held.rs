//! What one pod holds: block → parent, position, children held under it, and state.
//!
//! Guarded by the pod's lock and never read by a search. Three blocks share a 64-byte line; a block that
//! finds its home line full goes to a later one, and every line it passed counts it, so that a look-up stops
//! as soon as nobody went further. 64 parts are resized one at a time, so the longest pause is one part:
//! 1/64th of the pod's blocks (`tests::a_resize_moves_one_part_at_most`).

use crate::block::BlockHash;
use crate::change::Left;
use crate::map::FixedMap;
use crate::prefetch::prefetch;

/// One held block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The parent this block is counted under, if it is.
    pub(crate) parent: Option<BlockHash>,
    /// Blocks before it, if known.
    pub(crate) position: Option<u32>,
    pub(crate) state: State,
}

/// Tiers that hold a block, and what else there is to know about it, in a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State(u8);

impl State {
    /// The block has an entry among the pod's details: several copies, or a location.
    pub(crate) const DETAILED: Self = Self(1 << 4);
    /// No engine has confirmed the block.
    pub(crate) const SPECULATED: Self = Self(1 << 5);
    /// We do not know what the block's parent is.
    pub(crate) const UNLINKED: Self = Self(1 << 6);
    /// Sources contradicted each other about the parent: whatever is said of it from now on is not believed.
    pub(crate) const CONTRADICTED: Self = Self(1 << 7);

    pub(crate) const fn tiers(self) -> u8 {
        self.0 & 0xF
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
    parts: Vec<Part>,
    len: usize,
    /// Where the block inserted last is, unless something moved: its child mostly comes next.
    last: Option<Spot>,
    /// Children of the few blocks with more than a byte can count.
    crowds: FixedMap<BlockHash, u32>,
}

/// Where a block is, until the next insert or remove.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    part: usize,
    line: usize,
    slot: usize,
}

impl HeldMap {
    #[inline]
    pub(crate) fn find(&self, hash: BlockHash) -> Option<Spot> {
        let place = Place::of(hash);
        let (line, slot) = self.parts.get(place.part)?.find(hash, place)?;
        Some(Spot { part: place.part, line, slot })
    }

    #[inline]
    pub(crate) fn get(&self, hash: BlockHash) -> Option<Held> {
        self.find(hash).map(|spot| self.at(spot))
    }

    #[inline]
    pub(crate) fn at(&self, spot: Spot) -> Held {
        let line = &self.parts[spot.part].lines[spot.line];
        let position = line.links[spot.slot] & POSITION_MAX;
        let parent = line.parents[spot.slot];
        Held {
            parent: (parent != 0).then(|| BlockHash::new(parent)),
            position: (position < POSITION_MAX).then_some(position),
            state: line.states[spot.slot],
        }
    }

    /// Overwrites a block's entry; its children stay counted.
    #[inline]
    pub(crate) fn put(&mut self, spot: Spot, held: Held) {
        self.parts[spot.part].lines[spot.line].write(spot.slot, held);
    }

    /// Adds a block that is not there, with `children` already held under it.
    pub(crate) fn insert(&mut self, hash: BlockHash, held: Held, children: u32) {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Part::default);
        }
        let place = Place::of(hash);
        let part = &mut self.parts[place.part];
        let (at, slot) = part.insert(hash, place);
        let line = &mut part.lines[at];
        line.links[slot] = 0;
        line.write(slot, held);
        self.len += 1;
        let spot = Spot { part: place.part, line: at, slot };
        if children > 0 {
            self.set_children(spot, hash, children);
        }
        self.last = Some(spot);
    }

    /// Takes a block out; returns its entry and how many children it had.
    pub(crate) fn remove(&mut self, hash: BlockHash) -> Option<(Held, u32)> {
        let spot = self.find(hash)?;
        let held = self.at(spot);
        let children = self.children(spot, hash);
        self.crowds.remove(&hash);
        self.parts[spot.part].remove(Place::of(hash), spot.line, spot.slot);
        self.len -= 1;
        Some((held, children))
    }

    /// Counts a child under `hash`; the block's position, or `None` if the pod does not hold it.
    #[inline]
    pub(crate) fn add_child(&mut self, hash: BlockHash) -> Option<Option<u32>> {
        let spot = self.last.filter(|spot| self.is_at(hash, *spot)).or_else(|| self.find(hash))?;
        let link = &mut self.parts[spot.part].lines[spot.line].links[spot.slot];
        let position = *link & POSITION_MAX;
        if *link >> CHILD_SHIFT < CROWD - 1 {
            *link += 1 << CHILD_SHIFT;
        } else {
            let children = self.children(spot, hash);
            self.set_children(spot, hash, children + 1);
        }
        Some((position < POSITION_MAX).then_some(position))
    }

    /// Counts a child of `hash` out; false if the pod does not hold `hash`.
    #[inline]
    pub(crate) fn drop_child(&mut self, hash: BlockHash) -> bool {
        let Some(spot) = self.find(hash) else { return false };
        let children = self.children(spot, hash);
        debug_assert!(children > 0, "only counted children are counted out");
        self.set_children(spot, hash, children.saturating_sub(1));
        true
    }

    #[inline]
    pub(crate) fn prefetch(&self, hash: BlockHash) {
        let place = Place::of(hash);
        if let Some(part) = self.parts.get(place.part) {
            prefetch(part.lines.as_ptr().wrapping_add(place.home(part.lines.len())));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Every block with its entry, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockHash, Held)> + '_ {
        self.parts.iter().enumerate().flat_map(move |(part, p)| {
            p.lines.iter().enumerate().flat_map(move |(line, l)| {
                (0..PER_LINE)
                    .filter(|&slot| l.hashes[slot] != 0)
                    .map(move |slot| (BlockHash::new(l.hashes[slot]), self.at(Spot { part, line, slot })))
            })
        })
    }

    /// Takes up to about `budget` blocks out of a map nobody looks anything up in any more.
    pub(crate) fn drain_some(&mut self, budget: usize, out: &mut Vec<Left>) {
        self.crowds = FixedMap::default();
        let before = out.len();
        while out.len() - before < budget {
            let Some(part) = self.parts.last_mut() else { break };
            match part.lines.pop() {
                Some(line) => out.extend(
                    line.hashes
                        .iter()
                        .zip(&line.parents)
                        .filter(|(h, _)| **h != 0)
                        .map(|(&h, &p)| Left { hash: BlockHash::new(h), before: (p != 0).then(|| BlockHash::new(p)) }),
                ),
                None => drop(self.parts.pop()),
            }
        }
        self.len -= out.len() - before;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.parts.iter().map(|p| p.lines.capacity() * size_of::<Line>() + size_of::<Part>()).sum::<usize>()
            + self.crowds.capacity() * 17
    }

    /// Whether the block is at a spot that may be out of date.
    fn is_at(&self, hash: BlockHash, spot: Spot) -> bool {
        let line = self.parts.get(spot.part).and_then(|part| part.lines.get(spot.line));
        line.is_some_and(|line| line.hashes[spot.slot] == hash.get())
    }

    fn children(&self, spot: Spot, hash: BlockHash) -> u32 {
        match self.parts[spot.part].lines[spot.line].links[spot.slot] >> CHILD_SHIFT {
            CROWD => self.crowds.get(&hash).copied().unwrap_or(CROWD),
            children => children,
        }
    }

    fn set_children(&mut self, spot: Spot, hash: BlockHash, children: u32) {
        let link = &mut self.parts[spot.part].lines[spot.line].links[spot.slot];
        let was_crowd = *link >> CHILD_SHIFT == CROWD;
        *link = *link & POSITION_MAX | children.min(CROWD) << CHILD_SHIFT;
        if children >= CROWD {
            self.crowds.insert(hash, children);
        } else if was_crowd {
            self.crowds.remove(&hash);
        }
    }
}

#[derive(Debug, Default)]
struct Part {
    lines: Vec<Line>,
    len: usize,
}

impl Part {
    #[inline]
    fn find(&self, hash: BlockHash, place: Place) -> Option<(usize, usize)> {
        if self.len == 0 {
            return None;
        }
        let home = place.home(self.lines.len());
        let mut at = home;
        loop {
            let line = &self.lines[at];
            for slot in 0..PER_LINE {
                if line.hashes[slot] == hash.get() {
                    return Some((at, slot));
                }
            }
            at = self.after(at);
            // In a small part every line may have been passed by somebody: once around is enough.
            if line.passed == 0 || at == home {
                return None;
            }
        }
    }

    fn insert(&mut self, hash: BlockHash, place: Place) -> (usize, usize) {
        if (self.len + 1) * 20 > self.lines.len() * PER_LINE * 17 {
            self.resize(self.len + 1);
        }
        self.len += 1;
        self.claim(hash, place)
    }

    /// Puts the hash into the first vacancy from its home line; says to every line passed that it passed.
    fn claim(&mut self, hash: BlockHash, place: Place) -> (usize, usize) {
        let mut at = place.home(self.lines.len());
        loop {
            let line = &mut self.lines[at];
            if let Some(slot) = line.hashes.iter().position(|&h| h == 0) {
                line.hashes[slot] = hash.get();
                return (at, slot);
            }
            line.passed = line.passed.saturating_add(1);
            at = self.after(at);
        }
    }

    fn remove(&mut self, place: Place, line: usize, slot: usize) {
        let mut at = place.home(self.lines.len());
        while at != line {
            let passed = &mut self.lines[at].passed;
            // A saturated count is no longer a count: it stays until the part is resized.
            if *passed < u8::MAX {
                *passed -= 1;
            }
            at = self.after(at);
        }
        self.lines[line].hashes[slot] = 0;
        self.len -= 1;
        if self.len * 20 < self.lines.len() * PER_LINE * 7 {
            self.resize(self.len);
        }
    }

    /// Moves the part to a new array that `len` blocks fill to 65%, or to half while it is small and would have
    /// to move often.
    fn resize(&mut self, len: usize) {
        let lines = if len < SMALL { (len * 2).div_ceil(PER_LINE) } else { (len * 20).div_ceil(PER_LINE * 13) };
        if lines == self.lines.len() {
            return;
        }
        let old = std::mem::replace(&mut self.lines, vec![Line::default(); lines]);
        for line in old {
            for slot in (0..PER_LINE).filter(|&slot| line.hashes[slot] != 0) {
                let hash = BlockHash::new(line.hashes[slot]);
                let (at, to) = self.claim(hash, Place::of(hash));
                let new = &mut self.lines[at];
                new.parents[to] = line.parents[slot];
                new.links[to] = line.links[slot];
                new.states[to] = line.states[slot];
            }
        }
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 == self.lines.len() { 0 } else { at + 1 }
    }
}

/// Three blocks on one cache line.
#[derive(Clone, Debug, Default)]
#[repr(C, align(64))]
struct Line {
    hashes: [u64; PER_LINE],
    /// The parent each block is counted under, or 0.
    parents: [u64; PER_LINE],
    /// Children in the top byte, position below it.
    links: [u32; PER_LINE],
    states: [State; PER_LINE],
    /// Blocks that found this line full and went on.
    passed: u8,
}

impl Line {
    #[inline]
    fn write(&mut self, slot: usize, held: Held) {
        let position = held.position.map_or(POSITION_MAX, |p| p.min(POSITION_MAX));
        self.parents[slot] = held.parent.map_or(0, BlockHash::get);
        self.links[slot] = self.links[slot] & !POSITION_MAX | position;
        self.states[slot] = held.state;
    }
}

#[derive(Clone, Copy)]
struct Place {
    part: usize,
    rest: u64,
}

impl Place {
    #[inline]
    fn of(hash: BlockHash) -> Self {
        let mixed = hash.get().wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self { part: (mixed >> 58) as usize, rest: mixed << 6 >> 32 }
    }

    #[inline]
    fn home(self, lines: usize) -> usize {
        ((self.rest * lines as u64) >> 32) as usize
    }
}

const PARTS: usize = 64;
/// Blocks of a part up to which it grows in larger steps.
const SMALL: usize = 100;
const PER_LINE: usize = 3;
const CHILD_SHIFT: u32 = 24;
/// Positions from here on are not told apart from unknown ones.
const POSITION_MAX: u32 = (1 << CHILD_SHIFT) - 1;
/// From this many children on, the count is in `crowds`.
const CROWD: u32 = 255;

#[cfg(all(test, not(routing_loom)))]
mod tests;
