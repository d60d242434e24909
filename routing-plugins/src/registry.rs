//! Every stock plugin by the name that documents call it: its type's name in small letters.

use std::sync::Arc;

use routing_core::{NoParameters, Registry, TypeTaken};

use crate::condition::{UncachedCondition, UncachedParameters};
use crate::filter::*;
use crate::pick::{
    ConsistentHashParameters, ConsistentHashPicker, MaxScoreParameters, MaxScorePicker, RoundRobinParameters,
    RoundRobinPicker, SessionParameters, SessionPicker, TwoChoicesParameters, TwoChoicesPicker,
    WeightedRandomParameters, WeightedRandomPicker,
};
use crate::plugin_state::{PluginState, Tokens};
use crate::prepare::*;
use crate::record::{
    ColdPromptRecorder, PredictRecorder, PrefillQueueParameters, PrefillQueueRecorder, RecentWorkRecorder,
    RecentWorkRecorderParameters, SessionRecorder, SpeculateParameters, SpeculateRecorder,
};
use crate::score::{
    AdapterScorer, CacheAffinityParameters, CacheAffinityScorer, ContextRangeScorer, ExpectedWaitParameters,
    ExpectedWaitScorer, FirstTokenParameters, FirstTokenScorer, HeadroomParameters, HeadroomScorer,
    KvUtilizationScorer, LeastLoadParameters, LeastLoadScorer, LinearCostParameters, LinearCostScorer,
    LocalityParameters, LocalityScorer, MetricScorer, MetricScorerParameters, NoHitSpreadScorer, PrefillCostScorer,
    RecentWorkParameters, RecentWorkScorer, RoundRobinScorer, SessionScorer, TierScorer, TierWeights,
};

/// Registers every stock plugin, over what the host shares with them.
///
/// # Errors
///
/// When a name is taken by a type that the host registered before.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use kv_index::{BlockSize, Config, Index};
/// use routing_core::Registry;
/// use routing_plugins::{Hashing, PluginState, register};
///
/// let index: Arc<Index> = Arc::new(Index::new(Config::default()));
/// let state = PluginState::new(index, Hashing::Native(BlockSize::new(16).expect("not zero")));
/// let mut registry = Registry::new();
/// register(&mut registry, &state)?;
/// let text = include_str!("../profiles/cache_aware.yaml");
/// let workflow = registry.read(serde_yaml_ng::Deserializer::from_str(text))?.build(&registry)?;
/// assert!(workflow.warnings().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn register<const W: usize>(registry: &mut Registry<W>, state: &PluginState<W>) -> Result<(), TypeTaken> {
    preparers(registry, state)?;
    filters(registry, state)?;
    scorers(registry, state)?;
    pickers(registry, state)?;
    recorders(registry, state)?;
    registry.condition::<UncachedParameters, _>("uncached_condition", |parameters, declare| {
        UncachedCondition::<W>::declare(declare, &parameters)
    })
}

/// A type that takes parameters and nothing of the host's.
macro_rules! plain {
    ($registry:ident . $stage:ident, $($name:literal => $plugin:ty, $parameters:ty;)*) => {
        $($registry.$stage::<$parameters, _>($name, |parameters, declare| <$plugin>::declare(declare, parameters))?;)*
    };
}

/// A type that takes no parameters and nothing of the host's.
macro_rules! bare {
    ($registry:ident . $stage:ident, $($name:literal => $plugin:ty;)*) => {
        $($registry.$stage::<NoParameters, _>($name, |_, declare| <$plugin>::declare(declare))?;)*
    };
}

fn preparers<const W: usize>(registry: &mut Registry<W>, state: &PluginState<W>) -> Result<(), TypeTaken> {
    let own = state.clone();
    registry.preparer::<TokensParameters, _>("tokenize_preparer", move |parameters, declare| {
        own.tokens_preparer(declare, parameters.on_error)
    })?;
    let given = PluginState { tokens: Tokens::Given, ..state.clone() };
    registry.preparer::<TokensParameters, _>("given_tokens_preparer", move |parameters, declare| {
        given.tokens_preparer(declare, parameters.on_error)
    })?;
    let hashing = state.hashing.clone();
    registry.preparer::<BlockHashParameters, _>("block_hash_preparer", move |parameters, declare| {
        BlockHashPreparer::declare(declare, parameters, hashing.clone())
    })?;
    let index = Arc::clone(&state.index);
    registry.preparer::<NoParameters, _>("prefix_match_preparer", move |_, declare| {
        PrefixMatchPreparer::declare(declare, Arc::clone(&index))
    })?;
    let index = Arc::clone(&state.index);
    registry.preparer::<TierMatchParameters, _>("tier_match_preparer", move |parameters, declare| {
        TierMatchPreparer::declare(declare, parameters, Arc::clone(&index))
    })?;
    let load = Arc::clone(&state.load);
    registry.preparer::<LoadParameters, _>("load_preparer", move |parameters, declare| {
        LoadPreparer::declare(declare, parameters, Arc::clone(&load))
    })?;
    plain! { registry.preparer,
        "text_block_preparer" => TextBlockPreparer, TextBlockParameters;
        "session_key_preparer" => SessionKeyPreparer, SessionKeyParameters;
        "hash_key_preparer" => HashKeyPreparer, HashKeyParameters;
        "throughput_preparer" => ThroughputPredictor<W>, ThroughputParameters;
    }
    Ok(())
}

fn filters<const W: usize>(registry: &mut Registry<W>, state: &PluginState<W>) -> Result<(), TypeTaken> {
    bare! { registry.filter, "health_filter" => HealthFilter; "drain_filter" => DrainFilter; }
    let open_breakers = Arc::clone(&state.open_breakers);
    registry.filter::<NoParameters, _>("breaker_filter", move |_, declare| {
        BreakerFilter::declare(declare, Arc::clone(&open_breakers))
    })?;
    plain! { registry.filter,
        "role_filter" => RoleFilter, RoleParameters;
        "label_filter" => LabelFilter, LabelParameters;
        "adapter_filter" => AdapterFilter, AdapterParameters;
        "capacity_filter" => CapacityFilter<W>, CapacityParameters;
        "context_range_filter" => ContextRangeFilter, ContextRangeParameters;
        "concurrency_filter" => ConcurrencyFilter, ConcurrencyParameters;
        "priority_headroom_filter" => PriorityHeadroomFilter, PriorityHeadroomParameters;
        "utilization_filter" => UtilizationFilter, UtilizationParameters;
        "affinity_filter" => AffinityFilter<W>, AffinityParameters;
        "longest_match_filter" => LongestMatchFilter<W>, LongestMatchParameters;
        "imbalance_filter" => ImbalanceFilter, ImbalanceParameters;
    }
    let metrics = Arc::clone(&state.metrics);
    registry.filter::<MetricFilterParameters, _>("metric_filter", move |parameters, declare| {
        MetricFilter::declare(declare, parameters, Arc::clone(&metrics))
    })
}

fn scorers<const W: usize>(registry: &mut Registry<W>, state: &PluginState<W>) -> Result<(), TypeTaken> {
    plain! { registry.scorer,
        "cache_affinity_scorer" => CacheAffinityScorer<W>, CacheAffinityParameters;
        "least_load_scorer" => LeastLoadScorer<W>, LeastLoadParameters;
        "linear_cost_scorer" => LinearCostScorer<W>, LinearCostParameters;
        "expected_wait_scorer" => ExpectedWaitScorer<W>, ExpectedWaitParameters;
        "tier_scorer" => TierScorer, TierWeights;
        "locality_scorer" => LocalityScorer, LocalityParameters;
        "headroom_scorer" => HeadroomScorer<W>, HeadroomParameters;
        "context_range_scorer" => ContextRangeScorer, ContextRangeParameters;
    }
    bare! { registry.scorer,
        "kv_utilization_scorer" => KvUtilizationScorer;
        "prefill_cost_scorer" => PrefillCostScorer<W>;
        "adapter_scorer" => AdapterScorer;
    }
    let turns = Arc::clone(&state.scored_turns);
    registry.scorer::<TurnsParameters, _>("round_robin_scorer", move |parameters, declare| {
        RoundRobinScorer::<W>::declare(declare, turns.table(&parameters.table.0))
    })?;
    let sessions = Arc::clone(&state.sessions);
    registry.scorer::<TableParameters, _>("session_scorer", move |parameters, declare| {
        SessionScorer::<W>::declare(declare, sessions.table(&parameters.table.0))
    })?;
    let queues = Arc::clone(&state.prefill_queues);
    registry.scorer::<FirstTokenParameters, _>("first_token_scorer", move |parameters, declare| {
        FirstTokenScorer::declare(declare, parameters, Arc::clone(&queues))
    })?;
    let cold = Arc::clone(&state.cold_prompts);
    registry.scorer::<NoParameters, _>("no_hit_spread_scorer", move |_, declare| {
        NoHitSpreadScorer::declare(declare, Arc::clone(&cold))
    })?;
    let recent = Arc::clone(&state.recent_work);
    registry.scorer::<RecentWorkParameters, _>("recent_work_scorer", move |parameters, declare| {
        RecentWorkScorer::declare(declare, parameters, Arc::clone(&recent))
    })?;
    let metrics = Arc::clone(&state.metrics);
    registry.scorer::<MetricScorerParameters, _>("metric_scorer", move |parameters, declare| {
        MetricScorer::declare(declare, parameters, Arc::clone(&metrics))
    })
}

fn pickers<const W: usize>(registry: &mut Registry<W>, state: &PluginState<W>) -> Result<(), TypeTaken> {
    plain! { registry.picker,
        "max_score_picker" => MaxScorePicker, MaxScoreParameters;
        "consistent_hash_picker" => ConsistentHashPicker<W>, ConsistentHashParameters;
        "weighted_random_picker" => WeightedRandomPicker, WeightedRandomParameters;
        "two_choices_picker" => TwoChoicesPicker, TwoChoicesParameters;
    }
    let turns = Arc::clone(&state.turns);
    registry.picker::<RoundRobinPickerParameters, _>("round_robin_picker", move |given, declare| {
        let RoundRobinPickerParameters { table, most } = given;
        RoundRobinPicker::<W>::declare(declare, RoundRobinParameters { most }, turns.table(&table.0))
    })?;
    let sessions = Arc::clone(&state.sessions);
    registry.picker::<SessionPickerParameters, _>("session_picker", move |given, declare| {
        let SessionPickerParameters { table, most, when_refused } = given;
        SessionPicker::declare(declare, SessionParameters { most, when_refused }, sessions.table(&table.0))
    })
}

fn recorders<const W: usize>(registry: &mut Registry<W>, state: &PluginState<W>) -> Result<(), TypeTaken> {
    let index = Arc::clone(&state.index);
    registry.recorder::<SpeculateParameters, _>("speculate_recorder", move |parameters, declare| {
        SpeculateRecorder::declare(declare, parameters, Arc::clone(&index))
    })?;
    let (index, predicted_blocks) = (Arc::clone(&state.index), Arc::clone(&state.predicted_blocks));
    registry.recorder::<NoParameters, _>("predict_recorder", move |_, declare| {
        PredictRecorder::declare(declare, Arc::clone(&index), Arc::clone(&predicted_blocks))
    })?;
    let sessions = Arc::clone(&state.sessions);
    registry.recorder::<TableParameters, _>("session_recorder", move |parameters, declare| {
        SessionRecorder::declare(declare, sessions.table(&parameters.table.0))
    })?;
    let recent = Arc::clone(&state.recent_work);
    registry.recorder::<RecentWorkRecorderParameters, _>("recent_work_recorder", move |parameters, declare| {
        RecentWorkRecorder::declare(declare, parameters, Arc::clone(&recent))
    })?;
    let queues = Arc::clone(&state.prefill_queues);
    registry.recorder::<PrefillQueueParameters, _>("prefill_queue_recorder", move |parameters, declare| {
        PrefillQueueRecorder::declare(declare, parameters, Arc::clone(&queues))
    })?;
    let cold = Arc::clone(&state.cold_prompts);
    registry.recorder::<NoParameters, _>("cold_prompt_recorder", move |_, declare| {
        ColdPromptRecorder::declare(declare, Arc::clone(&cold))
    })
}

/// The name of one of the host's tables; not empty. Two steps of a workflow should not share one: a session would be
/// bound now to the one's pod and now to the other's, and a turn that one takes would be missing to the other.
#[derive(serde::Deserialize)]
#[serde(try_from = "String")]
struct Table(String);

impl TryFrom<String> for Table {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        if name.is_empty() { Err("a table has a name") } else { Ok(Self(name)) }
    }
}

/// Which of the host's tables of sessions is meant.
#[derive(serde::Deserialize)]
#[serde(default)]
struct TableParameters {
    table: Table,
}

impl Default for TableParameters {
    fn default() -> Self {
        Self { table: Table("sessions".to_owned()) }
    }
}

/// Which of the host's tables of turns is meant.
#[derive(serde::Deserialize)]
#[serde(default)]
struct TurnsParameters {
    table: Table,
}

impl Default for TurnsParameters {
    fn default() -> Self {
        Self { table: Table("turns".to_owned()) }
    }
}

/// A round robin picker's parameters, and its table.
#[derive(serde::Deserialize)]
#[serde(default)]
struct RoundRobinPickerParameters {
    table: Table,
    most: std::num::NonZeroUsize,
}

impl Default for RoundRobinPickerParameters {
    fn default() -> Self {
        Self { table: TurnsParameters::default().table, most: RoundRobinParameters::default().most }
    }
}

/// A session picker's parameters, and its table.
#[derive(serde::Deserialize)]
#[serde(default)]
struct SessionPickerParameters {
    table: Table,
    most: std::num::NonZeroUsize,
    when_refused: crate::pick::WhenRefused,
}

impl Default for SessionPickerParameters {
    fn default() -> Self {
        let SessionParameters { most, when_refused } = SessionParameters::default();
        Self { table: TableParameters::default().table, most, when_refused }
    }
}
