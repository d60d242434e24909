//! Plugin registry: every stock plugin by the name of its type in documents.

use std::num::NonZeroUsize;
use std::sync::Arc;

use routing_core::{NoParameters, Registry, TypeTaken};

use crate::condition::{HandoffPaysCondition, HandoffPaysParameters};
use crate::extra::*;
use crate::filter::*;
use crate::pick::*;
use crate::plugin_state::{PluginState, Tokens};
use crate::prepare::*;
use crate::program::{ProgramParameters, ProgramPreparer, ProgramRecorder};
use crate::record::*;
use crate::score::*;

/// Registers every stock plugin over the host's state.
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
    register_main(registry, state)?;
    register_extra(registry, state)
}

/// A list of plugin types: stage, name in documents, parameters, and how one is made of them and the host's state.
macro_rules! plugins {
    (
        fn $function:ident, $names:ident, |$state:ident, $parameters:ident, $declare:ident|
        $($stage:ident $name:literal $given:ty => $made:expr;)*
    ) => {
        fn $function<const W: usize>(registry: &mut Registry<W>, state: &PluginState<W>) -> Result<(), TypeTaken> {
            $(
                let $state = state.clone();
                registry.$stage::<$given, _>($name, move |$parameters, $declare| {
                    let (_, _) = (&$state, &$parameters);
                    $made
                })?;
            )*
            Ok(())
        }

        #[cfg(test)]
        const $names: &[&str] = &[$($name),*];
    };
}

// What profiles and published policies are made of.
plugins! { fn register_main, MAIN, |state, parameters, declare|
    preparer "tokenize_preparer" TokensParameters => state.tokens_preparer(declare, parameters.on_error);
    preparer "text_block_preparer" TextBlockParameters => TextBlockPreparer::declare(declare, parameters);
    preparer "block_hash_preparer" BlockHashParameters =>
        BlockHashPreparer::declare(declare, parameters, state.hashing.clone());
    preparer "prefix_match_preparer" NoParameters => PrefixMatchPreparer::declare(declare, Arc::clone(&state.index));
    preparer "load_preparer" LoadParameters => LoadPreparer::declare(declare, parameters, Arc::clone(&state.load));
    preparer "handoff_cost_preparer" HandoffCostParameters => HandoffCostPreparer::declare(declare, parameters, &state);
    preparer "session_key_preparer" SessionKeyParameters => SessionKeyPreparer::declare(declare, parameters);
    preparer "program_preparer" ProgramParameters =>
        ProgramPreparer::declare(declare, parameters, Arc::clone(&state.programs));
    preparer "hash_key_preparer" HashKeyParameters => HashKeyPreparer::declare(declare, parameters);

    filter "health_filter" NoParameters => HealthFilter::declare(declare);
    filter "drain_filter" NoParameters => DrainFilter::declare(declare);
    filter "breaker_filter" NoParameters => BreakerFilter::declare(declare, Arc::clone(&state.open_breakers));
    filter "role_filter" RoleParameters => RoleFilter::declare(declare, parameters);
    filter "concurrency_filter" ConcurrencyParameters => ConcurrencyFilter::declare(declare, parameters);
    filter "affinity_filter" AffinityParameters => AffinityFilter::<W>::declare(declare, parameters);
    filter "longest_match_filter" LongestMatchParameters => LongestMatchFilter::<W>::declare(declare, parameters);
    filter "imbalance_filter" ImbalanceParameters => ImbalanceFilter::declare(declare, parameters);

    scorer "cache_affinity_scorer" CacheAffinityParameters => CacheAffinityScorer::<W>::declare(declare, parameters);
    scorer "least_load_scorer" LeastLoadParameters => LeastLoadScorer::<W>::declare(declare, parameters);
    scorer "kv_utilization_scorer" NoParameters => KvUtilizationScorer::declare(declare);
    scorer "first_token_scorer" FirstTokenParameters =>
        FirstTokenScorer::declare(declare, parameters, Arc::clone(&state.prefill_queues));
    scorer "total_latency_scorer" TotalLatencyParameters => TotalLatencyScorer::declare(declare, parameters, &state);
    scorer "handoff_cost_scorer" HandoffCostScorerParameters =>
        HandoffCostScorer::<W>::declare(declare, &parameters);
    scorer "prefill_cost_scorer" NoParameters => PrefillCostScorer::<W>::declare(declare);
    scorer "linear_cost_scorer" LinearCostParameters => LinearCostScorer::<W>::declare(declare, parameters);
    scorer "expected_wait_scorer" ExpectedWaitParameters => ExpectedWaitScorer::<W>::declare(declare, parameters);
    scorer "recent_work_scorer" RecentWorkParameters =>
        RecentWorkScorer::declare(declare, parameters, Arc::clone(&state.recent_work));
    scorer "locality_scorer" LocalityParameters => LocalityScorer::declare(declare, parameters);

    picker "max_score_picker" MaxScoreParameters => MaxScorePicker::declare(declare, parameters);
    picker "consistent_hash_picker" ConsistentHashParameters => ConsistentHashPicker::<W>::declare(declare, parameters);
    picker "weighted_random_picker" WeightedRandomParameters => WeightedRandomPicker::declare(declare, parameters);
    picker "round_robin_picker" RoundRobinPickerParameters => {
        let RoundRobinPickerParameters { table, most } = parameters;
        RoundRobinPicker::<W>::declare(declare, RoundRobinParameters { most }, state.turns.table(&table.0))
    };
    picker "session_picker" SessionPickerParameters => {
        let SessionPickerParameters { table, most, when_refused } = parameters;
        SessionPicker::declare(declare, SessionParameters { most, when_refused }, state.sessions.table(&table.0))
    };

    recorder "predict_recorder" NoParameters =>
        PredictRecorder::declare(declare, Arc::clone(&state.index), Arc::clone(&state.predicted_blocks));
    recorder "speculate_recorder" SpeculateParameters =>
        SpeculateRecorder::declare(declare, parameters, Arc::clone(&state.index)).telling(Arc::clone(&state.peers));
    recorder "recent_work_recorder" RecentWorkRecorderParameters =>
        RecentWorkRecorder::declare(declare, parameters, Arc::clone(&state.recent_work));
    recorder "prefill_queue_recorder" PrefillQueueParameters =>
        PrefillQueueRecorder::declare(declare, parameters, Arc::clone(&state.prefill_queues), Arc::clone(&state.paces));

    recorder "program_recorder" NoParameters =>
        ProgramRecorder::declare(declare, Arc::clone(&state.programs), Arc::clone(&state.paces));

    condition "handoff_pays_condition" HandoffPaysParameters => HandoffPaysCondition::<W>::declare(declare, &parameters);
}

// The others, documented in `extra`.
plugins! { fn register_extra, EXTRA, |state, parameters, declare|
    preparer "given_tokens_preparer" TokensParameters =>
        PluginState { tokens: Tokens::Given, ..state.clone() }.tokens_preparer(declare, parameters.on_error);
    preparer "tier_match_preparer" TierMatchParameters =>
        TierMatchPreparer::declare(declare, parameters, Arc::clone(&state.index));
    preparer "throughput_preparer" ThroughputParameters => ThroughputPredictor::<W>::declare(declare, parameters);

    filter "label_filter" LabelParameters => LabelFilter::declare(declare, parameters);
    filter "adapter_filter" AdapterParameters => AdapterFilter::declare(declare, parameters);
    filter "capacity_filter" CapacityParameters => CapacityFilter::<W>::declare(declare, parameters);
    filter "context_range_filter" ContextRangeParameters => ContextRangeFilter::declare(declare, parameters);
    filter "priority_headroom_filter" PriorityHeadroomParameters => PriorityHeadroomFilter::declare(declare, parameters);
    filter "utilization_filter" UtilizationParameters => UtilizationFilter::declare(declare, parameters);
    filter "metric_filter" MetricFilterParameters =>
        MetricFilter::declare(declare, parameters, Arc::clone(&state.metrics));

    scorer "tier_scorer" TierWeights => TierScorer::declare(declare, parameters);
    scorer "headroom_scorer" HeadroomParameters => HeadroomScorer::<W>::declare(declare, parameters);
    scorer "context_range_scorer" ContextRangeParameters => ContextRangeScorer::declare(declare, parameters);
    scorer "adapter_scorer" NoParameters => AdapterScorer::declare(declare);
    scorer "round_robin_scorer" TurnsParameters =>
        RoundRobinScorer::<W>::declare(declare, state.scored_turns.table(&parameters.table.0));
    scorer "session_scorer" TableParameters =>
        SessionScorer::declare(declare, state.sessions.table(&parameters.table.0));
    scorer "no_hit_spread_scorer" NoParameters =>
        NoHitSpreadScorer::declare(declare, Arc::clone(&state.cold_prompts));
    scorer "metric_scorer" MetricScorerParameters =>
        MetricScorer::declare(declare, parameters, Arc::clone(&state.metrics));

    picker "two_choices_picker" TwoChoicesParameters => TwoChoicesPicker::declare(declare, parameters);

    recorder "session_recorder" TableParameters =>
        SessionRecorder::declare(declare, state.sessions.table(&parameters.table.0));
    recorder "cold_prompt_recorder" NoParameters =>
        ColdPromptRecorder::declare(declare, Arc::clone(&state.cold_prompts));

    condition "uncached_condition" UncachedParameters => UncachedCondition::<W>::declare(declare, &parameters);
}

/// The name of one of the host's tables; not empty. Two steps of a workflow should not share one: a session would be
/// bound now to the one's pod and now to the other's, and a turn that one takes would be missing to the other.
#[derive(serde::Deserialize)]
#[serde(try_from = "String")]
struct TableName(String);

impl TableName {
    fn of_sessions() -> Self {
        Self("sessions".to_owned())
    }

    fn of_turns() -> Self {
        Self("turns".to_owned())
    }
}

impl TryFrom<String> for TableName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        if name.is_empty() { Err("a table has a name") } else { Ok(Self(name)) }
    }
}

/// Which of the host's tables of sessions is meant.
#[derive(serde::Deserialize)]
struct TableParameters {
    #[serde(default = "TableName::of_sessions")]
    table: TableName,
}

/// Which of the host's tables of turns is meant.
#[derive(serde::Deserialize)]
struct TurnsParameters {
    #[serde(default = "TableName::of_turns")]
    table: TableName,
}

/// A round robin picker's parameters, and its table.
#[derive(serde::Deserialize)]
struct RoundRobinPickerParameters {
    #[serde(default = "TableName::of_turns")]
    table: TableName,
    #[serde(default = "most")]
    most: NonZeroUsize,
}

/// A session picker's parameters, and its table.
#[derive(serde::Deserialize)]
struct SessionPickerParameters {
    #[serde(default = "TableName::of_sessions")]
    table: TableName,
    #[serde(default = "most")]
    most: NonZeroUsize,
    #[serde(default)]
    when_refused: WhenRefused,
}

fn most() -> NonZeroUsize {
    MOST
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::profiles::StockProfile;

    /// The plugin types in a document, by how each is written there.
    fn types(document: &str) -> impl Iterator<Item = &str> {
        let ends = |letter: char| !letter.is_ascii_lowercase() && letter != '_';
        document.split("type: ").skip(1).map(move |rest| &rest[..rest.find(ends).unwrap_or(rest.len())])
    }

    /// Published policies are documents of the simulator, which a packaged crate comes without.
    fn policies() -> Option<Vec<String>> {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/simulator/policies");
        let files = std::fs::read_dir(folder).ok()?;
        Some(files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect())
    }

    #[test]
    fn profiles_and_policies_use_all_of_the_main_plugins_and_none_of_the_others() {
        let Some(policies) = policies() else { return };
        let documents = <StockProfile>::ALL.iter().map(|profile| profile.document);
        let used: BTreeSet<&str> = documents.chain(policies.iter().map(String::as_str)).flat_map(types).collect();
        assert_eq!(used, MAIN.iter().copied().collect());
        assert!(EXTRA.iter().all(|name| !used.contains(name)));
    }

    #[test]
    fn the_docs_of_extra_list_its_plugins() {
        let docs = include_str!("extra.rs");
        EXTRA.iter().for_each(|name| assert!(docs.contains(&format!("| `{name}` |")), "{name}"));
        let rows = docs.lines().filter(|line| line.starts_with("//! | `")).count();
        assert_eq!(rows, EXTRA.len());
    }
}
