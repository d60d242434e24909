//! Discrete-event simulation: engines and a caller's timers on one virtual clock.
//!
//! What is due at one time happens in the order it was scheduled, so one seed gives one run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use routing_plugins::CostModel;

use crate::scheduler::{BlockChains, EngineConfig, EngineRequest, Sampled, Scheduler};

/// Engines in virtual time, and timers of type `T`.
#[derive(Debug)]
pub struct VirtualFleet<'t, C, T> {
    now: u64,
    chains: &'t C,
    costs: &'t CostModel,
    engines: Vec<Scheduler>,
    totals: Vec<EngineTotals>,
    queue: BinaryHeap<Reverse<(u64, u64, Due<T>)>>,
    scheduled: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due<T> {
    Step { engine: u32, took: u64 },
    Timer(T),
}

/// What happened.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "what a clock can bring")]
pub enum Occurrence<'s, T> {
    /// A timer went off.
    Timer(T),
    /// An engine has done a step.
    Step(StepDone<'s>),
}

/// What a step did.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a fact, complete by nature")]
pub struct StepDone<'s> {
    /// By which engine.
    pub engine: usize,
    /// In how many µs.
    pub took: u64,
    /// Requests that have one more token, beside those that have their first.
    pub decoded: usize,
    /// Those of them that are background requests.
    pub background: usize,
    /// First and last tokens.
    pub sampled: &'s [Sampled],
}

/// What one engine did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[expect(clippy::exhaustive_structs, reason = "sums that reports add up")]
pub struct EngineTotals {
    /// Requests that it finished.
    pub requests: u64,
    /// Prompt tokens that it computed.
    pub prefill_tokens: u64,
    /// Tokens that it generated.
    pub output_tokens: u64,
    /// Virtual µs in steps.
    pub busy_us: u64,
    /// How often it preempted a request.
    pub preemptions: u64,
}

impl<'t, C: BlockChains, T: Ord + Copy> VirtualFleet<'t, C, T> {
    /// Idle engines at time 0.
    #[must_use]
    pub fn new(engines: impl IntoIterator<Item = EngineConfig>, costs: &'t CostModel, chains: &'t C) -> Self {
        let engines: Vec<Scheduler> = engines.into_iter().map(Scheduler::new).collect();
        let totals = vec![EngineTotals::default(); engines.len()];
        Self { now: 0, chains, costs, engines, totals, queue: BinaryHeap::new(), scheduled: 0 }
    }

    /// Sets a timer, now at the earliest.
    pub fn set_timer(&mut self, at: u64, timer: T) {
        self.push(at.max(self.now), Due::Timer(timer));
    }

    /// Queues a request at an engine; false if it is longer than the engine's memory.
    pub fn submit(&mut self, engine: usize, request: EngineRequest) -> bool {
        self.engines[engine].submit(request)
    }

    /// Lets an engine begin its next step; the engine, unless it has nothing to do or is at one.
    pub fn start(&mut self, engine: usize) -> Option<&mut Scheduler> {
        let cost = self.engines[engine].begin(self.costs, self.chains)?;
        let took = (cost.as_secs_f64() * 1e6).ceil().max(1.0) as u64;
        self.push(self.now + took, Due::Step { engine: engine as u32, took });
        Some(&mut self.engines[engine])
    }

    /// Goes on to the next occurrence; none when nothing is left to come.
    pub fn next<'s>(&mut self, sampled: &'s mut Vec<Sampled>) -> Option<Occurrence<'s, T>> {
        let Reverse((at, _, due)) = self.queue.pop()?;
        self.now = at;
        let (number, took) = match due {
            Due::Timer(timer) => return Some(Occurrence::Timer(timer)),
            Due::Step { engine, took } => (engine as usize, took),
        };
        sampled.clear();
        let engine = &mut self.engines[number];
        let background = engine.background_decoding();
        let decoded = engine.end(self.chains, sampled);
        let totals = &mut self.totals[number];
        totals.busy_us += took;
        totals.prefill_tokens = engine.prefilled();
        totals.preemptions = engine.preemptions();
        totals.output_tokens += decoded as u64;
        for one in sampled.iter() {
            match one {
                Sampled::First(_) => totals.output_tokens += 1,
                Sampled::Done(_) => totals.requests += 1,
            }
        }
        Some(Occurrence::Step(StepDone { engine: number, took, decoded, background, sampled }))
    }

    /// µs since the beginning.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The requests' chains.
    #[must_use]
    pub fn chains(&self) -> &'t C {
        self.chains
    }

    /// The engines.
    #[must_use]
    pub fn engines(&self) -> &[Scheduler] {
        &self.engines
    }

    /// What each engine did so far.
    #[must_use]
    pub fn totals(&self) -> &[EngineTotals] {
        &self.totals
    }

    fn push(&mut self, at: u64, due: Due<T>) {
        self.scheduled += 1;
        self.queue.push(Reverse((at, self.scheduled, due)));
    }
}
