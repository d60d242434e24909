//! Least-recently-used (LRU) order of pods: a stamp for each, and candidates ranked by it.
//!
//! Lock-free: a stamp is one word with the pod's generation in it, so that a new pod of an id counts as never stamped.

use std::sync::atomic::{AtomicU64, Ordering};

use kv_index::{DEFAULT_POD_WORDS, Pod, PodId, PodSet};
use routing_core::{Fleet, Scores};

/// Bits of a stamp's time; those above are the generation's. At 10,000 stamps a second they last three years.
const TIME_BITS: u32 = 40;
const TIME: u64 = (1 << TIME_BITS) - 1;

/// When each pod last had its turn, or anything else that is handed round; owned by the host.
///
/// [`RoundRobinScorer`](crate::extra::RoundRobinScorer) gives turns by it. [`ColdPromptRecorder`](crate::extra::ColdPromptRecorder)
/// notes by it where prompts went that no pod held, for [`NoHitSpreadScorer`](crate::extra::NoHitSpreadScorer). It takes no lock, and
/// a new pod of an old id counts as never stamped.
#[derive(Debug)]
pub struct LruOrder<const W: usize = DEFAULT_POD_WORDS> {
    /// The latest time given out.
    clock: AtomicU64,
    pods: [[AtomicU64; 64]; W],
}

impl<const W: usize> LruOrder<W> {
    /// No pod was stamped.
    #[must_use]
    pub fn new() -> Self {
        let pods = std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0)));
        Self { clock: AtomicU64::new(0), pods }
    }

    /// Stamps a pod as the latest.
    pub fn stamp(&self, pod: Pod) {
        if let Some(place) = self.place(pod.id()) {
            // Relaxed, here and below: a stamp stands for itself, nothing is published by it.
            place.store(self.next(pod), Ordering::Relaxed);
        }
    }

    /// Stamps a pod as the latest, unless somebody did since it was seen with this time.
    fn restamp(&self, pod: Pod, seen: u64) -> bool {
        let Some(place) = self.place(pod.id()) else { return true };
        let word = place.load(Ordering::Relaxed);
        time(word, pod) == seen
            && place.compare_exchange(word, self.next(pod), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// When a pod was stamped; 0 if it never was.
    pub(super) fn of(&self, pod: Pod) -> u64 {
        self.place(pod.id()).map_or(0, |place| time(place.load(Ordering::Relaxed), pod))
    }

    /// Scores candidates by their stamps: 1 for the earliest, falling in equal steps to 0 for the latest.
    ///
    /// Those that were never stamped come first; ties go in order of pod number; a lone candidate gets 1.
    pub(super) fn score(&self, fleet: &Fleet<W>, scores: &mut Scores<'_, W>) {
        let mut keys = [[0; 64]; W];
        self.fill(self.order(fleet, scores.candidates(), &mut keys), scores);
    }

    /// The same, and the first of them is stamped: it had its turn.
    pub(super) fn score_and_stamp(&self, fleet: &Fleet<W>, scores: &mut Scores<'_, W>) {
        let mut keys = [[0; 64]; W];
        for _ in 0..ATTEMPTS {
            let order = self.order(fleet, scores.candidates(), &mut keys);
            let first = order.first().and_then(|key| Some((key >> 16, fleet.pod(pod_of(*key))?.pod)));
            if first.is_none_or(|(seen, pod)| self.restamp(pod, seen)) {
                self.fill(order, scores);
                return;
            }
        }
        // Others took every turn that was seen to be next. Whoever is first now serves twice in a row.
        self.fill(self.order(fleet, scores.candidates(), &mut keys), scores);
    }

    /// The candidates, earliest stamp first: each as its time and its number in one word.
    fn order<'k>(&self, fleet: &Fleet<W>, candidates: PodSet<W>, keys: &'k mut [[u64; 64]; W]) -> &'k [u64] {
        let keys = keys.as_flattened_mut();
        let mut used = 0;
        for (key, id) in keys.iter_mut().zip(candidates) {
            *key = fleet.pod(id).map_or(0, |info| self.of(info.pod)) << 16 | id.index() as u64;
            used += 1;
        }
        let order = &mut keys[..used];
        order.sort_unstable();
        order
    }

    fn fill(&self, order: &[u64], scores: &mut Scores<'_, W>) {
        let last = order.len().saturating_sub(1).max(1) as f32;
        for (rank, key) in order.iter().enumerate() {
            scores.set(pod_of(*key), 1.0 - rank as f32 / last);
        }
    }

    fn next(&self, pod: Pod) -> u64 {
        let time = self.clock.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & TIME;
        u64::from(pod.generation()) << TIME_BITS | time
    }

    fn place(&self, id: PodId) -> Option<&AtomicU64> {
        self.pods.as_flattened().get(id.index())
    }
}

impl<const W: usize> Default for LruOrder<W> {
    fn default() -> Self {
        Self::new()
    }
}

/// The time in a pod's word; 0 if the word is of an earlier pod of the id.
fn time(word: u64, pod: Pod) -> u64 {
    // Of a generation, the low bits: two that agree in them are millions of replacements apart.
    let same = word >> TIME_BITS == u64::from(pod.generation()) << TIME_BITS >> TIME_BITS;
    if same { word & TIME } else { 0 }
}

fn pod_of(key: u64) -> PodId {
    PodId::new(key as u16)
}

/// How often a turn is sought before it is shared.
const ATTEMPTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::score::testing::Scene;

    #[test]
    fn of_two_that_saw_the_same_turn_one_gets_it() {
        let (scene, stamps) = (Scene::new(1), <LruOrder>::new());
        let (pod, seen) = (scene.pod(0), stamps.of(scene.pod(0)));
        assert!(stamps.restamp(pod, seen));
        assert!(!stamps.restamp(pod, seen));
        assert!(stamps.restamp(pod, stamps.of(pod)));
    }

    #[test]
    fn stamps_are_in_order_and_of_one_generation() {
        let (mut scene, stamps) = (Scene::new(2), <LruOrder>::new());
        assert_eq!(stamps.of(scene.pod(0)), 0);
        stamps.stamp(scene.pod(1));
        stamps.stamp(scene.pod(0));
        assert!(stamps.of(scene.pod(0)) > stamps.of(scene.pod(1)));
        let old = scene.pod(0);
        scene.replace(0);
        assert_eq!(stamps.of(scene.pod(0)), 0);
        stamps.stamp(scene.pod(0));
        assert_eq!(stamps.of(old), 0);
    }
}
