//! Blocks that come to a pod: placed a stretch at a time, and what is not plain about them noted.

use smallvec::SmallVec;

use crate::blocks::{BlockHash, EventSemantics, Parent, Stored, Tier};
use crate::index::cache::NewCopy;
use crate::index::detail::Detail;
use crate::index::pod_update::{Entry, PodUpdate};
use crate::segments::{Anchor, SegmentId, Take, Taken};

impl<const W: usize> PodUpdate<'_, W> {
    /// Enters a store's blocks in chain order, up to the first that does not fit.
    pub(crate) fn store(&mut self, stored: &Stored<'_>, entry: Entry<'_>) {
        self.take_out();
        let blocks = stored.blocks;
        let Some(&first) = blocks.first() else { return };
        self.index.segments.heads.prefetch(first);
        self.index.segments.directory.prefetch_to_write(first);
        let mut parent = stored.parent;
        if parent == Parent::Block(first) {
            // No block follows itself.
            self.cache.contradictions += 1;
            parent = Parent::Unknown;
        }
        let index = self.index;
        let mut anchor = self.anchor(parent);
        let pod_room = index.config.max_blocks_per_pod.saturating_sub(self.cache.len);
        if pod_room >= blocks.len() {
            let granted = index.room.take(self.pod, blocks.len());
            if granted == blocks.len() {
                // What was not needed is given back: nobody has to ask beforehand which blocks others hold.
                let used = self.place(stored, 0, blocks.len(), entry, &mut anchor, true);
                index.room.give_back(self.pod, granted - used.unwrap_or(0));
                return;
            }
            index.room.give_back(self.pod, granted);
        }
        for at in 0..blocks.len() {
            let room = self.cache.len < index.config.max_blocks_per_pod || self.find(blocks[at]).is_some();
            let granted = if room { index.room.take(self.pod, 1) } else { 0 };
            let used = room.then(|| self.place(stored, at, at + 1, entry, &mut anchor, granted == 1)).flatten();
            index.room.give_back(self.pod, granted - used.unwrap_or(0));
            if used.is_none() {
                self.applied.refused += blocks.len() - at;
                return;
            }
        }
    }

    /// Makes a block real with exactly these copies; false if it does not fit.
    pub(crate) fn replace(&mut self, hash: BlockHash, parent: Parent, detail: &Detail) -> bool {
        let refused = self.applied.refused;
        self.store(&Stored::new(parent, &[hash]), Entry::Listed(detail));
        let fits = self.applied.refused == refused;
        self.applied.refused = refused;
        fits
    }

    /// What blocks behind `parent` are to be placed behind.
    fn anchor(&self, parent: Parent) -> Anchor {
        let Parent::Block(hash) = parent else { return Anchor::Nowhere(parent) };
        let segments = &self.index.segments;
        if let Some(at) = segments.directory.sole(hash, &self.pin) {
            return Anchor::Behind(hash, at);
        }
        match segments.directory.candidates(hash, &self.pin)[..] {
            // Whether it is there is seen when the segment is locked.
            [at] => Anchor::Behind(hash, at),
            [] => Anchor::Nowhere(parent),
            _ => self.settled_anchor(hash),
        }
    }

    /// The same, looked at: where the pod holds it, or where anybody has it.
    fn settled_anchor(&self, hash: BlockHash) -> Anchor {
        let place = self.find(hash).or_else(|| self.index.segments.places(hash, &self.pin).first().copied());
        place.map_or(Anchor::Nowhere(Parent::Block(hash)), |at| Anchor::Behind(hash, at))
    }

    /// Places blocks `from..to` of a store; how much room that used, or none if there is no room and one block, which would need it.
    ///
    /// `anchor` is where they begin, and in the end where what follows them does.
    fn place(
        &mut self,
        stored: &Stored<'_>,
        from: usize,
        to: usize,
        entry: Entry<'_>,
        anchor: &mut Anchor,
        room: bool,
    ) -> Option<usize> {
        let index = self.index;
        let (mut used, mut at) = (0, from);
        let mut seams: SmallVec<[(SegmentId, SegmentId); 2]> = SmallVec::new();
        let mut awaited = false;
        while at < to {
            let blocks = &stored.blocks[at..to];
            match index.segments.take(self.pod, *anchor, blocks, room, &self.pin) {
                Take::Taken(taken) => {
                    used += taken.entered;
                    match *anchor {
                        // Where others said that it follows something else, what would have been made longer was not.
                        Anchor::Behind(_, before) if taken.by_head | taken.contradicted => {
                            seams.push((before.segment, taken.first.segment));
                        }
                        _ => {}
                    }
                    awaited = taken.awaited;
                    *anchor = Anchor::Behind(blocks[taken.count - 1], taken.first.plus(taken.count - 1));
                    self.note(stored, at, entry, &taken);
                    at += taken.count;
                }
                Take::Held(place) => {
                    self.cache.contradictions += 1;
                    self.applied.already_held += 1;
                    self.note_repeat(stored, at, entry);
                    *anchor = Anchor::Behind(blocks[0], place);
                    at += 1;
                }
                Take::Moved => {
                    if let Anchor::Behind(hash, _) = *anchor {
                        *anchor = self.settled_anchor(hash);
                    }
                }
                Take::Full => return None,
            }
        }
        let mut merged = None;
        for (mut first, second) in seams {
            // What is merged keeps the name of the first.
            first = merged.filter(|(_, gone)| *gone == first).map_or(first, |(name, _)| name);
            merged = index.segments.merge(first, second, &self.pin).then_some((first, second));
        }
        if let (true, Anchor::Behind(_, last)) = (awaited, *anchor) {
            index.segments.merge_awaiting(last.segment, &self.pin);
        }
        Some(used)
    }

    /// Notes what became of blocks from `at` on.
    fn note(&mut self, stored: &Stored<'_>, at: usize, entry: Entry<'_>, taken: &Taken) {
        let repeated: usize = taken.repeats.iter().map(|(from, to)| (to - from) as usize).sum();
        self.cache.len += taken.count - repeated;
        self.applied.stored += taken.count - repeated;
        self.applied.already_held += repeated;
        self.cache.contradictions += u64::from(taken.contradicted);
        if taken.joined {
            let Self { index, pod, ref pin, ref mut cache, .. } = *self;
            cache.joined(taken.first.segment, |segment| index.segments.has(pod, segment, pin));
        }
        let plain = stored.tier == Tier::Gpu && stored.locations.is_empty();
        let new_is_plain = plain && matches!(entry, Entry::Real(_));
        let old_is_plain =
            repeated == 0 || plain && self.cache.is_plain() && matches!(entry, Entry::Real(EventSemantics::Membership));
        if new_is_plain && old_is_plain {
            return;
        }
        let mut repeats = taken.repeats.iter().peekable();
        for block in 0..taken.count {
            let offset = taken.first.offset + block as u32;
            while repeats.next_if(|(_, to)| *to <= offset).is_some() {}
            if repeats.peek().is_some_and(|(from, _)| *from <= offset) {
                self.note_repeat(stored, at + block, entry);
            } else {
                self.note_new(stored, at + block, entry);
            }
        }
    }

    fn note_new(&mut self, stored: &Stored<'_>, at: usize, entry: Entry<'_>) {
        let hash = stored.blocks[at];
        match entry {
            Entry::Real(_) => self.cache.came(hash, stored.tier, stored.locations.get(at).copied()),
            Entry::Speculated(deadline) => self.cache.speculate(hash, deadline),
            Entry::Listed(detail) => self.cache.replace(hash, detail),
        }
    }

    /// A block that the pod holds was stored again.
    fn note_repeat(&mut self, stored: &Stored<'_>, at: usize, entry: Entry<'_>) {
        let hash = stored.blocks[at];
        match entry {
            Entry::Real(source) => {
                let location = stored.locations.get(at).copied();
                self.cache.add_copy(hash, NewCopy { tier: stored.tier, source, location });
            }
            Entry::Speculated(deadline) => self.cache.prolong(hash, deadline),
            Entry::Listed(detail) => self.cache.replace(hash, detail),
        }
    }
}
