//! What does an event cost per block, storing and evicting?
//!
//! Each round fills a fresh system, so what its tables cost to grow is part of the figure.

use std::ops::Range;

use kv_index::BlockHash;

use crate::fleet::Step;
use crate::measure::{Spread, interleaved};
use crate::options::Options;
use crate::report::{Table, Value};
use crate::rng::Rng;
use crate::systems::{MAKERS, NAMES, Prompts};

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<Table> {
    let [ours, smg, dynamo] = NAMES;
    let ratios = [format!("{smg} ÷ ours"), format!("{dynamo} ÷ ours")];
    let columns = ["event", "chain", ours, smg, dynamo, &ratios[0], &ratios[1]];
    let mut table = Table::new("writes", "Events, 64 pods (ns per block)", columns);
    for blocks in [64, 512] {
        tell(&format!("writes: chains of {blocks} blocks"));
        let plan = Plan::new(blocks, (options.table / blocks).max(1), options.seed);
        for (phase, times) in plan.measure(options.rounds) {
            let mut row = vec![phase.into(), Value::from(blocks)];
            row.extend(times.iter().map(|&time| Value::from(time)));
            row.extend([1, 2].map(|peer| Value::from(times[peer].median / times[0].median)));
            table.rows.push(row);
        }
    }
    vec![table]
}

/// Events in phases, each timed on its own.
struct Plan {
    chains: Vec<Vec<BlockHash>>,
    phases: Vec<(&'static str, Vec<Step>)>,
}

impl Plan {
    fn new(blocks: usize, count: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let chains = (0..count).map(|_| rng.chain(blocks + TAIL)).collect();
        let stores = |pods: Range<usize>| -> Vec<Step> {
            pods.flat_map(|pod| (0..count).map(move |chain| Step::store((chain + pod) % PODS, chain, 0..blocks)))
                .collect()
        };
        let tail = blocks..blocks + TAIL;
        let tails = |step: fn(usize, usize, Range<usize>) -> Step| -> Vec<Step> {
            (0..count).map(|chain| step(chain % PODS, chain, tail.clone())).collect()
        };
        let singles = tail.clone().map(|at| at..at + 1);
        let phases = vec![
            ("store a new chain", stores(0..1)),
            ("store it on a second pod", stores(1..2)),
            ("store it on six more", stores(2..8)),
            ("append one block", side_by_side(count, singles.clone(), Step::store)),
            ("evict one block", side_by_side(count, singles.rev(), Step::evict)),
            ("append 32 blocks", tails(Step::store)),
            ("evict 32 blocks", tails(Step::evict)),
        ];
        Self { chains, phases }
    }

    fn measure(&self, rounds: usize) -> Vec<(&'static str, Vec<Spread>)> {
        let mut samples = vec![vec![Vec::new(); MAKERS.len()]; self.phases.len()];
        interleaved(rounds, MAKERS.len(), |lane| {
            let mut system = MAKERS[lane](PODS, Prompts::Hashes(&self.chains));
            for ((_, steps), samples) in self.phases.iter().zip(&mut samples) {
                let blocks: usize = steps.iter().map(Step::blocks).sum();
                samples[lane].push(system.write(steps).as_nanos() as f64 / blocks as f64);
            }
            0.0
        });
        let spreads = samples.into_iter().map(|phase| phase.into_iter().map(Spread::of).collect());
        self.phases.iter().map(|(name, _)| *name).zip(spreads).collect()
    }
}

/// One event a block, for as many conversations at a time as are decoding side by side.
fn side_by_side(
    count: usize,
    blocks: impl Iterator<Item = Range<usize>> + Clone,
    step: fn(usize, usize, Range<usize>) -> Step,
) -> Vec<Step> {
    let chains: Vec<usize> = (0..count).collect();
    let mut steps = Vec::new();
    for bunch in chains.chunks(32) {
        for block in blocks.clone() {
            steps.extend(bunch.iter().map(|&chain| step(chain % PODS, chain, block.clone())));
        }
    }
    steps
}

const PODS: usize = 64;

/// Blocks that are appended and evicted again.
const TAIL: usize = 32;
