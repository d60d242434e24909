//! Test oracle: a literal set of pods and blocks that steps are applied to.
//!
//! The rule: it knows nothing of segments, trees or hints, so no index can be wrong in the same way.

use std::collections::HashSet;

use kv_index::BlockHash;

use crate::fleet::{Op, Step};

/// Every block of every pod.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    held: HashSet<(usize, BlockHash)>,
}

impl Oracle {
    /// Applies steps that speak of these chains.
    pub fn write(&mut self, chains: &[Vec<BlockHash>], steps: &[Step]) {
        for step in steps {
            for &hash in &chains[step.chain][step.from..step.to] {
                match step.op {
                    Op::Store => self.held.insert((step.pod, hash)),
                    Op::Evict => self.held.remove(&(step.pod, hash)),
                };
            }
        }
    }

    /// Forgets all that a pod holds.
    pub fn clear(&mut self, pod: usize) {
        self.held.retain(|&(holder, _)| holder != pod);
    }

    /// How many leading blocks of a chain each pod holds.
    #[must_use]
    pub fn depths(&self, chain: &[BlockHash], pods: usize) -> Vec<u32> {
        let held = |pod| chain.iter().take_while(|&&hash| self.held.contains(&(pod, hash))).count() as u32;
        (0..pods).map(held).collect()
    }
}

#[cfg(test)]
mod tests {
    use pointsman_lab::SplitMix64;

    use super::*;
    use crate::random_prompt::RandomPrompt;

    #[test]
    fn a_hole_ends_what_is_held_and_healing_it_brings_the_rest_back() {
        let chains = vec![SplitMix64::new(1).chain(8)];
        let mut oracle = Oracle::default();
        oracle.write(&chains, &[Step::store(1, 0, 0..8), Step::evict(1, 0, 3..4)]);
        assert_eq!(oracle.depths(&chains[0], 2), [0, 3]);
        oracle.write(&chains, &[Step::store(1, 0, 3..4)]);
        assert_eq!(oracle.depths(&chains[0], 2), [0, 8]);
        oracle.clear(1);
        assert_eq!(oracle.depths(&chains[0], 2), [0, 0]);
    }
}
