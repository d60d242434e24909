//! One fleet in every system, with prompts to ask about: set-up, checks and laps that sections share.
//!
//! The rule: every round asks for other prompts, the same ones of every system, and each answer was compared with the
//! expected before.

use std::ops::Range;

use crate::mismatches::disagreements;
use crate::systems::{Contender, Lap, Prompts, contenders};
use pointsman_benches::fleet::{Fleet, Step};
use pointsman_benches::measure::{Spread, in_turn};
use pointsman_lab::SplitMix64;

pub(super) struct Arena {
    pub(super) fleet: Fleet,
    pub(super) pods: usize,
    /// The fleet's prompts as tokens, if they are asked for by tokens.
    pub(super) tokens: Vec<Vec<u32>>,
    /// Prompts by how much of them is held.
    pub(super) queries: [(&'static str, Range<usize>); 3],
    pub(super) contenders: Vec<Box<dyn Contender>>,
    pub(super) rounds: usize,
    /// Queries in a lap.
    pub(super) each: usize,
    pub(super) rng: SplitMix64,
}

impl Arena {
    /// Prompts for every round, another portion for each.
    pub(super) fn order(&mut self, prompts: &Range<usize>) -> Vec<usize> {
        let draws = self.rng.draws(self.each * self.rounds, prompts.len());
        draws.into_iter().map(|draw| prompts.start + draw).collect()
    }

    /// Compares what is answered for hashes.
    pub(super) fn check(&mut self, case: &str, order: &[usize]) -> Vec<String> {
        let Self { fleet, pods, contenders, .. } = self;
        disagreements(case, contenders, order.iter().copied(), |chain| fleet.expected_depths(chain, *pods))
    }

    /// Times every system, each by its lap, in turn.
    pub(super) fn laps(&mut self, laps: [Lap; 3], order: &[usize]) -> Vec<Spread> {
        let Self { contenders, tokens, each, .. } = self;
        in_turn(self.rounds, laps.len(), |round, lane| {
            let asked = &order[round * *each..][..*each];
            contenders[lane].time(laps[lane], tokens, asked).as_nanos() as f64 / *each as f64
        })
    }
}

/// Every system, filled by these steps.
pub(super) fn filled(pods: usize, prompts: Prompts<'_>, steps: &[Step]) -> Vec<Box<dyn Contender>> {
    let mut contenders = contenders(pods, prompts);
    for contender in &mut contenders {
        contender.write(steps);
    }
    contenders
}
