//! Placement of new blocks: into the segments (runs), or among the pod's orphan blocks (strays).

use crate::block::{BlockHash, Parent};
use crate::change::Change;
use crate::held::{Spot, State};
use crate::runs::{Anchor, Place, Take, Taken};

impl<const W: usize> Change<'_, W> {
    /// What blocks behind `parent` are to be placed behind; none if that is not for the runs to know.
    pub(super) fn anchor(&self, parent: Parent) -> Option<Anchor> {
        match parent {
            Parent::Root => Some(Anchor::Root),
            Parent::Block(hash) => self.cache.get(hash)?.place.map(|place| Anchor::Behind(hash, place)),
            Parent::Unknown => None,
        }
    }

    /// Places a stretch of new blocks behind `parent`, up to the first that does not fit; how many.
    ///
    /// `anchor` is where the stretch begins, and in the end where what follows it does. `moves` is as of before the
    /// blocks were entered in the map.
    pub(super) fn place(
        &mut self,
        blocks: &[BlockHash],
        parent: Parent,
        anchor: &mut Option<Anchor>,
        moves: u64,
    ) -> usize {
        let index = self.index;
        let spots_hold = self.cache.moves() == moves;
        let granted = index.reserve(blocks.len());
        if granted == blocks.len() {
            // What was not needed is given back: nobody has to ask beforehand which blocks others hold.
            let used = self.place_all(blocks, 0, parent, anchor, true, spots_hold);
            index.give_back(granted, used.unwrap_or(0));
            return blocks.len();
        }
        index.give_back(granted, 0);
        let mut parent = parent;
        for (at, &hash) in blocks.iter().enumerate() {
            let granted = index.reserve(1);
            let Some(used) = self.place_all(&[hash], at, parent, anchor, granted == 1, spots_hold) else {
                index.give_back(granted, 0);
                return at;
            };
            index.give_back(granted, used);
            parent = Parent::Block(hash);
        }
        blocks.len()
    }

    /// Places blocks, the first of which is the stretch's block `skip`; how much room they used, or none if there is
    /// no room and one block, which would need it.
    fn place_all(
        &mut self,
        blocks: &[BlockHash],
        skip: usize,
        parent: Parent,
        anchor: &mut Option<Anchor>,
        room: bool,
        spots_hold: bool,
    ) -> Option<isize> {
        let mut used = 0;
        let mut at = 0;
        while at < blocks.len() {
            let parent = if at == 0 { parent } else { Parent::Block(blocks[at - 1]) };
            let index = self.index;
            let take =
                anchor.map(|anchor| index.runs.take(&index.heads, self.pod, anchor, &blocks[at..], room, &self.pin));
            let taken = match take {
                Some(Take::Taken(taken)) => taken,
                Some(Take::Full) => return None,
                None | Some(Take::Contradicted) => {
                    if !room {
                        return None;
                    }
                    if take.is_some() {
                        let spot = self.cache.find(blocks[at]).expect("the block was just entered");
                        self.cache.contradict(spot);
                    }
                    self.cache.contradictions += u64::from(parent == Parent::Block(blocks[at]));
                    self.cache.strays.insert(blocks[at], parent);
                    *anchor = None;
                    used += 1;
                    at += 1;
                    continue;
                }
            };
            let Taken { first, count, entered } = taken;
            if !spots_hold {
                for (spot, hash) in self.buffers.spots[skip + at..].iter_mut().zip(&blocks[at..at + count]) {
                    *spot = self.cache.find(*hash).expect("the block was just entered");
                }
            }
            self.cache.set_places(&self.buffers.spots[skip + at..][..count], first);
            used += entered as isize;
            if self.cache.strays.is_waiting() {
                for i in 0..count {
                    let place = Place { run: first.run, offset: first.offset + i as u32 };
                    used += self.adopt(blocks[at + i], place);
                }
            }
            at += count;
            let last = Place { run: first.run, offset: first.offset + count as u32 - 1 };
            *anchor = Some(Anchor::Behind(blocks[at - 1], last));
        }
        Some(used)
    }

    /// Gives places to the strays that waited for a block, and to those that waited for them; how much room that
    /// took, which is none or less.
    fn adopt(&mut self, hash: BlockHash, place: Place) -> isize {
        let mut used = 0;
        let mut adopted = vec![(hash, place)];
        while let Some((hash, place)) = adopted.pop() {
            for stray in self.cache.strays.take_behind(hash) {
                used += self.attach(stray, Anchor::Behind(hash, place), &mut adopted);
            }
        }
        used
    }

    /// Gives a place to a block that was a stray until now; how much room that took, which is none or less.
    fn attach(&mut self, stray: BlockHash, anchor: Anchor, adopted: &mut Vec<(BlockHash, Place)>) -> isize {
        let index = self.index;
        let Some(spot) = self.cache.find(stray) else { return 0 };
        match index.runs.take(&index.heads, self.pod, anchor, &[stray], true, &self.pin) {
            Take::Taken(taken) => {
                self.cache.set_places(&[spot], taken.first);
                adopted.push((stray, taken.first));
                taken.entered as isize - 1
            }
            Take::Contradicted | Take::Full => {
                let parent = if let Anchor::Behind(hash, _) = anchor { Parent::Block(hash) } else { Parent::Root };
                self.cache.strays.insert(stray, parent);
                if !self.cache.at(spot).state.has(State::CONTRADICTED) {
                    self.cache.contradict(spot);
                }
                0
            }
        }
    }

    /// A held block was stored again: learns what it follows if that was unknown, and notices if it was not.
    pub(super) fn relink(&mut self, spot: Spot, hash: BlockHash, parent: Parent) {
        let held = self.cache.at(spot);
        if parent == Parent::Unknown || held.state.has(State::CONTRADICTED) {
            return;
        }
        let anchor = self.anchor(parent);
        let known = match held.place {
            Some(at) => {
                // The common case needs no look at the run.
                let behind =
                    |anchor| matches!(anchor, Anchor::Behind(_, p) if p.run == at.run && p.offset + 1 == at.offset);
                if anchor.is_some_and(behind) { parent } else { self.index.runs.parent(at, &self.pin) }
            }
            None => self.cache.strays.parent(hash).unwrap_or(Parent::Unknown),
        };
        if known == parent {
            return;
        }
        if known != Parent::Unknown {
            self.cache.contradict(spot);
            return;
        }
        self.cache.strays.remove(hash);
        let Some(anchor) = anchor else {
            self.cache.strays.insert(hash, parent);
            return;
        };
        let mut adopted = Vec::new();
        let mut used = self.attach(hash, anchor, &mut adopted);
        for (hash, place) in adopted {
            used += self.adopt(hash, place);
        }
        self.index.give_back(0, used);
    }
}
