//! Invariant checker of a quiescent index.

use std::collections::{BTreeMap, BTreeSet};

use crate::index::Index;
use crate::pod::PodId;
use crate::reclaim::pin;
use crate::runs::WAITING;

impl<const WORDS: usize> Index<WORDS> {
    /// Panics if a run, the tables or a pod's cache contradicts another.
    ///
    /// # Panics
    ///
    /// When an invariant is broken.
    pub fn audit(&self) {
        let pin = pin();
        let heads = self.runs.heads.entries(&pin);
        assert_eq!(self.runs.heads.len(), heads.len());
        assert_eq!(self.runs.len(), heads.len(), "every run has a head, and no run is lost");
        let (mut live, mut islands) = (0, 0);
        let mut contents = BTreeMap::new();
        let mut places: BTreeMap<_, Vec<(u32, bool)>> = BTreeMap::new();
        let mut positions = BTreeSet::new();
        for (head, run) in heads {
            let (hashes, holders, doubled) = self.runs.content(run, &pin);
            holders.audit();
            assert_eq!(hashes.first(), Some(&head), "a run begins with its head");
            live += holders.live() as usize;
            islands += holders.islands();
            for (offset, hash) in hashes.iter().enumerate() {
                places.entry(*hash).or_default().push((offset as u32, doubled));
                positions.insert((run, offset as u32));
                let found = self.runs.places(*hash, &pin).iter().any(|at| (at.run, at.offset) == (run, offset as u32));
                assert!(found, "the directory has {hash:?}");
            }
            assert!(contents.insert(run, (hashes, holders)).is_none(), "a run has one head");
        }
        for (hash, places) in places {
            let alone = places.len() == 1 || places.iter().all(|(_, doubled)| *doubled);
            assert!(alone, "{hash:?} is in several runs that say so: {places:?}");
        }
        let (waiting, entries): (Vec<_>, Vec<_>) =
            self.runs.directory.entries(&pin).into_iter().partition(|at| at.offset == WAITING);
        assert!(waiting.iter().all(|at| contents.contains_key(&at.run)), "who waits is there");
        assert_eq!(entries.len(), positions.len(), "the directory has every place once");
        assert!(entries.iter().all(|at| positions.contains(&(at.run, at.offset))), "and no other");
        self.runs.audit_bytes(&pin);
        for pod in (0..self.config.max_pods).map(PodId::from_index) {
            let cache = self.cache_of(pod);
            let mut held = BTreeSet::new();
            let listed = cache.runs();
            for (run, (hashes, holders)) in &contents {
                for (offset, hash) in hashes.iter().enumerate().filter(|(at, _)| holders.holds(pod, *at as u32)) {
                    assert!(held.insert(*hash), "{pod:?} holds {hash:?} in one place, not at {offset} too");
                    assert!(listed.contains(run), "{pod:?} knows of the run");
                }
            }
            assert_eq!(held.len(), cache.len, "{pod:?} counts what it holds");
            assert!(cache.marked().all(|hash| held.contains(&hash)), "{pod:?} knows nothing of what it lacks");
            assert!(!held.is_empty() || !self.runs.loose().contains(pod), "who has nothing is not loose");
        }
        assert_eq!(self.runs.islands(), islands, "every island is counted");
        assert_eq!(self.room.used(), live, "no room is lost");
    }
}
