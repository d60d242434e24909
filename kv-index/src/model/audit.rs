//! Checks an index that nobody is changing against its own invariants.

use std::collections::BTreeMap;

use crate::index::Index;
use crate::pod::PodId;
use crate::reclaim::pin;
use crate::runs::RunView;
use crate::sets::SetId;

impl<const WORDS: usize> Index<WORDS> {
    /// Panics if a slot, a run, a set or a pod's map contradicts another.
    ///
    /// # Panics
    ///
    /// When an invariant is broken.
    pub fn audit(&self) {
        let pin = pin();
        let slots = self.table.slots(&pin);
        let mut holds: BTreeMap<u32, u32> = BTreeMap::new();
        let mut named: BTreeMap<u32, u64> = BTreeMap::new();
        let mut covered: BTreeMap<u32, usize> = BTreeMap::new();
        let mut view = RunView::default();
        for (hash, meta) in &slots {
            assert_ne!(meta.set(), SetId::EMPTY, "{hash:?} is absent but named");
            *holds.entry(meta.set().raw()).or_default() += 1;
            for pod in self.sets.pods(meta.set()) {
                assert!(self.cache_of(pod).find(*hash).is_some(), "{pod:?} does not hold {hash:?}");
            }
            let Some(place) = meta.place() else { continue };
            *named.entry(place.run.raw()).or_default() += 1;
            if self.runs.read(place.run, &mut view) && place.offset < view.len {
                *covered.entry(place.run.raw()).or_default() += 1;
                let set = view.stretches().find(|stretch| place.offset < stretch.end).map(|stretch| stretch.set);
                assert_eq!(set, Some(meta.set()), "run and slot agree on {hash:?}");
                for (stretch, next) in view.stretches().zip(view.stretches().skip(1)) {
                    assert_eq!(stretch.leaver, self.sets.leaver(stretch.set, next.set), "a run knows who leaves");
                }
                if place.offset + 1 == view.len {
                    assert_eq!(view.last, *hash, "the last hash is the last block's");
                }
            }
        }
        for (run, count) in &named {
            assert_eq!(self.runs.named(*run), *count, "a run knows who names it");
            if self.runs.read(crate::runs::RunId::from_raw(*run).expect("not zero"), &mut view) {
                assert_eq!(covered.get(run).copied().unwrap_or(0), view.len, "every block a run covers names it");
            }
        }
        assert_eq!(self.runs.len(), named.len(), "no run is lost");
        self.sets.audit(&holds);
        let bits: usize = slots.iter().map(|(_, meta)| self.sets.pods(meta.set()).len()).sum();
        let held: usize = (0..self.config.max_pods).map(|pod| self.cache_of(PodId::from_index(pod)).len()).sum();
        assert_eq!(bits, held, "a bit for each held block");
        assert_eq!(self.table.len(), slots.len());
        assert_eq!(self.blocks.load(crate::sync::Ordering::Relaxed), slots.len() as u64, "no room is lost");
    }
}
