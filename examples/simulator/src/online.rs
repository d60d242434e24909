//! One policy on one trace: requests come, are routed and answered, and everything is counted.
//!
//! The rule that must never break: the router knows of caches from events alone, never from an engine.

use pointsman_lab::rng::Rng;
use pointsman_lab::trace::{Start, Trace};
use routing_plugins::load::LoadGuard;

use crate::SimulateError;
use crate::chains::Chains;
use crate::config::SimConfig;
use crate::engine::{Admitted, Change, Job, Sampled};
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::router::{Asked, Choice, Router};
use crate::series::Series;
use crate::together::{Fill, FillBatch, FillOutcome, FillRule};
use crate::world::{Alarm, Happening, World};

/// A trace, ready to be simulated again and again.
#[derive(Debug)]
pub struct Load<'t> {
    trace: &'t Trace,
    chains: Chains,
    /// Whole blocks, and those that an infinite cache would hold.
    known: (u64, u64),
    /// Who comes after whom is answered.
    followers: Followers,
}

impl<'t> Load<'t> {
    /// That of a trace.
    #[must_use]
    pub fn new(trace: &'t Trace) -> Self {
        let chains = Chains::of(trace);
        Self { known: chains.known(), chains, followers: Followers::of(trace), trace }
    }

    /// Its prompts.
    #[must_use]
    pub fn chains(&self) -> &Chains {
        &self.chains
    }
}

/// Runs a policy to the end; `watch` is shown now and then how many were answered.
///
/// # Errors
///
/// When the policy does not build or there are no pods.
pub fn simulate(
    policy: &Policy,
    load: &Load<'_>,
    config: &SimConfig,
    watch: &mut dyn FnMut(u64),
) -> Result<Outcome, SimulateError> {
    Ok(Online::new(policy, load, config, None)?.run(watch).0)
}

/// The same with a batch in the gaps, for as long as there are online requests to answer; or for so many virtual µs.
///
/// # Errors
///
/// As [`simulate`].
pub fn simulate_together(
    policy: &Policy,
    load: &Load<'_>,
    config: &SimConfig,
    fill: (&FillBatch, FillRule),
    until: Option<u64>,
) -> Result<(Outcome, FillOutcome), SimulateError> {
    let fill = Fill::new(fill, load.trace.block, until);
    Ok(Online::new(policy, load, config, Some(fill))?.run(&mut |_| {}))
}

struct Online<'t> {
    world: World<'t>,
    router: Router,
    load: &'t Load<'t>,
    config: &'t SimConfig,
    /// By place in the trace: when it came, and what it holds until it is answered.
    flights: Vec<Option<Flight>>,
    series: Series,
    outcome: Outcome,
    /// The next to come of those whose time is known.
    next: usize,
    /// Answers so far, and their tokens: what the next one is expected to have.
    answered: (u64, u64),
    shown: u64,
    /// What fills the gaps.
    fill: Option<Fill<'t>>,
    filled: FillOutcome,
}

struct Flight {
    came: u64,
    serve: usize,
    guard: LoadGuard,
    prefill: Option<LoadGuard>,
    /// Whether its prompt is still at another pod.
    away: bool,
    /// Tokens that the pod which answers lacked when it was chosen.
    missing: u32,
}

impl<'t> Online<'t> {
    fn new(
        policy: &Policy,
        load: &'t Load<'t>,
        config: &'t SimConfig,
        fill: Option<Fill<'t>>,
    ) -> Result<Self, SimulateError> {
        let longest = load.trace.requests.iter().map(|request| request.input).max().unwrap_or(0);
        let engines: Vec<_> = config.pods.iter().map(|(engine, _)| *engine).collect();
        let outcome = Outcome {
            policy: policy.name.clone(),
            blocks: load.known.0,
            blocks_known: load.known.1,
            ..Outcome::default()
        };
        let mut run = Self {
            world: World::new(&engines, &config.costs, fill.as_ref().map_or(&load.chains, Fill::chains)),
            router: Router::new(policy, config, longest)?,
            load,
            config,
            flights: (0..load.trace.requests.len()).map(|_| None).collect(),
            series: Series::default(),
            outcome,
            next: 0,
            answered: (FIRST_GUESS.0, FIRST_GUESS.1),
            shown: 0,
            fill,
            filled: FillOutcome::default(),
        };
        run.call_next();
        run.tick();
        Ok(run)
    }

    fn run(mut self, watch: &mut dyn FnMut(u64)) -> (Outcome, FillOutcome) {
        let mut sampled = Vec::new();
        loop {
            match self.world.next(&mut sampled) {
                None => return self.end(),
                Some(Happening::Alarm(Alarm::Arrival(request))) => self.arrive(request),
                Some(Happening::Alarm(Alarm::Received(request))) => self.received(request),
                Some(Happening::Alarm(Alarm::Tick)) => self.tick(),
                Some(Happening::Stepped(stepped)) => {
                    let (pod, took, decoded) = (stepped.pod, stepped.took, stepped.decoded - stepped.fillers);
                    self.outcome.between.record_many(took, decoded as u64);
                    for &one in stepped.sampled {
                        self.sampled(pod, one);
                    }
                    self.fill(pod);
                    self.start(pod);
                    if self.outcome.requests >= self.shown + WATCH_EVERY {
                        self.shown = self.outcome.requests;
                        watch(self.shown);
                    }
                }
            }
        }
    }

    /// Asks to be woken for the next request whose time is known; the others come after those they follow.
    fn call_next(&mut self) {
        let requests = &self.load.trace.requests;
        while let Some(request) = requests.get(self.next) {
            let place = self.next as u32;
            self.next += 1;
            if let Start::At(at) = request.start {
                self.world.wake(at, Alarm::Arrival(place));
                return;
            }
        }
    }

    fn arrive(&mut self, place: u32) {
        let now = self.world.now;
        if matches!(self.load.trace.requests[place as usize].start, Start::At(_)) {
            self.call_next();
        }
        self.outcome.arrivals_us = now;
        self.router.catch_up(now, self.world.chains, self.world.engines());
        let request = &self.load.trace.requests[place as usize];
        let asked = Asked {
            chain: self.load.chains.get(place),
            prompt: request.input,
            session: request.session,
            output: self.answered.1 / self.answered.0,
            seed: chance(self.config.seed, place),
        };
        self.series.loads(now, self.world.engines());
        let Some(choice) = self.router.decide(now, asked) else { return self.refuse(place) };
        let Choice { prefill, serve, prefill_guard, guard, held } = choice;
        let missing = request.input.saturating_sub((held * self.load.trace.block) as u32);
        self.flights[place as usize] =
            Some(Flight { came: now, serve, guard, prefill: prefill_guard, away: prefill.is_some(), missing });
        let job = Job { request: place, prompt: request.input, output: request.output, received: false, filler: false };
        let (pod, job) = match prefill {
            Some(prefill) => (prefill, Job { output: 1, ..job }),
            None => (serve, job),
        };
        if self.world.submit(pod, job) { self.start(pod) } else { self.refuse(place) }
    }

    /// Looks at all pods whether they have gaps, and again in a while.
    fn tick(&mut self) {
        let Some(fill) = &self.fill else { return };
        let answered = (self.outcome.requests + self.outcome.refused) as usize;
        if fill.until.map_or(answered < self.flights.len(), |until| self.world.now < until) {
            (0..self.config.pods.len()).for_each(|pod| {
                self.fill(pod);
                self.start(pod);
            });
            self.world.wake(self.world.now + TICK_US, Alarm::Tick);
        } else {
            // What is under way ends, and counts no more.
            let fill = self.fill.take();
            self.filled = fill.map(|fill| FillOutcome { span_us: self.world.now, ..fill.outcome }).unwrap_or_default();
        }
    }

    /// Begins what a pod has room for of the batch.
    fn fill(&mut self, pod: usize) {
        let (now, router) = (self.world.now, &self.router);
        let Some(fill) = &mut self.fill else { return };
        let mut refused = 0;
        // A list of which the pod takes nothing is gone through once.
        while refused < fill.len(pod) {
            let load = router.pod_load(now, pod);
            let Some(job) = fill.next((pod, router.handles()), &load, |work| router.begin(pod, work)) else { return };
            if !self.world.submit(pod, job) {
                fill.refused(job);
                refused += 1;
            }
        }
    }

    fn refuse(&mut self, place: u32) {
        self.flights[place as usize] = None;
        self.outcome.refused += 1;
        self.follow(place);
    }

    /// A prompt that another pod computed has come to the pod that answers.
    fn received(&mut self, place: u32) {
        let request = &self.load.trace.requests[place as usize];
        let job = Job { request: place, prompt: request.input, output: request.output, received: true, filler: false };
        let Some(flight) = &mut self.flights[place as usize] else { return };
        flight.away = false;
        let serve = flight.serve;
        if self.world.submit(serve, job) { self.start(serve) } else { self.refuse(place) }
    }

    fn start(&mut self, pod: usize) {
        let (now, router, outcome, series) = (self.world.now, &mut self.router, &mut self.outcome, &mut self.series);
        let block = self.load.trace.block as u32;
        self.world.start(pod, |changes: &mut Vec<Change>, admitted: &mut Vec<Admitted>| {
            router.changed(now, pod, changes);
            for one in admitted.drain(..).filter(|one| !one.job.filler) {
                outcome.blocks_hit += u64::from(one.blocks_hit);
                outcome.prompt_tokens += u64::from(one.job.prompt);
                series.hits(now, u64::from(one.job.prompt / block), u64::from(one.blocks_hit));
            }
        });
    }

    fn sampled(&mut self, _pod: usize, sampled: Sampled) {
        let now = self.world.now;
        let (Sampled::First(job) | Sampled::Done(job)) = sampled;
        if job.filler {
            if let Some(fill) = &mut self.fill {
                fill.sampled(sampled);
            }
            return;
        }
        let Some(flight) = &mut self.flights[job.request as usize] else { return };
        if flight.away {
            // The prompt is computed, and travels to the pod that answers.
            if matches!(sampled, Sampled::Done(_)) {
                flight.prefill = None;
                let moved = f64::from(flight.missing) * self.config.transfer_us_per_token;
                self.world.wake(now + self.config.transfer_us + moved as u64, Alarm::Received(job.request));
            }
            return;
        }
        match sampled {
            Sampled::First(_) => {
                flight.guard.first_token();
                self.outcome.ttft.record(now - flight.came);
            }
            Sampled::Done(_) => {
                self.outcome.whole.record(now - flight.came);
                self.flights[job.request as usize] = None;
                self.outcome.requests += 1;
                self.outcome.output_tokens += u64::from(job.output);
                self.answered = (self.answered.0 + 1, self.answered.1 + u64::from(job.output));
                self.outcome.span_us = now;
                self.follow(job.request);
            }
        }
    }

    /// Lets those come that wait for a request's answer.
    fn follow(&mut self, place: u32) {
        for &(follower, think) in self.load.followers.of_one(place) {
            self.world.wake(self.world.now + think, Alarm::Arrival(follower));
        }
    }

    fn end(mut self) -> (Outcome, FillOutcome) {
        self.outcome.pods = self.world.pods;
        self.outcome.prefill_tokens = self.outcome.pods.iter().map(|pod| pod.prefill_tokens).sum();
        (self.outcome.decisions, self.outcome.decision_ns) = (self.router.decisions, self.router.decision_ns);
        self.outcome.series = self.series.moments();
        (self.outcome, self.filled)
    }
}

/// What chance begins with in the decision about a request: of one seed's numbers, the one at its place. Not the next one in the
/// order of arrival, which in a closed loop depends on answers, and so on the policy.
fn chance(seed: u64, place: u32) -> u64 {
    Rng::new(seed.wrapping_add(u64::from(place).wrapping_mul(RNG_STEP))).bits()
}

/// Who comes after whom, with the µs between.
#[derive(Debug)]
struct Followers {
    /// By the request that is followed.
    ends: Vec<usize>,
    followers: Vec<(u32, u64)>,
}

impl Followers {
    fn of(trace: &Trace) -> Self {
        let mut all: Vec<(u32, u32, u64)> = Vec::new();
        for (place, request) in trace.requests.iter().enumerate() {
            if let Start::After(before, think) = request.start {
                all.push((before, place as u32, think));
            }
        }
        all.sort_unstable();
        let mut ends = vec![0; trace.requests.len()];
        all.iter().for_each(|&(before, ..)| ends[before as usize] += 1);
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        Self { ends, followers: all.into_iter().map(|(_, place, think)| (place, think)).collect() }
    }

    fn of_one(&self, place: u32) -> &[(u32, u64)] {
        let at = place as usize;
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.followers[from..self.ends[at]]
    }
}

/// What a generator's state goes on by.
const RNG_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// µs between two looks at what pods have to do.
const TICK_US: u64 = 20_000;

/// Answers between two looks of a watcher.
const WATCH_EVERY: u64 = 1_000;

/// What answers are taken to have before there were any: so many answers, and their tokens.
const FIRST_GUESS: (u64, u64) = (8, 8 * 256);

#[cfg(test)]
mod tests {
    use pointsman_lab::trace::made::Made;

    use super::*;

    #[test]
    fn a_request_has_the_same_chance_whenever_it_comes() {
        let trace = Made::Agents.trace(300, 3).at_rate(4.0, 3);
        assert!(trace.is_closed());
        let load = Load::new(&trace);
        let tokens = |speed: f64| {
            let mut config = SimConfig::mixed(4, 1_000_000, trace.block);
            config.pods[0].0.speed *= speed;
            let outcome = simulate(&Policy::find("random").unwrap(), &load, &config, &mut |_| {}).unwrap();
            outcome.pods.iter().map(|pod| pod.output_tokens).collect::<Vec<_>>()
        };
        assert_eq!(tokens(1.0), tokens(0.3), "answers come in another order, and go to the same pods");
    }
}
