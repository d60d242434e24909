//! A small simulated fleet: pods that cache what they compute, report it, evict it and die.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::{
    BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Event, EventSemantics, Index, Pod, Removed, Stored,
};
use routing_core::{
    DecideError, Fleet, PlanStep, PodInfo, PodSet, Request, Role, RoutingInput, RoutingPlan, Workflow, Workspace,
};
use routing_plugins::load::{LoadGuard, Work};
use routing_plugins::{Hashing, PluginState};

const BLOCK: u32 = 16;

/// A fleet, and a gateway that routes by a workflow.
pub(crate) struct World {
    pub(crate) state: PluginState,
    pods: Vec<PodInfo>,
    version: u64,
    workflow: Workflow,
    workspace: Workspace,
    now: Instant,
    seed: u64,
}

/// A request that was sent.
pub(crate) struct Sent {
    pub(crate) plan: RoutingPlan,
    tokens: Vec<u32>,
    /// One for each step, let go with the request.
    _guards: Vec<LoadGuard>,
}

impl Sent {
    /// The pod that a step goes to.
    pub(crate) fn to(&self, step: &str) -> String {
        self.try_to(step).expect("the step was taken")
    }

    pub(crate) fn try_to(&self, step: &str) -> Option<String> {
        Some(format!("pod-{}", self.plan.step(step)?.candidates[0].pod.id().index()))
    }
}

/// What the pods of a world share with its gateway.
pub(crate) fn state() -> PluginState {
    let size = BlockSize::new(BLOCK).expect("not zero");
    PluginState::new(Arc::new(Index::new(Config::default())), Hashing::Native(size))
}

impl World {
    /// A world of so many pods, `pod-0` on, each as `info` makes it, routed by a workflow over its state.
    #[expect(clippy::disallowed_methods, reason = "a world begins at some instant; which one does not matter")]
    pub(crate) fn new(
        state: PluginState,
        pods: usize,
        info: impl Fn(usize, PodInfo) -> PodInfo,
        workflow: Workflow,
    ) -> Self {
        let pods = (0..pods).map(|at| {
            let name = format!("pod-{at}");
            info(at, PodInfo::new(state.index.join(&name).expect("room"), &name))
        });
        let pods = pods.collect();
        let workspace = workflow.workspace();
        Self { state, pods, version: 1, workflow, workspace, now: Instant::now(), seed: 0 }
    }

    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    pub(crate) fn pod(&self, name: &str) -> Pod {
        self.pods.iter().find(|info| *info.name == *name).expect("a pod of the world").pod
    }

    /// Changes what is known of a pod.
    pub(crate) fn change(&mut self, name: &str, change: impl FnOnce(&mut PodInfo)) {
        change(self.pods.iter_mut().find(|info| *info.name == *name).expect("a pod of the world"));
        self.version += 1;
    }

    /// A pod dies: it leaves the fleet, and the index forgets it.
    pub(crate) fn die(&mut self, name: &str) {
        let pod = self.pod(name);
        self.pods.retain(|info| info.pod != pod);
        self.state.index.retire(pod);
        self.version += 1;
    }

    pub(crate) fn decide(&mut self, request: Request<'_>, without: &[&str]) -> Result<RoutingPlan, DecideError> {
        self.seed += 1;
        let fleet = Fleet::new(self.version, self.pods.iter().cloned());
        let request = request.seed(self.seed);
        let excluded: PodSet = without.iter().map(|name| self.pod(name).id()).collect();
        let mut plan = RoutingPlan::default();
        self.workflow.decide(
            &mut self.workspace,
            RoutingInput::new(&request, &fleet).excluding(excluded),
            &mut plan,
        )?;
        Ok(plan)
    }

    /// Routes a prompt and counts it on its pods until the guards are dropped.
    pub(crate) fn send(&mut self, tokens: &[u32]) -> Sent {
        self.send_as(tokens, "")
    }

    /// The same of a session.
    pub(crate) fn send_as(&mut self, tokens: &[u32], session: &str) -> Sent {
        let headers: &[(&str, &str)] = &[("x-session-id", session)];
        let request = Request::new("m", self.now).tokens(tokens).headers(&headers);
        let plan = self.decide(request, &[]).expect("somebody takes it");
        let guards = plan.steps().iter().map(|step| {
            let pod = step.candidates[0].pod;
            let prompt_tokens = tokens.len() as u64;
            let is_other = |before: &PlanStep| before.role == Role::Prefill && before.candidates[0].pod != pod;
            let held = match step.role {
                // Another pod computes it.
                Role::Decode if plan.steps().iter().any(is_other) => prompt_tokens,
                _ => step.cache.map_or(0, |cache| cache.held) as u64 * u64::from(BLOCK),
            };
            let work =
                Work { prompt_tokens, uncached_tokens: prompt_tokens - held.min(prompt_tokens), output_tokens: 64 };
            self.state.load.begin(pod, work)
        });
        let guards = guards.collect();
        Sent { plan, tokens: tokens.to_vec(), _guards: guards }
    }

    /// A request is done: its pods cached it and say so.
    pub(crate) fn done(&mut self, sent: Sent) {
        for step in sent.plan.steps() {
            self.store(step.candidates[0].pod, &sent.tokens);
        }
    }

    /// A pod reports that it cached a prompt.
    pub(crate) fn store(&self, pod: Pod, tokens: &[u32]) {
        let chain = chain(tokens);
        self.state
            .index
            .apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(&chain)))
            .expect("it is alive");
    }

    /// A pod reports that it evicted a prompt.
    pub(crate) fn evict(&self, pod: &str, tokens: &[u32]) {
        let chain = chain(tokens);
        let removed = Event::Removed(Removed::new(&chain));
        self.state.index.apply(self.pod(pod), EventSemantics::Membership, &removed).expect("it is alive");
    }
}

fn chain(tokens: &[u32]) -> Vec<BlockHash> {
    ChainHasher::new(ChainSeed::new("m"), BlockSize::new(BLOCK).expect("not zero")).hash(tokens)
}

/// A prompt of so many blocks that begins like no other of another number.
pub(crate) fn prompt(number: u32, blocks: u32) -> Vec<u32> {
    (0..blocks * BLOCK).map(|at| number.wrapping_mul(100_000) + at).collect()
}
