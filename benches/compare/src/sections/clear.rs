//! Cost of clearing a large pod.
//!
//! Another pod holds every second chain and must keep it.

use kv_index::BlockHash;

use crate::mismatches::disagreements;
use crate::options::Options;
use crate::results::ResultTable;
use crate::systems::{Contender, Prompts, contenders};
use pointsman_benches::fleet::Step;
use pointsman_benches::measure::interleaved;
use pointsman_benches::oracle::Oracle;
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_lab::SplitMix64;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let title = "Clearing a pod, until a search sees it; another holds half of its chains (ns per block)";
    let mut table = super::comparison("clear", title, &["blocks"]);
    let blocks = if options.quick { 50_000 } else { 1_000_000 };
    tell(&format!("clearing {blocks} blocks"));
    let mut arena = Arena::new(blocks, options.seed);
    table.findings.extend(arena.check());
    let times = interleaved(options.rounds.min(ROUNDS), arena.contenders.len(), |lane| {
        let system = &mut arena.contenders[lane];
        system.write(&arena.stores);
        system.clear(CLEARED).as_nanos() as f64 / blocks as f64
    });
    table.rows.push(super::compared(vec![blocks.into()], times));
    super::judge_rows(&mut table);
    vec![table]
}

struct Arena {
    chains: Vec<Vec<BlockHash>>,
    contenders: Vec<Box<dyn Contender>>,
    /// What the pod that is cleared holds.
    stores: Vec<Step>,
    /// What another holds.
    others: Vec<Step>,
}

impl Arena {
    fn new(blocks: usize, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let chains: Vec<_> = (0..blocks.div_ceil(LENGTH)).map(|_| rng.chain(LENGTH)).collect();
        let stores: Vec<_> = (0..chains.len()).map(|chain| Step::store(CLEARED, chain, 0..LENGTH)).collect();
        let others = (0..chains.len()).step_by(2).map(|chain| Step::store(OTHER, chain, 0..LENGTH)).collect();
        let contenders = contenders(PODS, Prompts::Hashes(&chains));
        Self { chains, contenders, stores, others }
    }

    /// Stores and clears once and compares answers; leaves what the other pod holds.
    fn check(&mut self) -> Vec<String> {
        let Self { chains, contenders, stores, others } = self;
        let mut oracle = Oracle::default();
        oracle.write(chains, others);
        for contender in contenders.iter_mut() {
            contender.write(others);
            contender.write(stores);
            contender.clear(CLEARED);
        }
        let asked = (0..chains.len()).step_by((chains.len() / 200).max(1) | 1);
        disagreements("after clearing", contenders, asked, |chain| oracle.depths(&chains[chain], PODS))
    }
}

const PODS: usize = 64;
const CLEARED: usize = 5;
const OTHER: usize = 6;
const LENGTH: usize = 512;

/// Rounds, at most: each fills all systems anew.
const ROUNDS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_pod_holds_nothing_and_the_other_all() {
        assert_eq!(Arena::new(5_000, 1).check(), Vec::<String>::new());
    }
}
