//! Cost of holes: punched in the middle of chains, searched across, healed, searched again.
//!
//! Every other block of the middle of a chain goes, each from one of the pods that hold it, so pods stop at
//! different depths. The rule: answers are compared while holes are open and after; where a system is wrong its
//! time stands beside the finding.

use std::time::Duration;

use kv_index::BlockHash;

use crate::options::Options;
use crate::results::{ResultTable, Value};
use crate::systems::{Contender, Lap, MAKERS, Prompts};
use pointsman_benches::fleet::Step;
use pointsman_benches::measure::{Spread, by_phase};
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_lab::SplitMix64;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    tell("holes: made, searched, healed, searched");
    let title = format!(
        "{} holes in {CHAINS} chains of {BLOCKS} blocks, {HOLDERS} of 64 pods hold each (ns per search or hole)",
        Value::from(CHAINS * HOLES)
    );
    let mut table = super::comparison("holes", &title, &["phase"]);
    let arena = Arena::new(options.seed);
    table.findings.extend(arena.check());
    for (phase, times) in PHASES.into_iter().zip(arena.measure(options.rounds)) {
        table.rows.push(super::compared(vec![phase.into()], times));
    }
    super::judge_rows(&mut table);
    vec![table]
}

/// Chains with their holders, the holes to make, and how to heal them.
struct Arena {
    chains: Vec<Vec<BlockHash>>,
    stores: Vec<Step>,
    holes: Vec<Step>,
    heals: Vec<Step>,
}

impl Arena {
    fn new(seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed);
        let chains = (0..CHAINS).map(|_| rng.chain(BLOCKS)).collect();
        let pod = |chain: usize, holder: usize| (chain * 7 + holder) % PODS;
        let store = |chain| (0..HOLDERS).map(move |holder| Step::store(pod(chain, holder), chain, 0..BLOCKS));
        let stores = (0..CHAINS).flat_map(store).collect();
        let mut spots: Vec<(usize, usize)> = (0..CHAINS * HOLES).map(|i| (i % CHAINS, i / CHAINS)).collect();
        rng.shuffle(&mut spots);
        let at = |hole: usize| BLOCKS / 4 + 2 * hole;
        let step = |make: fn(usize, usize, std::ops::Range<usize>) -> Step, (chain, hole): (usize, usize)| {
            make(pod(chain, hole % HOLDERS), chain, at(hole)..at(hole) + 1)
        };
        let holes = spots.iter().map(|&spot| step(Step::evict, spot)).collect();
        rng.shuffle(&mut spots);
        let heals = spots.iter().map(|&spot| step(Step::store, spot)).collect();
        Self { chains, stores, holes, heals }
    }

    /// Plays it once, untimed, and compares the answers at every stage.
    fn check(&self) -> Vec<String> {
        let stages = [("no hole yet", &self.stores), ("holes open", &self.holes), ("holes healed", &self.heals)];
        let stages = stages.map(|(case, steps)| (case.to_owned(), &**steps));
        super::rehearse(PODS, &self.chains, stages, 0..CHAINS)
    }

    /// By phase, the spread of each system.
    fn measure(&self, rounds: usize) -> [Vec<Spread>; PHASES.len()] {
        let order: Vec<usize> = (0..SEARCHES).map(|i| i % CHAINS).collect();
        let per = |time: Duration, count: usize| time.as_nanos() as f64 / count as f64;
        let search = |system: &mut dyn Contender| per(system.time(Lap::Search, &[], &order), order.len());
        by_phase(rounds, MAKERS.len(), |lane| {
            let mut system = MAKERS[lane](PODS, Prompts::Hashes(&self.chains));
            system.write(&self.stores);
            let whole = search(&mut *system);
            let made = per(system.write(&self.holes), self.holes.len());
            let open = search(&mut *system);
            let healed = per(system.write(&self.heals), self.heals.len());
            [whole, made, open, healed, search(&mut *system)]
        })
    }
}

const PHASES: [&str; 5] = ["search before", "make a hole", "search, holes open", "heal a hole", "search, holes healed"];

const PODS: usize = 64;
const CHAINS: usize = 8;
const BLOCKS: usize = 512;
const HOLDERS: usize = 16;

/// Holes in a chain: every other block of its middle half.
const HOLES: usize = BLOCKS / 4;

/// Searches in a round.
const SEARCHES: usize = 2_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::NAMES;

    #[test]
    fn ours_is_exact_with_holes_open_and_healed() {
        let arena = Arena::new(1);
        assert_eq!((arena.holes.len(), arena.heals.len()), (1_024, 1_024));
        let lines = arena.check();
        assert!(!lines.iter().any(|line| line.contains(NAMES[0])), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("no hole yet")), "{lines:?}");
    }
}
