//! Stock routing profiles, in code and as documents under `profiles/`; the two decide alike.
//!
//! | profile | sends a request |
//! |---|---|
//! | [`round_robin`] | to each pod in its turn |
//! | [`least_load`] | to the pod with the fewest requests |
//! | [`consistent_hash`] | always to the same pod for a session or a prompt's beginning, within a bound on load |
//! | [`total_latency`] | where it adds the fewest seconds to all answers, its own and others'; begin with this |
//! | [`programs`] | the same, with agents' programs recognized: contexts go where they push nobody's out who will be back |
//! | [`first_token`] | where its first token is expected soonest, with a wait credit for what is held |
//! | [`cache_aware`] | where most of the prompt is held, unless that pod has too much more to do |
//! | [`cache_aware_sticky`] | the same, and a session stays where it is |
//! | [`sticky_least_loaded`] | to the least loaded of those that hold the prompt, or of all |
//! | [`approximate_prefix`] | where prompts that begin alike went before, by their text: for requests without tokens, pods without events |
//! | [`prefill_decode`] | to a prefill pod and then to a decode pod near it |
//! | [`prefill_decode_conditional`] | to one pod, or to another first for its prompt where that costs less |
//!
//! They are builders: take one as it is, or add to it. A request whose prompt has no tokens is routed as one with an empty
//! prompt, and counted in [`PluginState::tokenize_failures`].

use std::num::NonZeroU32;
use std::sync::Arc;

use kv_index::DEFAULT_POD_WORDS;
use routing_core::{
    BuildError, Declare, FailurePolicy, OnEmpty, ProfileBuilder, Role, StepBuilder, Workflow, WorkflowBuilder,
};

use crate::condition::{HandoffPaysCondition, HandoffPaysParameters};
use crate::filter::*;
use crate::parameters::{Fraction, Positive};
use crate::pick::{
    ConsistentHashParameters, ConsistentHashPicker, MaxScoreParameters, MaxScorePicker, RoundRobinParameters,
    RoundRobinPicker, SessionParameters, SessionPicker, Ties,
};
use crate::plugin_state::PluginState;
use crate::prepare::*;
use crate::program::{ProgramParameters, ProgramPreparer, ProgramRecorder};
use crate::record::{
    PredictRecorder, PrefillQueueParameters, PrefillQueueRecorder, SpeculateParameters, SpeculateRecorder,
};
use crate::score::{
    CacheAffinityParameters, CacheAffinityScorer, FirstTokenParameters, FirstTokenScorer, HandoffCostScorer,
    HandoffCostScorerParameters, KvUtilizationScorer, LeastLoadParameters, LeastLoadScorer, LoadForm,
    LocalityParameters, LocalityScorer, PrefillCostScorer, TotalLatencyParameters, TotalLatencyScorer,
};

/// The names of all stock profiles, the one to begin with first.
pub const NAMES: [&str; 12] = {
    let (all, mut names) = (<StockProfile>::ALL, [""; 12]);
    let mut at = 0;
    while at < names.len() {
        names[at] = all[at].name;
        at += 1;
    }
    names
};

/// A stock profile: in code, and as a document. The two decide alike.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StockProfile<const W: usize = DEFAULT_POD_WORDS> {
    /// Its name.
    pub name: &'static str,
    /// Builds it over the host's state.
    pub build: fn(&PluginState<W>) -> Result<Workflow<W>, BuildError>,
    /// The same as YAML.
    pub document: &'static str,
}

macro_rules! stock {
    ($($name:ident),* $(,)?) => {
        [$(StockProfile {
            name: stringify!($name),
            build: |state| $name(state).build().map(Workflow::from),
            document: include_str!(concat!("../profiles/", stringify!($name), ".yaml")),
        }),*]
    };
}

impl<const W: usize> StockProfile<W> {
    /// All of them, in the order of [`NAMES`].
    pub const ALL: [Self; 12] = stock![
        total_latency,
        programs,
        first_token,
        round_robin,
        least_load,
        consistent_hash,
        cache_aware,
        cache_aware_sticky,
        sticky_least_loaded,
        prefill_decode,
        prefill_decode_conditional,
        approximate_prefix,
    ];

    /// The one of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }
}

/// To each pod in its turn. The turns are the host's, and go on when the workflow is replaced.
pub fn round_robin<const W: usize>(state: &PluginState<W>) -> ProfileBuilder<W> {
    let turns = state.turns.table("turns");
    sound(ProfileBuilder::new("round_robin"), state)
        .picker("in_turn", |d: &mut Declare<'_>| RoundRobinPicker::declare(d, RoundRobinParameters::default(), turns))
}

/// To the pod with the fewest requests.
pub fn least_load<const W: usize>(state: &PluginState<W>) -> ProfileBuilder<W> {
    let profile = loads(ProfileBuilder::new("least_load"), state);
    let profile = sound(profile, state)
        .scorer("load", 1.0, |d: &mut Declare<'_>| LeastLoadScorer::<W>::declare(d, LeastLoadParameters::default()));
    best(profile)
}

/// Always to the same pod for a session, or else for the prompt's first 32 tokens or 128 bytes, all of it if it is shorter; no pod has more than a quarter above the mean, nor more
/// than 256 requests.
pub fn consistent_hash<const W: usize>(state: &PluginState<W>) -> ProfileBuilder<W> {
    let profile = loads(ProfileBuilder::new("consistent_hash"), state)
        .preparer("key", |d: &mut Declare<'_>| HashKeyPreparer::declare(d, HashKeyParameters::default()));
    sound(profile, state).filter("cap", OnEmpty::Fail, cap).picker("place", |d: &mut Declare<'_>| {
        ConsistentHashPicker::<W>::declare(d, ConsistentHashParameters::default())
    })
}

/// Where the first token is expected soonest, by what each pod holds, has queued and decodes. A prompt that a pod holds waits
/// there for a while rather than being computed again elsewhere ([`WaitCredit::MEASURED`](crate::score::WaitCredit::MEASURED)); requests that engines report as
/// waiting count, so that several gateways see each other's. How fast pods are is [measured](crate::CostModel) on one
/// kind of them; give a model of your own for others.
pub fn first_token<const W: usize>(state: &PluginState<W>) -> ProfileBuilder<W> {
    first_token_with(state, FirstTokenParameters::measured())
}

/// The same by figures of one's own: how fast pods are, for the scorer and the queues alike, and how long a prompt waits where
/// it is held.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use kv_index::{BlockSize, Config, Index};
/// use routing_plugins::score::FirstTokenParameters;
/// use routing_plugins::{CostModel, Hashing, PluginState, profiles};
///
/// let index: Arc<Index> = Arc::new(Index::new(Config::default()));
/// let state = PluginState::new(index, Hashing::Native(BlockSize::new(16).expect("not zero")));
/// let cost_model = CostModel::default(); // Fit your own from measurements.
/// let own = FirstTokenParameters::default().cost_model(cost_model);
/// profiles::first_token_with(&state, own).build()?;
/// # Ok::<(), routing_core::BuildError>(())
/// ```
pub fn first_token_with<const W: usize>(state: &PluginState<W>, parameters: FirstTokenParameters) -> ProfileBuilder<W> {
    let (queues, written) = (Arc::clone(&state.prefill_queues), Arc::clone(&state.prefill_queues));
    let profile = sound(prompt(ProfileBuilder::new("first_token"), state), state).scorer(
        "first",
        1.0,
        move |d: &mut Declare<'_>| FirstTokenScorer::declare(d, parameters, queues),
    );
    let (queued, paces) =
        (PrefillQueueParameters::default().cost_model(parameters.cost_model), Arc::clone(&state.paces));
    best(profile).recorder("queue", move |d: &mut Declare<'_>| PrefillQueueRecorder::declare(d, queued, written, paces))
}

/// Where the request adds the fewest seconds to all answers: its own, and those of requests that wait or decode on the pod, by what
/// it holds, has queued and decodes ([`TotalLatencyScorer`] has the formula). What is sent is entered at once, so that a crowd on
/// a new prompt meets where the first of it went. The one to begin with: `docs/routing-quality.md` holds it against all others. How
/// fast pods are is [measured](crate::CostModel::FUSED) on one kind of them, and how much slower or faster each of yours is, is
/// [learned](crate::PodPaces).
pub fn total_latency<const W: usize>(state: &PluginState<W>) -> ProfileBuilder<W> {
    total_latency_with(state, TotalLatencyParameters::default())
}

/// The same by figures of one's own: how fast pods are, for the scorer and the queues alike, and what counts how much.
pub fn total_latency_with<const W: usize>(
    state: &PluginState<W>,
    parameters: TotalLatencyParameters,
) -> ProfileBuilder<W> {
    by_total_latency(prompt(ProfileBuilder::new("total_latency"), state), state, parameters)
}

/// As [`total_latency`], with agents' [programs](crate::program) recognized by a key or by their prompts: a context goes where it pushes nobody's
/// out who will be back, as far as pods' [caches](routing_core::PodInfo::kv_tokens) are known. Beside [flow control](crate::flow) with a
/// [`WorkingSetDetector`](crate::flow::WorkingSetDetector), programs whose contexts fit nowhere wait until they do: `docs/programs.md`.
pub fn programs<const W: usize>(state: &PluginState<W>) -> ProfileBuilder<W> {
    let (found, entered, paces) = (Arc::clone(&state.programs), Arc::clone(&state.programs), Arc::clone(&state.paces));
    let profile = prompt(ProfileBuilder::new("programs"), state)
        .preparer("program", |d: &mut Declare<'_>| ProgramPreparer::declare(d, ProgramParameters::default(), found));
    by_total_latency(profile, state, TotalLatencyParameters::default())
        .recorder("turn", |d: &mut Declare<'_>| ProgramRecorder::declare(d, entered, paces))
}

fn by_total_latency<const W: usize>(
    profile: ProfileBuilder<W>,
    state: &PluginState<W>,
    parameters: TotalLatencyParameters,
) -> ProfileBuilder<W> {
    let read = state.clone();
    let profile = sound(profile, state)
        .scorer("total", 1.0, move |d: &mut Declare<'_>| TotalLatencyScorer::declare(d, parameters, &read));
    let queue = PrefillQueueParameters::default().cost_model(parameters.cost_model).learns(parameters.learns);
    queued_and_entered(best(profile), state, queue, SpeculateParameters::default())
}

/// Where most of the prompt is held, unless that pod has so much more to do that computing it elsewhere is better: a whole
/// prompt weighs as much as 24 requests.
pub fn cache_aware<const W: usize>(state: &PluginState<W>) -> ProfileBuilder<W> {
    best(by_cache(sound(prompt(ProfileBuilder::new("cache_aware"), state), state)))
}

/// As [`cache_aware`], but a session stays where it began until its pod is gone, refused, or has 256 requests.
pub fn cache_aware_sticky<const W: usize>(state: &PluginState<W>) -> ProfileBuilder<W> {
    let profile = prompt(ProfileBuilder::new("cache_aware_sticky"), state)
        .preparer("session", |d: &mut Declare<'_>| SessionKeyPreparer::declare(d, SessionKeyParameters::default()));
    let sessions = state.sessions.table("sessions");
    by_cache(sound(profile, state).filter("cap", OnEmpty::KeepPrevious, cap))
        .picker("sticky", |d: &mut Declare<'_>| SessionPicker::declare(d, SessionParameters::default(), sessions))
}

/// A prompt of which some pods hold half goes to the least loaded of them; a new one to the least loaded of all, where it
/// is entered at once, so that a burst of the same new prompt lands on one pod. Those of the burst that are decided before
/// the first is entered agree where pods are equally loaded, since ties are drawn from the prompt.
pub fn sticky_least_loaded<const W: usize>(state: &PluginState<W>) -> ProfileBuilder<W> {
    let share = Fraction::new(0.5).unwrap_or(Fraction::ONE);
    let (index, peers) = (Arc::clone(&state.index), Arc::clone(&state.peers));
    let profile = sound(prompt(ProfileBuilder::new("sticky_least_loaded"), state), state)
        .filter("holders", OnEmpty::KeepPrevious, move |d: &mut Declare<'_>| {
            AffinityFilter::<W>::declare(d, AffinityParameters { share, ..AffinityParameters::default() })
        })
        .scorer("load", 1.0, |d: &mut Declare<'_>| LeastLoadScorer::<W>::declare(d, LeastLoadParameters::default()));
    let ties = MaxScoreParameters { ties: Ties::ByPrompt, ..MaxScoreParameters::default() };
    profile
        .picker("best", move |d: &mut Declare<'_>| MaxScorePicker::declare(d, ties))
        .recorder("enter", |d: &mut Declare<'_>| {
            SpeculateRecorder::declare(d, SpeculateParameters::default(), index).telling(peers)
        })
}

/// Where prompts that begin alike went before, unless that pod has too much more to do; for gateways without a tokenizer, and
/// for pods that report no events. Prompts are compared by their text, and a pod is taken to hold what it was sent, up to
/// [what it has room for](PluginState::predicting). The index must not be fed events of the same pods.
pub fn approximate_prefix<const W: usize>(state: &PluginState<W>) -> ProfileBuilder<W> {
    let PluginState { index, predicted_blocks, .. } = state.clone();
    let entered = Arc::clone(&index);
    let profile = ProfileBuilder::new("approximate_prefix")
        .preparer("text", |d: &mut Declare<'_>| TextBlockPreparer::declare(d, TextBlockParameters::default()))
        .preparer("held", |d: &mut Declare<'_>| PrefixMatchPreparer::declare(d, index));
    best(by_cache(sound(loads(profile, state), state)))
        .recorder("enter", |d: &mut Declare<'_>| PredictRecorder::declare(d, entered, predicted_blocks))
}

/// Prefill where most is held and least is to be computed; decode near that pod, where there is room. Where no prefill pod
/// does, the decode pod prefills alone.
pub fn prefill_decode<const W: usize>(state: &PluginState<W>) -> WorkflowBuilder<W> {
    let prefill = sound(serving(prompt(ProfileBuilder::new("prefill"), state), "prefills", Role::Prefill), state)
        .scorer("cost", 2.0, PrefillCostScorer::<W>::declare)
        .scorer("cache", 1.0, held::<W>);
    let decode = sound(serving(ProfileBuilder::new("decode"), "decodes", Role::Decode), state)
        .scorer("near", 2.0, |d: &mut Declare<'_>| near(d, "prefill"))
        .scorer("load", 3.0, |d: &mut Declare<'_>| LeastLoadScorer::<W>::declare(d, up_to(64.0)))
        .scorer("kv", 2.0, KvUtilizationScorer::declare)
        .scorer("cache", 1.0, held::<W>);
    WorkflowBuilder::new()
        .step(StepBuilder::new("prefill", best(prefill)).role(Role::Prefill).on_failure(FailurePolicy::Skip))
        .step(StepBuilder::new("decode", best(decode)).role(Role::Decode))
}

/// One pod or two, whichever adds fewer seconds to all answers, by the price of [`total_latency`]: the pod that answers is decided first, by
/// its answer there and the prefill there or on the best other pod; another one computes the prompt only if that, with the transfer of what the
/// first lacks, costs less than computing it beside those who decode.
///
/// It is for pods that may do both, and for pods apart. Where all may do both they part by themselves as far as the traffic wants: a prompt is
/// computed where few decode or where it is held, and where all prompts are warm or nobody is busy, each request stays on one pod.
pub fn prefill_decode_conditional<const W: usize>(state: &PluginState<W>) -> WorkflowBuilder<W> {
    prefill_decode_conditional_with(state, HandoffCostParameters::default())
}

/// The same by figures of one's own: how fast pods are, what counts how much, and what a transfer takes.
pub fn prefill_decode_conditional_with<const W: usize>(
    state: &PluginState<W>,
    parameters: HandoffCostParameters,
) -> WorkflowBuilder<W> {
    let TotalLatencyParameters { cost_model, learns, .. } = parameters.price;
    let read = state.clone();
    let computed = |profile, unless: Option<&str>| {
        let queue =
            PrefillQueueParameters::default().cost_model(cost_model).learns(learns).unless(unless.map(Into::into));
        let enter = SpeculateParameters::default().unless(unless.map(Into::into));
        queued_and_entered(best(profile), state, queue, enter)
    };
    let decode = prompt(ProfileBuilder::new("decode"), state)
        .preparer("costs", move |d: &mut Declare<'_>| HandoffCostPreparer::declare(d, parameters, &read));
    let decode =
        sound(serving(decode, "decodes", Role::Decode), state).scorer("answers", 1.0, |d: &mut Declare<'_>| {
            HandoffCostScorer::<W>::declare(d, &HandoffCostScorerParameters::default())
        });
    let prefill = sound(serving(ProfileBuilder::new("prefill"), "prefills", Role::Prefill), state).scorer(
        "computes",
        1.0,
        |d: &mut Declare<'_>| {
            let for_decode = HandoffCostScorerParameters::default().prefill_for(Some("decode".into()));
            HandoffCostScorer::<W>::declare(d, &for_decode)
        },
    );
    let prefill =
        StepBuilder::new("prefill", computed(prefill, None)).role(Role::Prefill).on_failure(FailurePolicy::Skip);
    WorkflowBuilder::new()
        .step(StepBuilder::new("decode", computed(decode, Some("prefill"))).role(Role::Decode))
        .step(prefill.when("handoff_pays_condition", |d: &mut Declare<'_>| {
            HandoffPaysCondition::<W>::declare(d, &HandoffPaysParameters::new("decode"))
        }))
        .executed_in(&["prefill", "decode"])
}

/// What is sent is queued and entered at once.
fn queued_and_entered<const W: usize>(
    profile: ProfileBuilder<W>,
    state: &PluginState<W>,
    queue: PrefillQueueParameters,
    enter: SpeculateParameters,
) -> ProfileBuilder<W> {
    let PluginState { prefill_queues, paces, index, peers, .. } = state.clone();
    profile
        .recorder("queue", move |d: &mut Declare<'_>| PrefillQueueRecorder::declare(d, queue, prefill_queues, paces))
        .recorder("enter", move |d: &mut Declare<'_>| SpeculateRecorder::declare(d, enter, index).telling(peers))
}

/// Who is well, stays, and is not known to fail.
fn sound<const W: usize>(profile: ProfileBuilder<W>, state: &PluginState<W>) -> ProfileBuilder<W> {
    let open_breakers = Arc::clone(&state.open_breakers);
    profile
        .filter("health", OnEmpty::Fail, HealthFilter::declare)
        .filter("drain", OnEmpty::Fail, DrainFilter::declare)
        .filter("breaker", OnEmpty::KeepPrevious, |d: &mut Declare<'_>| BreakerFilter::declare(d, open_breakers))
}

fn loads<const W: usize>(profile: ProfileBuilder<W>, state: &PluginState<W>) -> ProfileBuilder<W> {
    let load = Arc::clone(&state.load);
    profile.preparer("loads", |d: &mut Declare<'_>| LoadPreparer::declare(d, LoadParameters::default(), load))
}

/// The prompt, who holds it, and what everybody has to do.
fn prompt<const W: usize>(profile: ProfileBuilder<W>, state: &PluginState<W>) -> ProfileBuilder<W> {
    let PluginState { hashing, index, .. } = state.clone();
    let own = state.clone();
    let profile = profile
        .preparer("tokens", move |d: &mut Declare<'_>| own.tokens_preparer(d, OnTokenizeFailure::Empty))
        .preparer("hash", |d: &mut Declare<'_>| BlockHashPreparer::declare(d, BlockHashParameters::default(), hashing))
        .preparer("held", |d: &mut Declare<'_>| PrefixMatchPreparer::declare(d, index));
    loads(profile, state)
}

fn by_cache<const W: usize>(profile: ProfileBuilder<W>) -> ProfileBuilder<W> {
    profile
        .scorer("cache", 3.0, held::<W>)
        .scorer("load", 4.0, |d: &mut Declare<'_>| LeastLoadScorer::<W>::declare(d, up_to(32.0)))
        .scorer("kv", 1.0, KvUtilizationScorer::declare)
}

fn serving<const W: usize>(profile: ProfileBuilder<W>, name: &str, role: Role) -> ProfileBuilder<W> {
    profile.filter(name, OnEmpty::Fail, move |d: &mut Declare<'_>| RoleFilter::declare(d, RoleParameters::new(role)))
}

fn best<const W: usize>(profile: ProfileBuilder<W>) -> ProfileBuilder<W> {
    profile.picker("best", |d: &mut Declare<'_>| MaxScorePicker::declare(d, Default::default()))
}

fn cap(declare: &mut Declare<'_>) -> ConcurrencyFilter {
    let limit = InFlightLimit::Requests(NonZeroU32::new(256).unwrap_or(NonZeroU32::MAX));
    ConcurrencyFilter::declare(declare, ConcurrencyParameters::new(limit))
}

fn held<const W: usize>(declare: &mut Declare<'_>) -> CacheAffinityScorer<W> {
    CacheAffinityScorer::declare(declare, CacheAffinityParameters::default())
}

fn near(declare: &mut Declare<'_>, step: &str) -> LocalityScorer {
    LocalityScorer::declare(declare, LocalityParameters { step: Some(step.to_owned()), ..Default::default() })
}

/// 1 for an idle pod, 0 for one with so many requests.
fn up_to(requests: f64) -> LeastLoadParameters {
    let form = Positive::new(requests).map(|limit| LoadForm::Limit { limit, best: Fraction::ONE });
    LeastLoadParameters { form: form.unwrap_or_default(), ..LeastLoadParameters::default() }
}
