//! Discrete-event simulation: engines and a caller's timers on one virtual clock.
//!
//! What is due at one time happens in the order it was scheduled, so one seed gives one run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use routing_plugins::CostModel;

use crate::scheduler::{BlockChains, BlockEvent, EngineConfig, EngineRequest, Sampled, Scheduler};

/// Engines in virtual time, and timers of type `T`.
#[derive(Debug)]
pub struct VirtualFleet<'t, C, T> {
    now: u64,
    chains: &'t C,
    costs: &'t CostModel,
    engines: Vec<Scheduler>,
    totals: Vec<EngineTotals>,
    /// By engine: when the step that it is at ends.
    ends: Vec<u64>,
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
    /// Tokens that it computed: of prompts, and what was preempted again.
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
        let (totals, ends, queue) = (Vec::new(), Vec::new(), BinaryHeap::new());
        let mut fleet = Self { now: 0, chains, costs, engines: Vec::new(), totals, ends, queue, scheduled: 0 };
        engines.into_iter().for_each(|engine| _ = fleet.join(engine));
        fleet
    }

    /// One more idle engine; its number.
    pub fn join(&mut self, engine: EngineConfig) -> usize {
        self.engines.push(Scheduler::new(engine));
        self.totals.push(EngineTotals::default());
        self.ends.push(0);
        self.engines.len() - 1
    }

    /// What an engine's requests take from now on if nothing more comes, in µs, all together; with one more, where there is one. None
    /// if that one is longer than the engine's memory.
    #[must_use]
    pub fn foresee(&self, engine: usize, more: Option<EngineRequest>) -> Option<u64> {
        let (mut copy, mut sampled) = (self.engines[engine].clone(), Vec::new());
        if more.is_some_and(|request| !copy.submit(request)) {
            return None;
        }
        let (mut now, mut all) = (0, 0);
        loop {
            if copy.is_stepping() {
                now = now.max(self.ends[engine].saturating_sub(self.now));
                copy.end(self.chains, &mut sampled);
                all += sampled.drain(..).filter(|one| matches!(one, Sampled::Done(_))).count() as u64 * now;
            }
            let Some(cost) = copy.begin(self.costs, self.chains) else { return Some(all) };
            now += micros(cost);
        }
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
        let took = micros(cost);
        self.ends[engine] = self.now + took;
        self.push(self.now + took, Due::Step { engine: engine as u32, took });
        Some(&mut self.engines[engine])
    }

    /// What became of an engine's cache since this was asked last. vLLM publishes it when a step ends.
    pub fn events(&mut self, engine: usize) -> impl Iterator<Item = BlockEvent> + '_ {
        self.engines[engine].events()
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

/// Whole µs of a step.
fn micros(cost: Duration) -> u64 {
    (cost.as_secs_f64() * 1e6).ceil().max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use kv_index::BlockHash;

    use super::*;

    struct NoChains;

    impl BlockChains for NoChains {
        fn chain(&self, _: u32) -> &[BlockHash] {
            &[]
        }
    }

    #[test]
    fn what_is_foreseen_is_what_happens() {
        let costs = CostModel::FUSED;
        let mut fleet: VirtualFleet<'_, NoChains, ()> =
            VirtualFleet::new([EngineConfig { blocks: 40, ..EngineConfig::default() }], &costs, &NoChains);
        let request = |id, prompt, output| EngineRequest { id, prompt, output, ..EngineRequest::default() };
        assert_eq!(fleet.foresee(0, None), Some(0));
        assert!(fleet.submit(0, request(0, 9_000, 50)) && fleet.start(0).is_some());
        let (mut sampled, mut sum) = (Vec::new(), 0);
        // In the middle of a step, with one that waits and one that comes.
        assert!(fleet.submit(0, request(1, 700, 30)));
        let third = request(2, 3_000, 80);
        let (without, with) = (fleet.foresee(0, None).unwrap(), fleet.foresee(0, Some(third)).unwrap());
        assert_eq!(fleet.foresee(0, Some(request(3, 40 * 512, 1))), None, "there is no room for it");
        assert!(fleet.submit(0, third));
        while let Some(Occurrence::Step(step)) = fleet.next(&mut sampled) {
            sum += step.sampled.iter().filter(|one| matches!(one, Sampled::Done(_))).count() as u64 * fleet.now();
            fleet.start(0);
        }
        assert_eq!(sum, with);
        assert!(without < with);
    }
}
