//! Churn: cost of conversations that come and go, by how many share a system prompt.
//!
//! The rule: as many conversations live after a round as before it, and those that go are not those that came
//! last. SMG 2.0.0 panics past 262,144 conversations under one prompt and then answers no search any more, so it
//! is not asked there.

use std::time::Duration;

use kv_index::BlockHash;

use crate::mismatches::disagreements;
use crate::options::Options;
use crate::results::{ResultTable, Value};
use crate::systems::{Contender, MAKERS, Prompts};
use crate::targets::Cells;
use pointsman_benches::fleet::Step;
use pointsman_benches::measure::in_turn;
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_lab::SplitMix64;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let title = "A conversation of 8 blocks comes and another goes under one shared prompt, 64 pods (ns for both)";
    let mut table = super::comparison("churn", title, &["conversations", "events"]);
    let sizes: &[usize] = if options.quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000, 300_000] };
    for (at, &live) in sizes.iter().enumerate() {
        tell(&format!("size {} of {}: {live} live conversations", at + 1, sizes.len()));
        for (name, grain) in [("block by block", Grain::Blocks), ("whole", Grain::Whole)] {
            Churn::new(live, options).measure(&mut table, name, grain);
        }
    }
    super::sum_up(&mut table);
    super::judge_rows(&mut table);
    let large = Cells::among(&table, &super::ratio_columns()[0], |row| row[0] == Value::Count(100_000));
    table.findings.push(large.every(50.0, "the rows of 100,000 conversations"));
    vec![table]
}

/// How a conversation is reported.
#[derive(Clone, Copy, Debug)]
enum Grain {
    /// A prompt in one event, its answer and its eviction block by block.
    Blocks,
    /// In one event each.
    Whole,
}

impl Grain {
    fn comes(self, pod: usize, chain: usize) -> Vec<Step> {
        let at_once = match self {
            Self::Blocks => ASKED,
            Self::Whole => LENGTH,
        };
        Step::serve(pod, chain, PROMPT..at_once, LENGTH).collect()
    }

    fn goes(self, pod: usize, chain: usize) -> Vec<Step> {
        match self {
            Self::Blocks => Step::evict_singly(pod, chain, PROMPT..LENGTH).collect(),
            Self::Whole => vec![Step::evict(pod, chain, PROMPT..LENGTH)],
        }
    }
}

/// Conversations under one prompt, in every system that bears so many.
struct Churn {
    live: usize,
    /// Which system each contender is.
    lanes: Vec<usize>,
    contenders: Vec<Box<dyn Contender>>,
    /// Conversations that go, a batch for each round, stored evenly throughout.
    going: Vec<Vec<Vec<BlockHash>>>,
    /// Conversations that come, likewise.
    coming: Vec<Vec<Vec<BlockHash>>>,
}

impl Churn {
    fn new(live: usize, options: &Options) -> Self {
        let lanes: Vec<usize> = (0..MAKERS.len()).filter(|&lane| lane != SMG || live <= SMG_BEARS).collect();
        let mut contenders: Vec<_> = lanes.iter().map(|&lane| MAKERS[lane](PODS, Prompts::Hashes(&[]))).collect();
        let mut rng = SplitMix64::new(options.seed);
        let prompt = rng.chain(PROMPT);
        let mut batch = |count: usize| -> Vec<Vec<BlockHash>> {
            (0..count).map(|_| [prompt.clone(), rng.chain(LENGTH - PROMPT)].concat()).collect()
        };
        let first = batch(1);
        let prompts: Vec<_> = (0..PODS).map(|pod| Step::store(pod, 0, 0..PROMPT)).collect();
        play(&mut contenders, &first, &prompts);
        let each = SAMPLE.min(live / options.rounds);
        let rest = (live - each * options.rounds) / options.rounds;
        let mut going = Vec::new();
        for _ in 0..options.rounds {
            for from in (0..rest).step_by(BATCH) {
                store(&mut contenders, &batch(BATCH.min(rest - from)));
            }
            let sample = batch(each);
            store(&mut contenders, &sample);
            going.push(sample);
        }
        let coming = (0..options.rounds).map(|_| batch(each)).collect();
        Self { live, lanes, contenders, going, coming }
    }

    fn measure(mut self, table: &mut ResultTable, name: &str, grain: Grain) {
        let case = format!("{} conversations", Value::from(self.live));
        table.findings.extend(self.check(&format!("{case}, before"), true));
        let rounds = self.going.len();
        let Self { contenders, going, coming, .. } = &mut self;
        let spreads = in_turn(rounds, contenders.len(), |round, lane| {
            let time = turn(&mut *contenders[lane], &going[round], &coming[round], grain);
            time.as_nanos() as f64 / going[round].len() as f64
        });
        table.findings.extend(self.check(&format!("{case}, after"), false));
        let mut times = [None; MAKERS.len()];
        for (&lane, spread) in self.lanes.iter().zip(spreads) {
            times[lane] = Some(spread);
        }
        table.rows.push(super::compared(vec![self.live.into(), name.into()], times));
        if self.lanes.len() < MAKERS.len() && matches!(grain, Grain::Whole) {
            let note = format!("note: SMG is left out at {case}: it panics past 262,144 and then hangs");
            table.findings.push(note);
        }
    }

    /// Compares answers for those that go and those that come, before the rounds or after them.
    fn check(&mut self, case: &str, before: bool) -> Vec<String> {
        let chains = [self.going.concat(), self.coming.concat()].concat();
        for contender in &mut self.contenders {
            contender.load(Prompts::Hashes(&chains));
        }
        let (going, batch) = (chains.len() / 2, self.going[0].len());
        disagreements(case, &mut self.contenders, 0..chains.len(), |chain| {
            let mut depths = vec![PROMPT as u32; PODS];
            if (chain < going) == before {
                depths[chain % batch % PODS] = LENGTH as u32;
            }
            depths
        })
    }
}

/// One batch goes while another comes; how long that took.
fn turn(system: &mut dyn Contender, going: &[Vec<BlockHash>], coming: &[Vec<BlockHash>], grain: Grain) -> Duration {
    let chains = [going, coming].concat();
    let goes = |i: usize| grain.goes(i % PODS, i);
    let comes = |i: usize| grain.comes(i % PODS, going.len() + i);
    let steps: Vec<Step> = (0..going.len()).flat_map(|i| goes(i).into_iter().chain(comes(i))).collect();
    system.load(Prompts::Hashes(&chains));
    system.write(&steps)
}

fn store(contenders: &mut [Box<dyn Contender>], chains: &[Vec<BlockHash>]) {
    let steps: Vec<Step> = (0..chains.len()).flat_map(|i| Grain::Blocks.comes(i % PODS, i)).collect();
    play(contenders, chains, &steps);
}

fn play(contenders: &mut [Box<dyn Contender>], chains: &[Vec<BlockHash>], steps: &[Step]) {
    for contender in contenders {
        contender.load(Prompts::Hashes(chains));
        contender.write(steps);
    }
}

const PODS: usize = 64;
const PROMPT: usize = 16;
/// Where a conversation's own question ends and its answer begins.
const ASKED: usize = PROMPT + 6;
const LENGTH: usize = PROMPT + 8;

/// Conversations that come and go in a round, at most.
const SAMPLE: usize = 1_000;

/// Conversations loaded at a time.
const BATCH: usize = 10_000;

/// SMG among the systems, and conversations under one prompt that it bears.
const SMG: usize = 1;
const SMG_BEARS: usize = 250_000;

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn after_churn_every_system_holds_who_came_and_not_who_went() {
        let options = Options::parse_from(["pointsman-compare", "--rounds", "2"]);
        for grain in [Grain::Blocks, Grain::Whole] {
            let mut table = ResultTable::new("t", "t", ["a"]);
            let churn = Churn::new(300, &options);
            assert_eq!(churn.lanes, [0, 1, 2]);
            churn.measure(&mut table, "t", grain);
            assert_eq!(table.findings, Vec::<String>::new());
            assert!(table.rows[0].iter().skip(2).all(|value| value.number() > Some(0.0)));
        }
    }
}
