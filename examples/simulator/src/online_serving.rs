//! Discrete-event simulation of online serving: one policy on one trace.
//!
//! Invariant: the router learns of caches from events alone, never from an engine.

mod batch;
mod churn;
mod clairvoyant;
mod decision_request;
mod in_flight;
mod program_times;
mod sharing;
mod waiting;

use std::collections::HashMap;

use pointsman_engine_sim::scheduler::{EngineRequest, Sampled};
use pointsman_engine_sim::virtual_time::{Occurrence, VirtualFleet};
use pointsman_lab::trace::Start;
use routing_core::flow::Charge;
use routing_plugins::load::LoadGuard;

use crate::SimulateError;
use crate::chains::Chains;
use crate::colocated_batch::{AdmissionMode, BatchFeeder, ColocatedBatch, ColocatedBatchResult};
use crate::config::SimConfig;
use crate::flow_control::Gate;
use crate::policy::Policy;
use crate::prepared_trace::PreparedTrace;
use crate::results::{ClassResult, PolicyResult};
use crate::router::{RouteDecision, Router};
use crate::time_series::TimeSeries;
use decision_request::decision_request;
use in_flight::InFlightRequest;
use program_times::ProgramTimes;

/// Simulates a policy on a trace; `watch` is called now and then with the number of answers.
pub(crate) fn simulate(
    policy: &Policy,
    load: &PreparedTrace<'_>,
    config: &SimConfig,
    watch: &mut dyn FnMut(u64),
) -> Result<PolicyResult, SimulateError> {
    Ok(Simulation::new(policy, load, config, None)?.run(watch).0)
}

/// The same with a colocated batch, until all online requests are answered or for so many virtual µs.
pub(crate) fn simulate_colocated(
    policy: &Policy,
    load: &PreparedTrace<'_>,
    config: &SimConfig,
    batch: (&ColocatedBatch, AdmissionMode),
    until: Option<u64>,
) -> Result<(PolicyResult, ColocatedBatchResult), SimulateError> {
    let batch = BatchFeeder::new(batch, load.trace.block, until);
    Ok(Simulation::new(policy, load, config, Some(batch))?.run(&mut |_| {}))
}

struct Simulation<'t> {
    fleet: VirtualFleet<'t, Chains, Timer>,
    /// The pod that was there longest.
    oldest: usize,
    /// Gateways, of which each request comes to one.
    routers: Vec<Router>,
    /// Whether they are not asked.
    is_clairvoyant: bool,
    /// The queues before them, where there is flow control.
    gates: Vec<Gate>,
    load: &'t PreparedTrace<'t>,
    config: &'t SimConfig,
    /// Those that wait before a router, as they count on the pods that they were decided for.
    waiting: HashMap<u32, [LoadGuard; 2]>,
    /// By place in the trace: when it came, of those that wait before a router.
    came: Vec<u64>,
    /// By place in the trace: when it came, and what it holds until it is answered.
    in_flight: Vec<Option<InFlightRequest>>,
    series: TimeSeries,
    programs: ProgramTimes,
    result: PolicyResult,
    /// The next to come of those whose time is known.
    next: usize,
    shown: u64,
    /// The colocated batch.
    batch: Option<BatchFeeder<'t>>,
    batch_result: ColocatedBatchResult,
}

/// What the simulation is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A request comes.
    Arrival(u32),
    /// A request's blocks have reached the pod that decodes.
    Received(u32),
    /// A look at the gaps that a batch may fill.
    Tick,
    /// A request may have waited for too long before a router.
    Expiry(u32),
    /// The oldest pod is replaced.
    Churn,
    /// Gateways tell each other what they have in flight.
    Share,
}

impl<'t> Simulation<'t> {
    fn new(
        policy: &Policy,
        load: &'t PreparedTrace<'t>,
        config: &'t SimConfig,
        batch: Option<BatchFeeder<'t>>,
    ) -> Result<Self, SimulateError> {
        let longest = load.trace.requests.iter().map(|request| request.input).max().unwrap_or(0);
        let result = PolicyResult {
            policy: policy.name.clone(),
            blocks: load.known.0,
            blocks_known: load.known.1,
            ..PolicyResult::default()
        };
        let routers = (0..config.gateways.max(1))
            .map(|at| Router::new(policy, config, longest, at))
            .collect::<Result<Vec<_>, _>>()?;
        let gate = |router: &Router| config.flow.as_ref().map(|flow| Gate::new(flow, router.origin()));
        let result = PolicyResult { classes: vec![ClassResult::default(); config.classes.classes.len()], ..result };
        let mut simulation = Self {
            gates: routers.iter().filter_map(gate).collect::<Result<_, _>>()?,
            oldest: 0,
            routers,
            is_clairvoyant: policy.is_clairvoyant(),
            waiting: HashMap::new(),
            came: vec![0; if config.flow.is_some() { load.trace.requests.len() } else { 0 }],
            fleet: VirtualFleet::new(
                config.pods.iter().map(|(engine, _)| *engine),
                &config.costs,
                batch.as_ref().map_or(&load.with_answers, BatchFeeder::chains),
            ),
            load,
            config,
            in_flight: (0..load.trace.requests.len()).map(|_| None).collect(),
            series: TimeSeries::default(),
            programs: ProgramTimes::new(load.trace),
            result,
            next: 0,
            shown: 0,
            batch,
            batch_result: ColocatedBatchResult::default(),
        };
        simulation.schedule_next();
        simulation.schedule_churn();
        simulation.schedule_share();
        simulation.poll_batch();
        Ok(simulation)
    }

    fn run(mut self, watch: &mut dyn FnMut(u64)) -> (PolicyResult, ColocatedBatchResult) {
        let mut sampled = Vec::new();
        loop {
            match self.fleet.next(&mut sampled) {
                None => return self.end(),
                Some(Occurrence::Timer(Timer::Arrival(request))) => self.arrive(request),
                Some(Occurrence::Timer(Timer::Received(request))) => self.received(request),
                Some(Occurrence::Timer(Timer::Tick)) => self.poll_batch(),
                Some(Occurrence::Timer(Timer::Expiry(gateway))) => self.expire(gateway as usize),
                Some(Occurrence::Timer(Timer::Churn)) => self.replace_oldest(),
                Some(Occurrence::Timer(Timer::Share)) => self.share(),
                Some(Occurrence::Step(step)) => {
                    let (pod, took, decoded) = (step.engine, step.took, step.decoded - step.background);
                    // Of those that were preempted the pause is in the time per token and the whole answer alone.
                    self.result.between.record_many(took, decoded as u64);
                    for &one in step.sampled {
                        self.sampled(one);
                    }
                    self.publish(pod);
                    self.let_go();
                    self.feed_batch(pod);
                    self.start(pod);
                    if self.result.requests >= self.shown + WATCH_EVERY {
                        self.shown = self.result.requests;
                        watch(self.shown);
                    }
                }
            }
        }
    }

    /// Asks to be woken for the next request whose time is known; the others come after those they follow.
    fn schedule_next(&mut self) {
        let requests = &self.load.trace.requests;
        while let Some(request) = requests.get(self.next) {
            let place = self.next as u32;
            self.next += 1;
            if let Start::At(at) = request.start {
                self.fleet.set_timer(at, Timer::Arrival(place));
                return;
            }
        }
    }

    fn arrive(&mut self, place: u32) {
        let now = self.fleet.now();
        if matches!(self.load.trace.requests[place as usize].start, Start::At(_)) {
            self.schedule_next();
        }
        self.result.arrivals_us = now;
        self.programs.arrive(self.load.trace.requests[place as usize].session, now);
        let gateway = place as usize % self.routers.len();
        self.routers[gateway].catch_up(now, self.fleet.chains(), self.fleet.engines());
        self.series.loads(now, &self.fleet.engines()[self.oldest..]);
        if let Some(gate) = self.gates.get_mut(gateway) {
            self.came[place as usize] = now;
            let request = &self.load.trace.requests[place as usize];
            let class = self.config.classes.classes.get(self.config.classes.of(request.session));
            let answer = self.routers[gateway].expected_answer(request.input);
            let shed = gate.push(now, place, class, request.input, answer);
            shed.into_iter().for_each(|place| self.refuse(place));
            self.let_go_of(gateway);
            self.set_expiry(gateway);
            return;
        }
        let decision = if self.is_clairvoyant {
            self.foresee(gateway, place)
        } else {
            let asked = decision_request(self.load, self.config, place);
            self.routers[gateway].decide(now, asked, None).ok()
        };
        match decision {
            Some(decision) => {
                self.send(place, now, decision, None);
                self.tell_changes(gateway);
            }
            None => self.refuse(place),
        }
    }

    /// Sends a request to the pods that were chosen.
    fn send(&mut self, place: u32, came: u64, decision: RouteDecision, charge: Option<Charge>) {
        let now = self.fleet.now();
        let request = &self.load.trace.requests[place as usize];
        let RouteDecision { prefill, serve, prefill_guard, guard, sample, turn, held } = decision;
        let missing = request.input.saturating_sub((held * self.load.trace.block) as u32);
        self.in_flight[place as usize] = Some(InFlightRequest {
            came,
            decided: now,
            first: now,
            charge,
            serve,
            guard,
            sample,
            decoding: None,
            turn,
            prefill: prefill_guard,
            away: prefill.is_some(),
            missing,
        });
        let job =
            EngineRequest { id: place, prompt: request.input, output: request.output, ..EngineRequest::default() };
        let (pod, job) = match prefill {
            Some(prefill) => (prefill, EngineRequest { output: 1, ..job }),
            None => (serve, job),
        };
        if self.fleet.submit(pod, job) { self.start(pod) } else { self.refuse(place) }
    }

    fn refuse(&mut self, place: u32) {
        self.settle(place, 0);
        self.waiting.remove(&place);
        self.result.refused += 1;
        if let Some(class) = self.class(place) {
            class.refused += 1;
        }
        self.follow(place);
    }

    /// A prompt that another pod computed has come to the pod that answers.
    fn received(&mut self, place: u32) {
        let request = &self.load.trace.requests[place as usize];
        let (prompt, output) = (request.input, request.output);
        let job = EngineRequest { id: place, prompt, output, received: prompt, ..EngineRequest::default() };
        let Some(flight) = &mut self.in_flight[place as usize] else { return };
        flight.away = false;
        let serve = flight.serve;
        if self.fleet.submit(serve, job) { self.start(serve) } else { self.refuse(place) }
    }

    fn start(&mut self, pod: usize) {
        let (now, block) = (self.fleet.now(), self.load.trace.block as u32);
        let Some(engine) = self.fleet.start(pod) else { return };
        // What came from another pod was counted there.
        for one in engine.admitted().filter(|one| !one.request.background && one.request.received == 0) {
            let (prompt, hit) = (one.request.prompt, u64::from(one.cached_blocks));
            self.result.blocks_hit += hit;
            self.result.prompt_tokens += u64::from(prompt);
            self.series.hits(now, u64::from(prompt / block), hit);
        }
    }

    fn sampled(&mut self, sampled: Sampled) {
        let now = self.fleet.now();
        let (Sampled::First(job) | Sampled::Done(job)) = sampled;
        if job.background {
            if let Some(batch) = &mut self.batch {
                batch.sampled(sampled);
            }
            return;
        }
        let Some(flight) = &mut self.in_flight[job.id as usize] else { return };
        if flight.away {
            // The prompt is computed, and travels to the pod that answers.
            if matches!(sampled, Sampled::Done(_)) {
                flight.prefill = None;
                let moved = f64::from(flight.missing) * self.config.transfer_us_per_token;
                self.fleet.set_timer(now + self.config.transfer_us + moved as u64, Timer::Received(job.id));
            }
            return;
        }
        match sampled {
            Sampled::First(_) => {
                flight.guard.first_token();
                flight.first = now;
                let ttft = now - flight.came;
                let router = &self.routers[job.id as usize % self.routers.len()];
                let took = now - flight.decided;
                if let Some(sample) = flight.sample {
                    router.first_token(sample, took, now);
                    flight.decoding = Some(router.decode_sample(sample, flight.serve, now));
                }
                self.result.ttft.record(ttft);
                if let Some(class) = self.class(job.id) {
                    class.ttft.record(ttft);
                }
                self.result.slowdown.record(ttft * 1_000 / self.cold(job.prompt).max(1));
            }
            Sampled::Done(_) => {
                let (ttft, whole) = (flight.first - flight.came, now - flight.came);
                let router = &self.routers[job.id as usize % self.routers.len()];
                router.answered(job.prompt, job.output);
                if let Some((sample, began)) = flight.sample.zip(flight.decoding) {
                    let ended = router.decode_sample(sample, flight.serve, now);
                    router.decoded([began, ended], (job.output.into(), whole - ttft), now);
                }
                let per_token = (whole - ttft).checked_div(u64::from(job.output.saturating_sub(1)));
                self.result.whole.record(whole);
                self.result.whole_us += whole;
                per_token.into_iter().for_each(|us| self.result.per_token.record(us));
                self.result.good += u64::from(self.config.slo.is_met(ttft, self.cold(job.prompt), per_token));
                let tokens = u64::from(job.prompt) + u64::from(job.output);
                self.settle(job.id, tokens);
                self.result.requests += 1;
                if let Some(class) = self.class(job.id) {
                    (class.requests, class.tokens) = (class.requests + 1, class.tokens + tokens);
                }
                self.result.output_tokens += u64::from(job.output);
                self.result.span_us = now;
                self.follow(job.id);
            }
        }
    }

    /// The figures of a request's class.
    fn class(&mut self, place: u32) -> Option<&mut ClassResult> {
        let class = self.config.classes.of(self.load.trace.requests[place as usize].session);
        self.result.classes.get_mut(class)
    }

    /// µs that a cold, idle pod takes for a prompt.
    fn cold(&self, prompt: u32) -> u64 {
        self.config.costs.prefill(0, prompt as usize).as_micros() as u64
    }

    /// Lets those come that wait for a request's answer.
    fn follow(&mut self, place: u32) {
        let session = self.load.trace.requests[place as usize].session;
        if let Some(took) = self.programs.over(session, self.fleet.now()) {
            self.result.program.record(took);
            self.result.program_us += took;
            self.result.programs += 1;
        }
        for &(follower, think) in self.load.followers.get(place) {
            self.fleet.set_timer(self.fleet.now() + think, Timer::Arrival(follower));
        }
    }

    fn end(mut self) -> (PolicyResult, ColocatedBatchResult) {
        self.result.pods = self.fleet.totals().to_vec();
        self.result.prefill_tokens = self.result.pods.iter().map(|pod| pod.prefill_tokens).sum();
        self.result.decisions = self.routers.iter().map(|router| router.decisions).sum();
        self.result.decision_ns = self.routers.iter().map(|router| router.decision_ns).sum();
        self.result.series = self.series.buckets();
        (self.result, self.batch_result)
    }
}

/// Answers between two looks of a watcher.
const WATCH_EVERY: u64 = 1_000;

#[cfg(test)]
mod tests;
