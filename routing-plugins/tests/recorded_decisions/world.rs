//! A little fleet in virtual time, and a gateway: pods compute, cache, evict, fail, drain, leave and come.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kv_index::{
    BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Event, EventSemantics, Index, Pod, Removed, Stored,
};
use routing_core::{
    DecideError, Fleet, Load, PodInfo, PodSet, Request, Role, RoutingInput, RoutingPlan, Workflow, Workspace,
};
use routing_plugins::load::{LoadGuard, Work};
use routing_plugins::{Hashing, PluginState};

use super::recording::{error, plan};
use super::traffic::{Asked, BLOCK, Chance};

const MODEL: &str = "m";
const PODS: usize = 12;
/// What pods are remembered to have stored, so that they can evict it.
const REMEMBERED: usize = 64;

/// A fleet, and a gateway that routes by a workflow.
pub(crate) struct World {
    state: PluginState,
    workflow: Workflow,
    workspace: Workspace,
    /// By place; a place is empty while its pod is away.
    pods: Vec<Option<PodInfo>>,
    fleet: Fleet,
    version: u64,
    now: Instant,
    running: Vec<Running>,
    stored: Vec<(Pod, Vec<BlockHash>)>,
    plan: RoutingPlan,
}

/// A request that is on its pods.
struct Running {
    guards: Vec<LoadGuard>,
    chain: Vec<BlockHash>,
    /// Whether its pods say what they cached.
    reported: bool,
    /// None when it came.
    first_token: Option<Instant>,
    done: Instant,
}

/// What the pods of a world share with its gateway. They are guessed to hold few blocks.
pub(crate) fn state() -> PluginState {
    let state = PluginState::new(Arc::new(Index::new(Config::default())), Hashing::Native(block_size()));
    state.predicting(NonZeroUsize::new(600).expect("not zero"))
}

fn block_size() -> BlockSize {
    BlockSize::new(BLOCK).expect("not zero")
}

impl World {
    #[expect(clippy::disallowed_methods, reason = "a world begins at some instant; which one does not matter")]
    pub(crate) fn new(state: PluginState, workflow: Workflow) -> Self {
        let pods: Vec<_> = (0..PODS).map(|place| Some(born(&state, place, 0))).collect();
        Self {
            workspace: workflow.workspace(),
            workflow,
            fleet: Fleet::new(1, pods.iter().flatten().cloned()),
            pods,
            state,
            version: 1,
            now: Instant::now(),
            running: Vec::new(),
            stored: Vec::new(),
            plan: RoutingPlan::default(),
        }
    }

    /// Lets time pass and things happen, decides a request, sends it; tells what was decided.
    pub(crate) fn route(&mut self, asked: &Asked, number: u64) -> String {
        let mut chance = Chance::of(3, number);
        self.now += Duration::from_millis(asked.after_ms);
        self.progress();
        if self.happen(&mut chance) {
            self.version += 1;
            self.fleet = Fleet::new(self.version, self.pods.iter().flatten().cloned());
        }
        let (why, without) = self.excluded(&mut chance);
        let decided = match self.decide(asked, without) {
            Ok(()) => {
                let second = chance.percent(8);
                self.send(asked, second, &mut chance);
                format!("{}{}", plan(&self.plan, &self.fleet), if second { " *2" } else { "" })
            }
            Err(problem) => error(&problem),
        };
        if why.is_empty() { decided } else { format!("{why}, {decided}") }
    }

    /// What pods hold and have to do in the end: what recorders and guards left behind.
    pub(crate) fn state(&self) -> String {
        let pods = self.pods.iter().flatten().map(|info| {
            let blocks = self.state.index.pod_stats(info.pod).map_or(0, |stats| stats.blocks);
            let load = self.state.load.in_flight(info.pod.id());
            format!("{} {blocks} blocks {} requests {} tokens", info.name, load.requests, load.tokens())
        });
        let pods: Vec<String> = pods.collect();
        format!("{}; {} without tokens", pods.join(", "), self.state.tokenize_failures.load(Ordering::Relaxed))
    }

    /// First tokens come, pods say what they cached, answers end.
    fn progress(&mut self) {
        let now = self.now;
        for running in &mut self.running {
            if running.first_token.is_some_and(|at| at <= now) {
                running.first_token = None;
                for guard in &mut running.guards {
                    guard.first_token();
                    let (pod, stored) = (guard.pod(), Event::Stored(Stored::prompt(&running.chain)));
                    if running.reported && self.state.index.apply(pod, EventSemantics::Membership, &stored).is_ok() {
                        self.stored.push((pod, running.chain.clone()));
                    }
                }
            } else if running.first_token.is_none() {
                let left = running.done.saturating_duration_since(now).as_millis() as u64;
                running.guards.iter_mut().for_each(|guard| guard.generated(500_u64.saturating_sub(left / 20)));
            }
        }
        self.running.retain(|running| running.done > now);
        self.stored.drain(..self.stored.len().saturating_sub(REMEMBERED));
    }

    /// Anything that may happen to pods; true if the fleet is another now.
    fn happen(&mut self, chance: &mut Chance) -> bool {
        let place = chance.below(PODS);
        if chance.percent(15) && !self.stored.is_empty() {
            let (pod, chain) = self.stored.swap_remove(chance.below(self.stored.len()));
            let kept = chance.one_of(&[0, chain.len() / 2]);
            // A pod that left meanwhile has nothing to evict.
            let _ =
                self.state.index.apply(pod, EventSemantics::Membership, &Event::Removed(Removed::new(&chain[kept..])));
        }
        let mut changed = self.come_or_go(place, chance);
        let Some(info) = &mut self.pods[place] else { return changed };
        // What is wrong with a pod does not last.
        if chance.percent(if info.healthy { 8 } else { 50 }) {
            (info.healthy, changed) = (!info.healthy, true);
        }
        if chance.percent(if info.draining { 20 } else { 2 }) {
            (info.draining, changed) = (!info.draining, true);
        }
        // Some hosts ask engines, others put what they say into the fleet; one pod says nothing.
        if chance.percent(50) && place != PODS - 1 {
            let most = chance.one_of(&[3, 12, 300]);
            let [running, waiting] = [most, most / 2].map(|most| chance.within(0, most) as u32);
            let tokens = u64::from(running + waiting) * 900;
            let load = Load { running, waiting, tokens, kv_used: chance.within(0, 100) as f32 / 100.0 };
            if place % 3 == 0 {
                (info.load, changed) = (load, true);
            } else {
                let at = self.now - Duration::from_millis(chance.within(0, 90));
                self.state.load.report(info.pod, load, at);
            }
        }
        let breakers = &self.state.open_breakers;
        match chance.below(16) {
            0 => breakers.open(info.pod.id()),
            1..4 => breakers.opened().iter().for_each(|pod| breakers.close(pod)),
            _ => {}
        }
        changed
    }

    fn come_or_go(&mut self, place: usize, chance: &mut Chance) -> bool {
        let Some(info) = &self.pods[place] else {
            self.pods[place] = Some(born(&self.state, place, self.version));
            return true;
        };
        let goes = chance.percent(6);
        if goes {
            self.state.index.retire(info.pod);
            self.state.open_breakers.close(info.pod.id());
            self.pods[place] = None;
            if chance.percent(70) {
                // Its id is free for the next one.
                while self.state.index.sweep(1_000).pending > 0 {}
            }
        }
        goes
    }

    /// Pods that may not be taken, and why.
    fn excluded(&self, chance: &mut Chance) -> (&'static str, PodSet) {
        let first = self.plan.steps().iter().filter_map(|step| step.candidates.first());
        match chance.below(40) {
            0 => ("without any", self.fleet.pods()),
            1 => ("without decode", self.fleet.serving(Role::Decode)),
            2 => ("without prefill", self.fleet.serving(Role::Prefill)),
            3 => ("without the healthy", self.fleet.healthy()),
            4..8 => ("without the last", first.map(|candidate| candidate.pod.id()).collect()),
            8 | 9 => ("without some", self.fleet.pods().iter().filter(|_| chance.percent(60)).collect()),
            _ => ("", PodSet::EMPTY),
        }
    }

    fn decide(&mut self, asked: &Asked, without: PodSet) -> Result<(), DecideError> {
        let headers: &[(&str, &str)] = &[("x-session-id", &asked.session)];
        let labels: Vec<_> = asked.zone.iter().map(|zone| ("zone", *zone)).collect();
        let mut request = Request::new(MODEL, self.now).most_output(asked.output);
        request = if asked.session.is_empty() { request } else { request.headers(&headers) };
        request = asked.tokens.iter().fold(request, |request, tokens| request.tokens(tokens));
        request = asked.adapter.iter().fold(request, |request, adapter| request.adapter(adapter));
        let request = request.body(asked.body.as_bytes()).labels(&labels).priority(asked.priority).seed(asked.seed);
        self.workflow.decide(
            &mut self.workspace,
            RoutingInput::new(&request, &self.fleet).excluding(without),
            &mut self.plan,
        )
    }

    /// Sends the request to the first pod of each step, or to the second if the first refused it.
    fn send(&mut self, asked: &Asked, second: bool, chance: &mut Chance) {
        let tokens = asked.tokens.as_deref().unwrap_or_default();
        let guards = self.plan.steps().iter().map(|step| {
            let to = step.candidates.get(usize::from(second)).unwrap_or(&step.candidates[0]);
            let held = if second { 0 } else { step.cache.map_or(0, |cache| cache.held) };
            let work = Work::of(tokens.len() as u64).held_blocks(held, block_size()).output(u64::from(asked.output));
            self.state.load.begin(to.pod, work)
        });
        let guards = guards.collect();
        let seed = asked.adapter.iter().fold(ChainSeed::new(MODEL), |seed, adapter| seed.adapter(adapter));
        let first = self.now + Duration::from_micros(50_000 + tokens.len() as u64 * 200);
        self.running.push(Running {
            guards,
            chain: ChainHasher::new(seed, block_size()).hash(tokens),
            reported: chance.percent(85),
            first_token: Some(first),
            done: first + Duration::from_millis(chance.within(200, 30_000)),
        });
    }
}

/// A pod of a place: what it is stays the same, its name tells when it came.
fn born(state: &PluginState, place: usize, version: u64) -> PodInfo {
    let name = if version == 0 { format!("p{place}") } else { format!("p{place}v{version}") };
    let role = [Role::Both, Role::Prefill, Role::Decode, Role::Both, Role::Decode][place % 5];
    let info = PodInfo::new(state.index.join(&name).expect("room"), &name).role(role);
    let info = info.label("zone", ["a", "b", "c"][place % 3]).label("host", &format!("h{}", place / 2));
    let info = if place % 4 == 1 { info.adapter("poet").adapter_slots(1) } else { info.adapter_slots(2) };
    let info = if place % 4 == 2 { info.adapter("coder").adapter_waiting("poet") } else { info };
    let info = if place % 3 == 1 { info.context_tokens(4_000).kv_tokens(60_000) } else { info };
    if place == 7 { info.draining() } else { info }
}
