//! Predicted cache contents for engines without events: an LRU model fed from routing decisions.
//!
//! Whatever was routed to a pod is taken to be cached there until the pod's capacity says otherwise. Eviction
//! is least recently used, by whole prefixes: using a prompt renews all of it, its start last, so that what
//! goes first is always the end of something, never its beginning.

use crate::blocks::{ApplyStats, BlockHash, Event, EventSemantics, Removed, Stored};
use crate::feeds::recency::Recency;
use crate::index::Index;
use crate::map::FixedMap;
use crate::pods::{Pod, PodId, PodRetired};

/// Guesses what pods hold from what was routed to them.
///
/// # Examples
///
/// ```
/// use kv_index::{BlockHash, Config, Index, Matches, Predictor};
///
/// let index: Index = Index::new(Config::default());
/// let pod = index.join("silent")?;
/// let mut predictor = Predictor::new(4);
/// let blocks: Vec<BlockHash> = (1..=6).map(BlockHash::new).collect();
/// predictor.routed(&index, pod, &blocks[..3])?;
/// predictor.routed(&index, pod, &[blocks[0], blocks[4], blocks[5]])?;
///
/// let mut matches = Matches::default();
/// index.search(&blocks[..3], &mut matches);
/// assert_eq!(matches.depth(pod.id()), 2, "five blocks do not fit: the older tail went");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Predictor {
    capacity: usize,
    pods: FixedMap<PodId, Guess>,
}

/// What a pod is taken to hold. A parent was always used after its children.
#[derive(Debug)]
struct Guess {
    pod: Pod,
    blocks: Recency,
}

impl Guess {
    fn new(pod: Pod) -> Self {
        Self { pod, blocks: Recency::default() }
    }

    fn evict_down_to(&mut self, capacity: usize) -> Vec<BlockHash> {
        let excess = self.blocks.len().saturating_sub(capacity);
        (0..excess).map_while(|_| self.blocks.pop_oldest()).collect()
    }
}

impl Predictor {
    /// A predictor for pods that cache `capacity` blocks each.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        // A prompt comes in before others go for it.
        Self { capacity: capacity.min(Recency::MOST / 2), pods: FixedMap::default() }
    }

    /// Notes that a prompt was routed to `pod`: it will hold the prompt, and no longer what had to go for it.
    ///
    /// Of a prompt longer than the capacity, the start is kept.
    ///
    /// # Errors
    ///
    /// When the pod is retired; its state here is dropped too.
    pub fn routed<const W: usize>(
        &mut self,
        index: &Index<W>,
        pod: Pod,
        chain: &[BlockHash],
    ) -> Result<ApplyStats, PodRetired> {
        let guess = self.pods.entry(pod.id()).or_insert_with(|| Guess::new(pod));
        if guess.pod.generation() > pod.generation() {
            // It comes late: another pod has its place, and what that one holds is to stay known.
            return Err(PodRetired(pod));
        }
        if guess.pod != pod {
            *guess = Guess::new(pod);
        }
        let chain = &chain[..chain.len().min(self.capacity)];
        for hash in chain.iter().rev() {
            guess.blocks.used(*hash);
        }
        let evicted = guess.evict_down_to(self.capacity);
        let result =
            index.apply(pod, EventSemantics::Membership, &Event::Removed(Removed::new(&evicted))).and_then(|removed| {
                let mut applied =
                    index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(chain)))?;
                applied += removed;
                Ok(applied)
            });
        if result.is_err() {
            self.pods.remove(&pod.id());
        }
        result
    }

    /// Forgets what was predicted for a pod, for instance after it was retired.
    pub fn forget(&mut self, pod: Pod) {
        self.pods.remove(&pod.id());
    }

    /// Blocks predicted on a pod.
    #[must_use]
    pub fn blocks(&self, pod: Pod) -> usize {
        self.pods.get(&pod.id()).filter(|guess| guess.pod == pod).map_or(0, |guess| guess.blocks.len())
    }
}

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Config, Matches};

    /// The block after `prefix` on a tree where each block has three children.
    fn chain(path: &[u8]) -> Vec<BlockHash> {
        let mut hash = 1u64;
        path.iter()
            .map(|&step| {
                hash = hash * 4 + u64::from(step % 3) + 1;
                BlockHash::new(hash)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn capacity_holds_and_what_is_left_is_closed_under_prefixes(
            prompts in prop::collection::vec(prop::collection::vec(0u8..3, 0..12), 1..60), capacity in 1usize..20,
        ) {
            let index: Index = Index::new(Config::default());
            let pod = index.join("a").unwrap();
            let mut predictor = Predictor::new(capacity);
            let (mut matches, mut scanned) = (Matches::default(), Matches::default());
            for prompt in &prompts {
                let blocks = chain(prompt);
                predictor.routed(&index, pod, &blocks).unwrap();
                index.search(&blocks, &mut matches);
                prop_assert_eq!(matches.depth(pod.id()), blocks.len().min(capacity), "just routed");
                let stats = index.pod_stats(pod).unwrap();
                prop_assert!(stats.blocks <= capacity);
                prop_assert_eq!(stats.blocks, predictor.blocks(pod));
                prop_assert_eq!(index.stats().detached_spans, 0, "leaf first leaves no hole");
                for other in &prompts {
                    index.search(&chain(other), &mut matches);
                    index.scan(&chain(other), &mut scanned);
                    prop_assert_eq!(matches.groups(), scanned.groups());
                }
            }
        }
    }

    #[test]
    fn the_least_recently_used_prompt_goes_tail_first() {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").unwrap();
        let mut predictor = Predictor::new(6);
        let (old, new) = (chain(&[0, 0, 0]), chain(&[1, 1, 1]));
        predictor.routed(&index, pod, &old).unwrap();
        predictor.routed(&index, pod, &new).unwrap();
        predictor.routed(&index, pod, &old).unwrap();
        predictor.routed(&index, pod, &chain(&[2, 2])).unwrap();
        let mut matches = Matches::default();
        index.search(&old, &mut matches);
        assert_eq!(matches.depth(pod.id()), 3, "renewed");
        index.search(&new, &mut matches);
        assert_eq!(matches.depth(pod.id()), 1, "its tail made room");
    }

    #[test]
    fn what_comes_late_for_a_retired_pod_leaves_its_successor_alone() {
        let index: Index = Index::new(Config::default());
        let old = index.join("a").unwrap();
        let mut predictor = Predictor::new(2);
        index.retire(old);
        while index.sweep(10).pending > 0 {}
        // A place is given to another once all have been.
        let mut others = (0..).map(|n| index.join(&format!("b{n}")).unwrap());
        let new = others.find(|pod| pod.id() == old.id()).unwrap();
        predictor.routed(&index, new, &chain(&[0, 0])).unwrap();
        assert_eq!(predictor.routed(&index, old, &chain(&[1])), Err(PodRetired(old)));
        predictor.routed(&index, new, &chain(&[1, 1])).unwrap();
        assert_eq!(index.pod_stats(new).unwrap().blocks, 2, "what it held before was known, and went");
    }

    #[test]
    fn a_retired_pod_is_forgotten() {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").unwrap();
        let mut predictor = Predictor::new(6);
        predictor.routed(&index, pod, &chain(&[0, 0])).unwrap();
        index.retire(pod);
        assert_eq!(predictor.routed(&index, pod, &chain(&[0])), Err(PodRetired(pod)));
        assert_eq!(predictor.blocks(pod), 0);
    }
}
