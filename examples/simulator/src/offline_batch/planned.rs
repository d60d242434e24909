//! Queues of a batch plan, with or without work stealing.

use std::num::NonZeroU32;

use kv_index::{Config, Index};
use pointsman_engine_sim::scheduler::EngineConfig;
use pointsman_lab::SplitMix64;
use routing_core::Role;
use routing_core::batch::{
    BatchConfig, BatchCosts, BatchPlan, BatchPlanner, BatchPod, BatchQueues, BatchRequest, ColdCaches,
};

use super::{KvBudget, TokenLengths, WorkSource};
use crate::SimulateError;
use crate::chains::Chains;
use crate::config::SimConfig;

/// Output lengths that the planner is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputEstimate {
    /// The truth.
    Exact,
    /// Twice as long for half of the requests, half as long for the others.
    OffByTwo,
    /// The mean for all.
    Mean,
}

impl OutputEstimate {
    /// What it says of answers of these lengths.
    pub(crate) fn outputs(self, lengths: &TokenLengths, seed: u64) -> Vec<u32> {
        let mut rng = SplitMix64::new(seed ^ 0x6E55);
        let mean = lengths.iter().map(|&(_, output)| u64::from(output)).sum::<u64>() / lengths.len().max(1) as u64;
        let guess = |&(_, output): &(u32, u32)| match self {
            Self::Exact => output,
            Self::OffByTwo if rng.next_u64() & 1 == 0 => output.saturating_mul(2),
            Self::OffByTwo => (output / 2).max(1),
            Self::Mean => mean.max(1) as u32,
        };
        lengths.iter().map(guess).collect()
    }
}

/// Whether idle pods steal work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkStealing {
    /// Each pod does its own queue.
    Off,
    /// A pod with an empty queue steals from another.
    On,
}

/// WorkSource after a plan.
#[derive(Debug)]
pub(crate) struct PlannedQueues {
    plan: BatchPlan,
    queues: BatchQueues,
    moving: WorkStealing,
    room: KvBudget,
}

impl PlannedQueues {
    /// Plans a batch for a fleet.
    pub(crate) fn new(
        chains: &Chains,
        lengths: &TokenLengths,
        config: &SimConfig,
        guess: OutputEstimate,
        moving: WorkStealing,
    ) -> Result<Self, SimulateError> {
        let outputs = guess.outputs(lengths, config.seed);
        let expected = lengths.iter().zip(outputs).map(|(&(prompt, _), output)| (prompt, output));
        let requests = requests(chains, 0, expected.clone());
        let pods = pods(config)?;
        let planning = planning(config).ok_or(SimulateError::NoPods)?;
        let plan = BatchPlanner::new(planning).plan(&requests, &pods, &mut ColdCaches)?;
        let queues = BatchQueues::new(&plan, &requests, &pods, &planning);
        Ok(Self { queues, moving, room: KvBudget::new(expected, config), plan })
    }

    /// The plan.
    pub(crate) fn plan(&self) -> &BatchPlan {
        &self.plan
    }

    /// Requests that were moved.
    pub(crate) fn moved(&self) -> usize {
        self.queues.moved()
    }
}

impl WorkSource for PlannedQueues {
    fn next(&mut self, pod: usize) -> Option<u32> {
        match self.queues.peek(pod) {
            Some(next) if !self.room.has(pod, next) => return None,
            None if self.moving == WorkStealing::Off || self.room.is_full(pod) => return None,
            _ => {}
        }
        let next = self.queues.next(pod)?;
        self.room.take(pod, next);
        Some(next)
    }

    fn done(&mut self, pod: usize, request: u32) {
        self.queues.done(pod, request);
        self.room.give(pod, request);
    }
}

/// Requests as planners see them: prompts from this place on, with the tokens of each and of its answer.
pub(crate) fn requests(
    chains: &Chains,
    first: u32,
    lengths: impl Iterator<Item = (u32, u32)>,
) -> Vec<BatchRequest<'_>> {
    let request = |(place, (prompt_tokens, output_tokens))| BatchRequest {
        chain: chains.get(place),
        prompt_tokens,
        output_tokens,
        deadline: None,
    };
    (first..).zip(lengths).map(request).collect()
}

/// Modelled pods as planners see them.
pub(crate) fn pods(config: &SimConfig) -> Result<Vec<BatchPod>, SimulateError> {
    let index: Index = Index::new(Config::default());
    let pod = |(at, (engine, _)): (usize, &(EngineConfig, Role))| {
        let kv_tokens = (engine.blocks * engine.block_tokens) as u64;
        Ok(BatchPod { pod: index.join(&at.to_string())?, kv_tokens, speed: engine.speed })
    };
    config.pods.iter().enumerate().map(pod).collect()
}

/// How a planner plans for modelled pods; none if there are none.
fn planning(config: &SimConfig) -> Option<BatchConfig> {
    let (engine, _) = config.pods.first()?;
    let number = |value: usize| u32::try_from(value).ok().and_then(NonZeroU32::new);
    Some(
        BatchConfig::new(BatchCosts::from(&config.costs))
            .block_tokens(number(engine.block_tokens)?)
            .step_tokens(number(engine.step_tokens)?)
            .most_running(u32::try_from(engine.max_running).ok()?),
    )
}
