//! What is really held: a literal set of pods and blocks that steps are played into.
//!
//! The rule: it knows nothing of runs, trees or hints, so no index can be wrong in the same way.

use std::collections::HashSet;

use kv_index::BlockHash;

use crate::fleet::{Op, Step};
use crate::systems::Contender;

/// Every block of every pod.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    held: HashSet<(usize, BlockHash)>,
}

impl Truth {
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
    pub fn depths(&self, chain: &[BlockHash], depths: &mut [u32]) {
        for (pod, depth) in depths.iter_mut().enumerate() {
            *depth = chain.iter().take_while(|&&hash| self.held.contains(&(pod, hash))).count() as u32;
        }
    }

    /// A line for each system that answers otherwise for one of these chains, which it has loaded.
    pub fn compare(
        &self,
        case: &str,
        chains: &[Vec<BlockHash>],
        asked: impl IntoIterator<Item = usize> + Clone,
        pods: usize,
        contenders: &mut [Box<dyn Contender>],
    ) -> Vec<String> {
        let mut tallies = vec![Tally::default(); contenders.len()];
        let (mut truth, mut answer) = (vec![0; pods], vec![0; pods]);
        for chain in asked {
            self.depths(&chains[chain], &mut truth);
            for (contender, tally) in contenders.iter_mut().zip(&mut tallies) {
                contender.depths(chain, &mut answer);
                tally.add(chain, &answer, &truth);
            }
        }
        contenders.iter().zip(tallies).filter_map(|(contender, tally)| tally.line(contender.name(), case)).collect()
    }
}

/// Counts prompts that one system answers wrongly, and keeps the first of them.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    asked: usize,
    wrong: usize,
    first: Option<(usize, usize, u32, u32)>,
}

impl Tally {
    /// Counts one answer.
    pub fn add(&mut self, chain: usize, answer: &[u32], truth: &[u32]) {
        self.asked += 1;
        if let Some(pod) = (0..truth.len()).find(|&pod| answer[pod] != truth[pod]) {
            self.wrong += 1;
            self.first.get_or_insert((chain, pod, answer[pod], truth[pod]));
        }
    }

    /// What there is to report, if anything was wrong.
    #[must_use]
    pub fn line(&self, system: &str, case: &str) -> Option<String> {
        let (chain, pod, said, held) = self.first?;
        let Self { wrong, asked, .. } = self;
        Some(format!(
            "DISAGREES: {system} at {case}: {wrong} of {asked} prompts; first: chain {chain}, pod {pod}: says {said}, holds {held}",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invent::Invent;
    use crate::systems::{Prompts, contenders};
    use pointsman_lab::rng::Rng;

    #[test]
    fn a_hole_ends_what_is_held_and_healing_it_brings_the_rest_back() {
        let chains = vec![Rng::new(1).chain(8)];
        let (mut truth, mut depths) = (Truth::default(), [9; 2]);
        truth.write(&chains, &[Step::store(1, 0, 0..8), Step::evict(1, 0, 3..4)]);
        truth.depths(&chains[0], &mut depths);
        assert_eq!(depths, [0, 3]);
        truth.write(&chains, &[Step::store(1, 0, 3..4)]);
        truth.depths(&chains[0], &mut depths);
        assert_eq!(depths, [0, 8]);
        truth.clear(1);
        truth.depths(&chains[0], &mut depths);
        assert_eq!(depths, [0, 0]);
    }

    #[test]
    fn a_system_that_was_not_told_is_reported() {
        let chains = vec![Rng::new(1).chain(8)];
        let mut truth = Truth::default();
        truth.write(&chains, &[Step::store(1, 0, 0..8)]);
        let mut contenders = contenders(2, Prompts::Hashes(&chains));
        for contender in &mut contenders[1..] {
            contender.write(&[Step::store(1, 0, 0..8)]);
        }
        let lines = truth.compare("here", &chains, 0..1, 2, &mut contenders);
        let wrong = "DISAGREES: pointsman at here: 1 of 1 prompts; first: chain 0, pod 1: says 0, holds 8";
        assert_eq!(lines, [wrong]);
    }
}
