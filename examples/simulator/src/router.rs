//! The router under test: the real index, workflow and load tracker, fed by the events and load reports of modelled pods.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::{BlockHash, BlockSize, Config, Event, EventSemantics, Index, Parent, Pod, Removed, Stored, Tier};
use pointsman_engine_sim::scheduler::{BlockEvent, EngineConfig, Scheduler};
use pointsman_lab::SplitMix64;
use routing_core::flow::{FlowControl, Room, Wanted};
use routing_core::{
    DecideError, Fleet, Headers, Load, PodInfo, ProgramTurn, Request, Role, RoutingInput, RoutingPlan, Workflow,
    Workspace,
};
use routing_plugins::load::{LoadGuard, LoadTracker, PodLoad, Work};
use routing_plugins::peers::{GatewayId, PeerSummary, SummaryScope};
use routing_plugins::program::{Pause, Programs};
use routing_plugins::{AnswerKey, AnswerLengths, DecodeSample, Hashing, PaceSample, PluginState, PodPaces};

use crate::SimulateError;
use crate::chains::Chains;
use crate::config::SimConfig;
use crate::policy::Policy;

/// The router and its view of the fleet.
#[derive(Debug)]
pub(crate) struct Router {
    index: Arc<Index>,
    state: PluginState,
    id: GatewayId,
    load: Arc<LoadTracker>,
    queued: Arc<LoadTracker>,
    paces: Arc<PodPaces>,
    lengths: Arc<AnswerLengths>,
    programs: Arc<Programs>,
    workflow: Workflow,
    workspace: Workspace,
    plan: RoutingPlan,
    fleet: Arc<Fleet>,
    /// Those of the pods that may get requests.
    members: Vec<PodInfo>,
    flow_control: Option<Arc<FlowControl>>,
    pods: Vec<Pod>,
    block: BlockSize,
    /// Virtual time begins here.
    origin: Instant,
    /// Prompts as tokens, as far as anybody looks at them: how many, and the first few.
    tokens: Vec<u32>,
    rng: SplitMix64,
    delay: u64,
    loss: f64,
    /// What other gateways told and is under way, the oldest first.
    told: VecDeque<(u64, Arc<PeerSummary>)>,
    /// Events under way, the oldest first.
    coming: VecDeque<(u64, usize, BlockEvent)>,
    reported: Option<u64>,
    report_every: u64,
    pub(crate) decisions: u64,
    pub(crate) decision_ns: u64,
}

/// The pods chosen for a request.
#[derive(Debug)]
pub(crate) struct RouteDecision {
    /// The pod that prefills alone, if there is one.
    pub(crate) prefill: Option<usize>,
    /// The pod that answers.
    pub(crate) serve: usize,
    /// The request's shares of their load.
    pub(crate) prefill_guard: Option<LoadGuard>,
    pub(crate) guard: LoadGuard,
    /// What was expected of its first token, where that is learned.
    pub(crate) sample: Option<PaceSample>,
    /// The program that it is a turn of, where that is told.
    pub(crate) turn: Option<ProgramTurn>,
    /// Leading blocks that the pod which answers is known to hold.
    pub(crate) held: usize,
}

/// A request to decide about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DecisionRequest<'t> {
    pub(crate) chain: &'t [BlockHash],
    pub(crate) prompt: u32,
    pub(crate) session: u32,
    pub(crate) seed: u64,
}

impl Router {
    /// A gateway's router, by the gateway's number.
    pub(crate) fn new(
        policy: &Policy,
        config: &SimConfig,
        longest: u32,
        gateway: usize,
    ) -> Result<Self, SimulateError> {
        let index = Arc::new(Index::new(Config::default()));
        let block = config
            .pods
            .first()
            .and_then(|(pod, _)| BlockSize::new(u32::try_from(pod.block_tokens).ok()?))
            .ok_or(SimulateError::NoPods)?;
        let pods = (0..config.pods.len()).map(|at| index.join(&format!("pod-{at}"))).collect::<Result<Vec<_>, _>>()?;
        let members: Vec<PodInfo> = pods.iter().zip(&config.pods).map(|(&pod, engine)| info(pod, *engine)).collect();
        let fleet = Arc::new(Fleet::new(1, members.iter().cloned()));
        let mut state = PluginState::new(Arc::clone(&index), Hashing::Given(block));
        if let Some(blocks) = std::num::NonZeroUsize::new(config.pods[0].0.blocks) {
            state = state.predicting(blocks);
        }
        let workflow = policy.build(&state)?;
        let flow_control = config.flow.as_ref().map(|document| document.build(&state)).transpose();
        let flow_control = flow_control.map_err(|error| SimulateError::flag("flow", error.to_string()))?;
        Ok(Self {
            flow_control: flow_control.map(Arc::new),
            load: Arc::clone(&state.load),
            queued: Arc::clone(&state.queued),
            paces: Arc::clone(&state.paces),
            lengths: Arc::clone(&state.answer_lengths),
            programs: Arc::clone(&state.programs),
            workspace: workflow.workspace(),
            workflow,
            plan: RoutingPlan::default(),
            index,
            id: GatewayId::new(gateway as u64),
            told: VecDeque::new(),
            state,
            fleet,
            members,
            pods,
            block,
            origin: Instant::now(),
            tokens: vec![0; longest as usize],
            rng: SplitMix64::new(config.seed ^ 0x0E7E_4175),
            delay: config.event_delay_us,
            loss: config.event_loss,
            coming: VecDeque::new(),
            reported: None,
            report_every: policy.report_every_us(config.report_every_us).max(1),
            decisions: 0,
            decision_ns: 0,
        })
    }

    /// Queues cache events of a pod, which arrive after the delay or are lost.
    pub(crate) fn changed(&mut self, now: u64, pod: usize, changes: &[BlockEvent]) {
        for change in changes {
            let lost = self.loss > 0.0 && (self.rng.next_u64() as f64 / u64::MAX as f64) < self.loss;
            if !lost {
                self.coming.push_back((now + self.delay, pod, change.clone()));
            }
        }
    }

    /// What the other gateways are to be told now.
    pub(crate) fn tell(&self, scope: SummaryScope, now: u64) -> Option<Arc<PeerSummary>> {
        self.state.tell_peers(self.id, scope, self.at(now)).map(Arc::new)
    }

    /// Queues what another gateway told, which arrives after the delay of events.
    pub(crate) fn told(&mut self, now: u64, summary: Arc<PeerSummary>) {
        self.told.push_back((now + self.delay, summary));
    }

    /// Applies the events, load reports and summaries of other gateways that are due.
    pub(crate) fn catch_up(&mut self, now: u64, chains: &Chains, engines: &[Scheduler]) {
        while self.coming.front().is_some_and(|(due, ..)| *due <= now) {
            if let Some((_, pod, change)) = self.coming.pop_front() {
                self.apply(pod, &change, chains);
            }
        }
        while self.told.front().is_some_and(|(due, _)| *due <= now) {
            if let Some((due, summary)) = self.told.pop_front() {
                // One that came late is of no use any more; here none does.
                let _ = self.state.hear_peer(self.id, &summary, self.at(due));
            }
        }
        if self.reported.is_none_or(|last| now >= last + self.report_every) {
            self.reported = Some(now - now % self.report_every);
            for (&pod, engine) in self.pods.iter().zip(engines) {
                let (running, waiting) = engine.requests();
                let load =
                    Load { running: running as u32, waiting: waiting as u32, tokens: 0, kv_used: engine.kv_usage() };
                self.load.report_beside(pod, load, self.queued.in_flight(pod.id()), self.at(now));
            }
        }
    }

    /// A pod gets no more requests, and one with an empty cache comes; false if the index has no place for it.
    pub(crate) fn replace(&mut self, old: usize, new: (EngineConfig, Role)) -> bool {
        let Ok(pod) = self.index.join(&format!("pod-{}", self.pods.len())) else { return false };
        self.index.retire(self.pods[old]);
        while self.index.sweep(1 << 16).pending > 0 {}
        self.members.retain(|member| member.pod != self.pods[old]);
        self.members.push(info(pod, new));
        self.pods.push(pod);
        self.fleet = Arc::new(Fleet::new(self.pods.len() as u64, self.members.iter().cloned()));
        true
    }

    /// What a pod has to do, as the router knows it.
    pub(crate) fn pod_load(&self, now: u64, pod: usize) -> PodLoad {
        self.load.load_of(self.pods[pod], Load::default(), self.at(now), Duration::from_secs(10))
    }

    /// Counts a request on a pod that was not decided about.
    pub(crate) fn begin(&self, pod: usize, work: Work) -> LoadGuard {
        self.load.begin(self.pods[pod], work)
    }

    /// Counts a request that waits on the pod that it was decided for.
    pub(crate) fn wait_for(&self, wanted: Wanted, prompt: u32) -> [LoadGuard; 2] {
        let work = Work::of(prompt.into()).held_blocks(wanted.held, self.block).output(self.expected_answer(prompt));
        [&self.load, &self.queued].map(|tracker| tracker.begin(wanted.pod, work))
    }

    /// A first token came, so many µs after the decision.
    pub(crate) fn first_token(&self, sample: PaceSample, took: u64, now: u64) {
        self.paces.first_token(sample, Duration::from_micros(took), self.at(now));
    }

    /// Its pod as it is when that comes, or when its answer ends.
    pub(crate) fn decode_sample(&self, sample: PaceSample, pod: usize, now: u64) -> DecodeSample {
        self.paces.decode_sample(sample, &self.load_of(pod, now))
    }

    /// An answer of so many tokens ended, so many µs after its first.
    pub(crate) fn decoded(&self, [began, ended]: [DecodeSample; 2], (tokens, took): (u64, u64), now: u64) {
        self.paces.decoded(began, ended, tokens, Duration::from_micros(took), self.at(now));
    }

    fn load_of(&self, pod: usize, now: u64) -> PodLoad {
        let pod = self.pods[pod];
        self.load.load_of(pod, self.fleet.load(pod.id()), self.at(now), Duration::MAX)
    }

    /// Tokens that the answer to such a prompt is expected to have: nobody is told how many.
    pub(crate) fn expected_answer(&self, prompt: u32) -> u64 {
        self.lengths.expected(self.answer_key(prompt)).round() as u64
    }

    /// The answer to such a prompt has so many tokens.
    pub(crate) fn answered(&self, prompt: u32, tokens: u32) {
        self.lengths.learn(self.answer_key(prompt), tokens.into());
    }

    fn answer_key(&self, prompt: u32) -> AnswerKey {
        AnswerKey::of(&Request::new("model", self.origin), prompt.into())
    }

    /// A program's turn is over, and took so many tokens; none, if it was not served.
    pub(crate) fn end_turn(&self, turn: &ProgramTurn, tokens: u64, pause: Pause, now: u64) {
        let answer = (tokens > 0).then(|| tokens.saturating_sub(turn.tokens));
        self.programs.end_before(turn, answer, pause, self.at(now));
    }

    /// The pods' handles.
    pub(crate) fn handles(&self) -> &[Pod] {
        &self.pods
    }

    /// What has requests wait, if anything does.
    pub(crate) fn flow_control(&self) -> Option<Arc<FlowControl>> {
        self.flow_control.clone()
    }

    pub(crate) fn fleet(&self) -> Arc<Fleet> {
        Arc::clone(&self.fleet)
    }

    /// When virtual time begins.
    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    /// Decides, if a pod may have it; among those that have room, where that is asked for.
    pub(crate) fn decide(
        &mut self,
        now: u64,
        asked: DecisionRequest<'_>,
        room: Option<&Room<'_>>,
    ) -> Result<RouteDecision, DecideError> {
        let first: u64 =
            asked.chain.iter().take(2).fold(u64::from(asked.prompt), |mix, hash| mix.rotate_left(7) ^ hash.get());
        let tokens = &mut self.tokens[..asked.prompt as usize];
        for (at, token) in tokens.iter_mut().take(FIRST_TOKENS).enumerate() {
            *token = (first >> (at % 8 * 8)) as u32 & 0xFFFF;
        }
        let session = SessionHeader(asked.session.to_string());
        let request = Request::new("model", self.origin + Duration::from_micros(now))
            .tokens(&self.tokens[..asked.prompt as usize])
            .hashes(asked.chain)
            .headers(&session)
            .seed(asked.seed);
        let began = Instant::now();
        let mut input = RoutingInput::new(&request, &self.fleet);
        let has_room = |step: &_| room.is_none_or(|room| room.admits(step));
        if room.is_some() {
            input = input.with_room(&has_room);
        }
        let decided = self.workflow.decide(&mut self.workspace, input, &mut self.plan);
        self.decision_ns += began.elapsed().as_nanos() as u64;
        self.decisions += 1;
        decided?;
        self.chosen(request.now, &asked).ok_or(DecideError::NoStepTaken)
    }

    /// What the plan says, counted towards the pods' load.
    fn chosen(&self, now: Instant, asked: &DecisionRequest<'_>) -> Option<RouteDecision> {
        let steps = self.plan.steps();
        let last = steps.last()?;
        let work = Work::of(asked.prompt.into());
        let held = last.cache.map_or(0, |hint| hint.held);
        let serve = last.candidates.first()?.pod;
        let ahead = (steps.len() > 1).then(|| &steps[0]).filter(|step| step.role == Role::Prefill);
        // One pod for both simply serves: nothing has to travel.
        let prefill = ahead
            .and_then(|step| Some((step.candidates.first()?.pod, step.cache.map_or(0, |hint| hint.held))))
            .filter(|(pod, _)| *pod != serve);
        let (prefill_guard, own) = match prefill {
            Some((pod, held)) => (Some(self.load.begin(pod, work.held_blocks(held, self.block))), work.held(u64::MAX)),
            None => (None, work.held_blocks(held, self.block)),
        };
        let guard = self.load.begin(serve, own.output(self.expected_answer(asked.prompt)));
        let at = |pod: Pod| self.pods.iter().position(|&known| known == pod);
        Some(RouteDecision {
            prefill: prefill.and_then(|(pod, _)| at(pod)),
            serve: at(serve)?,
            prefill_guard,
            guard,
            sample: self.paces.sample(serve, now),
            turn: last.program,
            held,
        })
    }

    fn apply(&self, pod: usize, change: &BlockEvent, chains: &Chains) {
        let tell = |event: &Event<'_>| {
            // What a pod says that was replaced is nobody's concern.
            let _ = self.index.apply(self.pods[pod], EventSemantics::Membership, event);
        };
        match change {
            BlockEvent::Stored { request, from, to } => {
                let (chain, from) = (chains.get(*request), *from as usize);
                let parent = from.checked_sub(1).map_or(Parent::Root, |before| Parent::Block(chain[before]));
                tell(&Event::Stored(Stored::new(parent, &chain[from..*to as usize])));
            }
            BlockEvent::Offloaded(hashes) => {
                for hash in hashes {
                    tell(&Event::Stored(Stored::new(Parent::Unknown, std::slice::from_ref(hash)).in_tier(Tier::Host)));
                }
            }
            BlockEvent::Removed(hashes, tier) => tell(&Event::Removed(Removed { tier: *tier, ..Removed::new(hashes) })),
        }
    }

    fn at(&self, now: u64) -> Instant {
        self.origin + Duration::from_micros(now)
    }
}

fn info(pod: Pod, (engine, role): (EngineConfig, Role)) -> PodInfo {
    let tokens = (engine.blocks * engine.block_tokens) as u64;
    PodInfo::new(pod, &format!("pod-{pod:?}")).role(role).kv_tokens(tokens)
}

/// A session's name in the header that gateways look into.
struct SessionHeader(String);

impl Headers for SessionHeader {
    fn header(&self, name: &str) -> Option<&[u8]> {
        name.eq_ignore_ascii_case("x-session-id").then_some(self.0.as_bytes())
    }
}

/// Tokens that differ from prompt to prompt: more than any plugin looks at.
const FIRST_TOKENS: usize = 64;
