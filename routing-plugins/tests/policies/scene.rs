//! Pods that hold so much of one prompt and have so much to do, and a gateway that routes the prompt by a document.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use kv_index::{BlockHash, BlockSize, Config, Event, EventSemantics, Index, Stored};
use proptest::prelude::*;
use routing_core::{Fleet, Load, PodInfo, Registry, Request, RoutingInput, RoutingPlan, Workflow, Workspace};
use routing_plugins::load::{LoadGuard, Work};
use routing_plugins::{Hashing, PluginState, register};

pub(crate) const BLOCK: u64 = 512;
pub(crate) const BLOCKS: u64 = 20;
/// Of the prompt: its blocks, and a bit.
pub(crate) const TOKENS: u64 = BLOCKS * BLOCK + 100;

/// A pod, as a test makes it up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pod {
    /// Leading blocks of the prompt that it holds.
    pub(crate) held: u64,
    /// What was sent to it.
    pub(crate) sent: Vec<Sent>,
    /// Requests that it reports to have from elsewhere, waiting.
    pub(crate) waiting: u32,
    /// How much of its KV cache it reports to use.
    pub(crate) kv_used: f32,
}

/// A request that is on a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) work: Work,
    /// Whether its first token came.
    pub(crate) decoding: bool,
}

impl Pod {
    pub(crate) fn requests(&self) -> f64 {
        self.sent.len() as f64 + f64::from(self.waiting)
    }

    /// Tokens of the prompt that it lacks.
    pub(crate) fn lacks(&self) -> f64 {
        (TOKENS - self.held * BLOCK) as f64
    }

    /// Tokens that it has to compute for others.
    pub(crate) fn queued(&self) -> f64 {
        self.sum(|sent| if sent.decoding { 0 } else { sent.work.uncached_tokens })
    }

    pub(crate) fn prompts(&self) -> f64 {
        self.sum(|sent| sent.work.prompt_tokens)
    }

    pub(crate) fn outputs(&self) -> f64 {
        self.sum(|sent| sent.work.output_tokens)
    }

    fn sum(&self, of: impl Fn(&Sent) -> u64) -> f64 {
        self.sent.iter().map(of).sum::<u64>() as f64
    }
}

/// Two to six pods of any kind.
pub(crate) fn pods() -> impl Strategy<Value = Vec<Pod>> {
    let sent = (1..40_000u64, 0.0..1.0f64, 0..2_000u64, any::<bool>()).prop_map(|(prompt, share, output, decoding)| {
        let held = (prompt as f64 * share) as u64;
        Sent { work: Work::of(prompt).held(held).output(output), decoding }
    });
    let held = prop_oneof![Just(0), Just(BLOCKS), 0..=BLOCKS];
    let sent = prop::collection::vec(sent, 0..5);
    let waiting = prop_oneof![3 => 0..10u32, 1 => 0..200u32];
    let pod = (held, sent, waiting, 0.0..1.0f32);
    let pod = pod.prop_map(|(held, sent, waiting, kv_used)| Pod { held, sent, waiting, kv_used });
    prop::collection::vec(pod, 2..=6)
}

/// Pods, and a gateway.
pub(crate) struct Scene {
    pub(crate) state: PluginState,
    pub(crate) now: Instant,
    workflow: Workflow,
    workspace: Workspace,
    infos: Vec<PodInfo>,
    guards: Vec<LoadGuard>,
    prompt: Vec<BlockHash>,
    tokens: Vec<u32>,
}

impl Scene {
    #[expect(clippy::disallowed_methods, reason = "a scene is at some instant; which one does not matter")]
    pub(crate) fn new(policy: &str, pods: &[Pod]) -> Self {
        let (state, now) = (state(), Instant::now());
        let workflow = build(policy, &state);
        let prompt: Vec<_> = (1..=BLOCKS).map(BlockHash::new).collect();
        let mut scene = Self {
            workspace: workflow.workspace(),
            workflow,
            state,
            now,
            infos: Vec::new(),
            guards: Vec::new(),
            prompt,
            tokens: vec![0; TOKENS as usize],
        };
        pods.iter().for_each(|pod| scene.enter(pod));
        scene
    }

    fn enter(&mut self, made_up: &Pod) {
        let name = format!("pod-{}", self.infos.len());
        let pod = self.state.index.join(&name).expect("room");
        if made_up.held > 0 {
            let stored = Event::Stored(Stored::prompt(&self.prompt[..made_up.held as usize]));
            self.state.index.apply(pod, EventSemantics::Membership, &stored).expect("it is alive");
        }
        for sent in &made_up.sent {
            let mut guard = self.state.load.begin(pod, sent.work);
            if sent.decoding {
                guard.first_token();
            }
            self.guards.push(guard);
        }
        let (running, waiting) = (made_up.sent.len() as u32, made_up.waiting);
        let load = Load { running, waiting, tokens: 0, kv_used: made_up.kv_used };
        assert!(self.state.load.report(pod, load, self.now));
        self.infos.push(PodInfo::new(pod, &name));
    }

    /// The pod that the prompt goes to.
    pub(crate) fn decide(&mut self, seed: u64) -> usize {
        self.decide_as(seed, "")
    }

    /// The same of a session.
    pub(crate) fn decide_as(&mut self, seed: u64, session: &str) -> usize {
        let headers: &[(&str, &str)] = &[("x-session-id", session)];
        let request = Request::new("m", self.now).tokens(&self.tokens).hashes(&self.prompt).headers(&headers);
        let fleet = Fleet::new(1, self.infos.iter().cloned());
        let mut plan = RoutingPlan::default();
        self.workflow
            .decide(&mut self.workspace, RoutingInput::new(&request.seed(seed), &fleet), &mut plan)
            .expect("a plan");
        plan.steps()[0].candidates[0].pod.id().index()
    }

    /// More is sent to a pod.
    pub(crate) fn send(&mut self, pod: usize, work: Work) {
        self.guards.push(self.state.load.begin(self.infos[pod].pod, work));
    }
}

/// Whether a policy sends the prompt where the cost is least, as near as its scores tell costs apart.
pub(crate) fn cheapest(policy: &str, pods: &[Pod], cost: impl Fn(&Pod) -> f64) -> Result<(), TestCaseError> {
    let costs: Vec<f64> = pods.iter().map(cost).collect();
    let (least, most) = costs.iter().fold((f64::MAX, f64::MIN), |(l, m), cost| (l.min(*cost), m.max(*cost)));
    let mut scene = Scene::new(policy, pods);
    for seed in 0..3 {
        let chosen = scene.decide(seed);
        prop_assert!(costs[chosen] <= least + 1e-6 * (most - least), "pod {chosen} of {costs:?}");
    }
    Ok(())
}

/// What documents are built over: hashes come with the request, in blocks of 512 tokens.
pub(crate) fn state() -> PluginState {
    let size = BlockSize::new(BLOCK as u32).expect("not zero");
    PluginState::new(Arc::new(Index::new(Config::default())), Hashing::Given(size))
}

pub(crate) fn build(name: &str, state: &PluginState) -> Workflow {
    let mut registry = Registry::new();
    register(&mut registry, state).expect("nothing else is registered");
    let text = document(name);
    let document = registry.read(serde_yaml_ng::Deserializer::from_str(&text));
    let document = document.unwrap_or_else(|error| panic!("{name}: {error}"));
    document.build(&registry).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) fn document(name: &str) -> String {
    let path = folder().join(format!("{name}.yaml"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/simulator/policies")
}
