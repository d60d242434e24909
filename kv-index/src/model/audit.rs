//! Invariant checker of a quiescent index.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::Index;
use crate::pods::PodId;
use crate::reclamation::pin;
use crate::segments::WAITING;

impl<const WORDS: usize> Index<WORDS> {
    /// Panics if a segment, the tables or a pod's cache contradicts another.
    ///
    /// # Panics
    ///
    /// When an invariant is broken.
    pub fn audit(&self) {
        let pin = pin();
        let heads = self.segments.heads.entries(&pin);
        assert_eq!(self.segments.heads.len(), heads.len());
        assert_eq!(self.segments.len(), heads.len(), "every segment has a head, and no segment is lost");
        let (mut live, mut detached) = (0, 0);
        let mut contents = BTreeMap::new();
        let mut places: BTreeMap<_, Vec<(u32, bool)>> = BTreeMap::new();
        let mut positions = BTreeSet::new();
        for (head, segment) in heads {
            let (hashes, holders, doubled) = self.segments.content(segment, &pin);
            holders.audit();
            assert_eq!(hashes.first(), Some(&head), "a segment begins with its head");
            live += holders.live() as usize;
            detached += holders.detached();
            for (offset, hash) in hashes.iter().enumerate() {
                places.entry(*hash).or_default().push((offset as u32, doubled));
                positions.insert((segment, offset as u32));
                let found = self
                    .segments
                    .places(*hash, &pin)
                    .iter()
                    .any(|at| (at.segment, at.offset) == (segment, offset as u32));
                assert!(found, "the directory has {hash:?}");
            }
            assert!(contents.insert(segment, (hashes, holders)).is_none(), "a segment has one head");
        }
        for (hash, places) in places {
            let alone = places.len() == 1 || places.iter().all(|(_, doubled)| *doubled);
            assert!(alone, "{hash:?} is in several segments that say so: {places:?}");
        }
        let (waiting, entries): (Vec<_>, Vec<_>) =
            self.segments.directory.entries(&pin).into_iter().partition(|at| at.offset == WAITING);
        assert!(waiting.iter().all(|at| contents.contains_key(&at.segment)), "who waits is there");
        assert_eq!(entries.len(), positions.len(), "the directory has every place once");
        assert!(entries.iter().all(|at| positions.contains(&(at.segment, at.offset))), "and no other");
        self.segments.audit_bytes(&pin);
        for pod in (0..self.config.max_pods).map(PodId::from_index) {
            let cache = self.cache_of(pod);
            let mut held = BTreeSet::new();
            let listed = cache.segments();
            for (segment, (hashes, holders)) in &contents {
                for (offset, hash) in hashes.iter().enumerate().filter(|(at, _)| holders.holds(pod, *at as u32)) {
                    assert!(held.insert(*hash), "{pod:?} holds {hash:?} in one place, not at {offset} too");
                    assert!(listed.contains(segment), "{pod:?} knows of the segment");
                }
            }
            assert_eq!(held.len(), cache.len, "{pod:?} counts what it holds");
            assert!(cache.marked().all(|hash| held.contains(&hash)), "{pod:?} knows nothing of what it lacks");
            assert!(!held.is_empty() || !self.segments.loose().contains(pod), "who has nothing is not loose");
        }
        assert_eq!(self.segments.detached(), detached, "every detached span is counted");
        assert_eq!(self.room.used(), live, "no room is lost");
    }
}
