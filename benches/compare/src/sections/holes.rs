//! Cost of holes: punched in the middle of chains, searched across, healed, searched again.
//!
//! Every other block of the middle of a chain goes, each from one of the pods that hold it, so pods stop at
//! different depths. The rule: answers are compared while holes are open and after; where a system is wrong its
//! time stands beside the finding.

use std::time::Duration;

use kv_index::BlockHash;

use crate::mismatches::disagreements;
use crate::options::Options;
use crate::results::{ResultTable, Value};
use crate::systems::{Contender, Lap, MAKERS, NAMES, Prompts, contenders};
use crate::targets::Cells;
use pointsman_benches::fleet::Step;
use pointsman_benches::measure::{Spread, in_turn};
use pointsman_benches::oracle::Oracle;
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_lab::SplitMix64;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    tell("holes: made, searched, healed, searched");
    let [ours, smg, dynamo] = NAMES;
    let [to_smg, to_dynamo] = super::ratio_columns();
    let columns = ["phase", ours, smg, dynamo, &to_smg, &to_dynamo];
    let title = format!(
        "{} holes in {CHAINS} chains of {BLOCKS} blocks, {HOLDERS} of 64 pods hold each (ns per search or hole)",
        Value::from(CHAINS * HOLES)
    );
    let mut table = ResultTable::new("holes", &title, columns);
    let arena = Arena::new(options.seed);
    table.findings.extend(arena.check());
    for (phase, times) in PHASES.into_iter().zip(arena.measure(options.rounds)) {
        let mut row = vec![Value::from(phase)];
        row.extend(times.iter().map(|&time| Value::from(time)));
        row.extend(super::ratios(&times));
        table.rows.push(row);
    }
    let line = Cells::of(&table, 1, &to_smg).every(&to_smg, 1.0, "every row");
    table.findings.push(line);
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
        let mut oracle = Oracle::default();
        let mut contenders = contenders(PODS, Prompts::Hashes(&self.chains));
        let mut lines = Vec::new();
        for (case, steps) in [("no hole yet", &self.stores), ("holes open", &self.holes), ("holes healed", &self.heals)]
        {
            oracle.write(&self.chains, steps);
            for contender in &mut contenders {
                let refused = contender.refused();
                contender.write(steps);
                let refused = contender.refused() - refused;
                if refused > 0 {
                    lines.push(format!("REFUSES: {} would not take {refused} stores, {case}", contender.name()));
                }
            }
            lines.extend(disagreements(&oracle, case, &self.chains, 0..CHAINS, PODS, &mut contenders));
        }
        lines
    }

    /// By phase, the spread of each system.
    fn measure(&self, rounds: usize) -> Vec<Vec<Spread>> {
        let mut samples = vec![vec![Vec::new(); MAKERS.len()]; PHASES.len()];
        let order: Vec<usize> = (0..SEARCHES).map(|i| i % CHAINS).collect();
        in_turn(rounds, MAKERS.len(), |_, lane| {
            let mut system = MAKERS[lane](PODS, Prompts::Hashes(&self.chains));
            system.write(&self.stores);
            let per = |time: Duration, count: usize| time.as_nanos() as f64 / count as f64;
            let search = |system: &mut Box<dyn Contender>| per(system.time(Lap::Search, &order), order.len());
            let whole = search(&mut system);
            let made = per(system.write(&self.holes), self.holes.len());
            let open = search(&mut system);
            let healed = per(system.write(&self.heals), self.heals.len());
            let after = search(&mut system);
            for (samples, time) in samples.iter_mut().zip([whole, made, open, healed, after]) {
                samples[lane].push(time);
            }
            0.0
        });
        samples.into_iter().map(|phase| phase.into_iter().map(Spread::of).collect()).collect()
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

    #[test]
    fn ours_is_exact_with_holes_open_and_healed() {
        let arena = Arena::new(1);
        assert_eq!((arena.holes.len(), arena.heals.len()), (1_024, 1_024));
        let lines = arena.check();
        assert!(!lines.iter().any(|line| line.contains(NAMES[0])), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("no hole yet")), "{lines:?}");
    }
}
