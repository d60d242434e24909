//! The modelled pods and their clock: what happens next, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::chains::Chains;
use crate::engine::{Admitted, Change, Engine, EngineConfig, Job, Sampled};
use crate::results::PodResult;
use pointsman_engine_sim::cost::CostModel;

/// All pods, in virtual time. Events at one time happen in the order they were asked for, so one seed gives one run.
#[derive(Debug)]
pub(super) struct World<'t> {
    pub(super) now: u64,
    pub(super) chains: &'t Chains,
    costs: &'t CostModel,
    engines: Vec<Engine>,
    pub(super) pods: Vec<PodResult>,
    due: BinaryHeap<Reverse<(u64, u64, Event)>>,
    asked: u64,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Stepped { pod: u32, took: u64 },
    Alarm(Alarm),
}

/// What a caller wants to be woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// A request comes.
    Arrival(u32),
    /// A request's blocks have reached the pod that decodes.
    Received(u32),
    /// The caller's own.
    Tick,
}

/// What happened.
#[derive(Debug)]
pub(super) enum Happening<'w> {
    Alarm(Alarm),
    /// A pod has done a step.
    Stepped(Stepped<'w>),
}

/// What a step did.
#[derive(Debug)]
pub(super) struct Stepped<'w> {
    pub(super) pod: usize,
    /// µs.
    pub(super) took: u64,
    /// Requests that have one more token, beside those that have their first.
    pub(super) decoded: usize,
    /// Those of them that are of a batch which fills the gaps.
    pub(super) fillers: usize,
    pub(super) sampled: &'w [Sampled],
}

impl<'t> World<'t> {
    pub(super) fn new(pods: &[EngineConfig], costs: &'t CostModel, chains: &'t Chains) -> Self {
        Self {
            now: 0,
            chains,
            costs,
            engines: pods.iter().map(|&config| Engine::new(config)).collect(),
            pods: vec![PodResult::default(); pods.len()],
            due: BinaryHeap::new(),
            asked: 0,
        }
    }

    /// Wakes the caller at a time.
    pub(super) fn wake(&mut self, at: u64, alarm: Alarm) {
        self.push(at.max(self.now), Event::Alarm(alarm));
    }

    /// Queues a request at a pod; false if it is longer than the pod's memory.
    pub(super) fn submit(&mut self, pod: usize, job: Job) -> bool {
        self.engines[pod].submit(job)
    }

    /// Lets a pod begin its next step, if it has something to do and is not at it. Tells what changed in its cache.
    pub(super) fn start(&mut self, pod: usize, told: impl FnOnce(&mut Vec<Change>, &mut Vec<Admitted>)) {
        let engine = &mut self.engines[pod];
        let Some(took) = engine.begin(self.costs, self.chains) else { return };
        told(&mut engine.changes, &mut engine.admitted);
        engine.changes.clear();
        engine.admitted.clear();
        self.push(self.now + took, Event::Stepped { pod: pod as u32, took });
    }

    /// The next thing that happens; none when nothing is left to come.
    pub(super) fn next<'w>(&mut self, sampled: &'w mut Vec<Sampled>) -> Option<Happening<'w>> {
        let Reverse((at, _, event)) = self.due.pop()?;
        self.now = at;
        Some(match event {
            Event::Alarm(alarm) => Happening::Alarm(alarm),
            Event::Stepped { pod, took } => {
                let pod = pod as usize;
                sampled.clear();
                let fillers = self.engines[pod].fillers;
                let decoded = self.engines[pod].end(sampled);
                let figures = &mut self.pods[pod];
                figures.busy_us += took;
                figures.prefill_tokens = self.engines[pod].prefilled;
                figures.output_tokens += decoded as u64;
                for one in sampled.iter() {
                    match one {
                        Sampled::First(_) => figures.output_tokens += 1,
                        Sampled::Done(_) => figures.requests += 1,
                    }
                }
                Happening::Stepped(Stepped { pod, took, decoded, fillers, sampled })
            }
        })
    }

    pub(super) fn engines(&self) -> &[Engine] {
        &self.engines
    }

    fn push(&mut self, at: u64, event: Event) {
        self.asked += 1;
        self.due.push(Reverse((at, self.asked, event)));
    }
}
