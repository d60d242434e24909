//! Invariant checker of a quiescent index.

use std::collections::BTreeMap;

use crate::index::Index;
use crate::pod::PodId;
use crate::reclaim::pin;

impl<const WORDS: usize> Index<WORDS> {
    /// Panics if a run, the table of heads or a pod's map contradicts another.
    ///
    /// # Panics
    ///
    /// When an invariant is broken.
    pub fn audit(&self) {
        let pin = pin();
        let heads = self.heads.entries(&pin);
        assert_eq!(self.heads.len(), heads.len());
        assert_eq!(self.runs.len(), heads.len(), "every run has a head, and no run is lost");
        let (mut live, mut islands, mut bits) = (0, 0, 0);
        let mut contents = BTreeMap::new();
        for (head, run) in heads {
            let (hashes, holders) = self.runs.content(run, &pin);
            holders.audit();
            assert_eq!(hashes.first(), Some(&head), "a run begins with its head");
            live += holders.live() as usize;
            islands += holders.islands();
            assert!(contents.insert(run.raw(), (hashes, holders)).is_none(), "a run has one head");
        }
        self.runs.audit_bytes(&pin);
        let mut strays = 0;
        for pod in (0..self.config.max_pods).map(PodId::from_index) {
            let cache = self.cache_of(pod);
            strays += cache.strays.len();
            let mut placed = 0;
            for (hash, held) in cache.blocks() {
                let Some(at) = held.place else {
                    assert!(cache.strays.parent(hash).is_some(), "{hash:?} is nowhere");
                    continue;
                };
                placed += 1;
                let (hashes, holders) = &contents[&at.run.raw()];
                assert_eq!(hashes[at.offset as usize], hash, "a block is where its pod thinks it is");
                assert!(holders.holds(pod, at.offset), "{pod:?} is not among the holders of {hash:?}");
            }
            assert_eq!(placed + cache.strays.len(), cache.len(), "a block is placed or a stray");
            let of_pod = |len: usize, holds: &dyn Fn(u32) -> bool| (0..len as u32).filter(|&at| holds(at)).count();
            let in_runs: usize =
                contents.values().map(|(hashes, holders)| of_pod(hashes.len(), &|at| holders.holds(pod, at))).sum();
            assert_eq!(in_runs, placed, "{pod:?} is in runs for what it holds and nothing else");
            bits += placed;
            assert_eq!(self.unlinked().contains(pod), cache.is_unlinked(), "searches know whom to ask");
        }
        assert!(live <= bits);
        assert_eq!(self.runs.islands(), islands, "every island is counted");
        let blocks = self.blocks.load(crate::sync::Ordering::Relaxed);
        assert_eq!(blocks, (live + strays) as u64, "no room is lost");
    }
}
