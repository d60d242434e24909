//! Plugins beyond the stock profiles: registered and tested like the others, used by no profile and no published policy.
//!
//! | type in documents | plugin | in one line |
//! |---|---|---|
//! | `given_tokens_preparer` | [`GivenTokensPreparer`](crate::prepare::GivenTokensPreparer) | tokens that the request brings, even where the host has tokenizers |
//! | `tier_match_preparer` | [`TierMatchPreparer`] | in which tiers pods keep what they hold |
//! | `throughput_preparer` | [`ThroughputPredictor`] | latency predictions from constant throughput |
//! | `label_filter` | [`LabelFilter`] | pods that a label selector selects, or with a label that the client asks for |
//! | `adapter_filter` | [`AdapterFilter`] | pods with the LoRA adapter loaded, or with room for it |
//! | `capacity_filter` | [`CapacityFilter`] | pods with context length and KV room for the request |
//! | `context_range_filter` | [`ContextRangeFilter`] | pods labelled for prompts of this length |
//! | `priority_headroom_filter` | [`PriorityHeadroomFilter`] | limits in flight, lower for lower priorities |
//! | `utilization_filter` | [`UtilizationFilter`] | pods with a short queue and KV cache to spare |
//! | `metric_filter` | [`MetricFilter`] | pods whose metrics compare as configured |
//! | `tier_scorer` | [`TierScorer`] | held blocks weighted by tier |
//! | `headroom_scorer` | [`HeadroomScorer`] | predicted latency against the request's objective (SLO) |
//! | `context_range_scorer` | [`ContextRangeScorer`] | the same ranges as a preference |
//! | `adapter_scorer` | [`AdapterScorer`] | pods with the LoRA adapter loaded |
//! | `round_robin_scorer` | [`RoundRobinScorer`] | round robin as a preference |
//! | `session_scorer` | [`SessionScorer`] | session affinity as a preference |
//! | `no_hit_spread_scorer` | [`NoHitSpreadScorer`] | cold prompts to the pod that had none for the longest |
//! | `metric_scorer` | [`MetricScorer`] | any metric of the host's |
//! | `two_choices_picker` | [`TwoChoicesPicker`] | power of two choices |
//! | `session_recorder` | [`SessionRecorder`] | binds sessions for `session_scorer` |
//! | `uncached_condition` | [`UncachedCondition`] | a step only where the pod that another picked lacks so many tokens of the prompt |
//! | `cold_prompt_recorder` | [`ColdPromptRecorder`] | notes cold prompts for `no_hit_spread_scorer` |

mod prepare {
    pub(crate) mod throughput;
    pub(crate) mod tier_match;
}

mod filter {
    pub(crate) mod adapter;
    pub(crate) mod capacity;
    pub(crate) mod ceilings;
    pub(crate) mod context_range;
    pub(crate) mod context_range_filter;
    pub(crate) mod label;
    pub(crate) mod label_selector;
    pub(crate) mod metric;
    pub(crate) mod priority_headroom;
    pub(crate) mod utilization;
}

mod score {
    pub(crate) mod adapter;
    pub(crate) mod context_range;
    pub(crate) mod headroom;
    pub(crate) mod lru_order;
    pub(crate) mod metric;
    pub(crate) mod no_hit_spread;
    pub(crate) mod predictions;
    pub(crate) mod round_robin;
    pub(crate) mod session;
    pub(crate) mod tier;
}

mod pick {
    pub(crate) mod two_choices;
}

mod record {
    pub(crate) mod cold_prompts;
    pub(crate) mod session;
}

mod condition {
    pub(crate) mod uncached;
}

pub use condition::uncached::{UncachedCondition, UncachedParameters};
pub use filter::adapter::{AdapterFilter, AdapterParameters};
pub use filter::capacity::{CapacityFilter, CapacityParameters};
pub use filter::ceilings::{Ceilings, CeilingsError};
pub use filter::context_range::{ContextRange, ContextRangeError};
pub use filter::context_range_filter::{ContextRangeFilter, ContextRangeParameters};
pub use filter::label::{LabelFilter, LabelParameters};
pub use filter::label_selector::{LabelSelector, LabelSelectorError};
pub use filter::metric::{MetricCondition, MetricConditionError, MetricFilter, MetricFilterParameters, MetricSource};
pub use filter::priority_headroom::{PriorityHeadroomFilter, PriorityHeadroomParameters};
pub use filter::utilization::{UtilizationFilter, UtilizationParameters};
pub use pick::two_choices::{BetterBy, TwoChoicesParameters, TwoChoicesPicker};
pub use prepare::throughput::{ThroughputParameters, ThroughputPredictor};
pub use prepare::tier_match::{HeldTiers, TierCounts, TierCountsByPod, TierMatchParameters, TierMatchPreparer};
pub use record::cold_prompts::ColdPromptRecorder;
pub use record::session::SessionRecorder;
pub use score::adapter::AdapterScorer;
pub use score::context_range::ContextRangeScorer;
pub use score::headroom::{HeadroomParameters, HeadroomScorer, PreferredHeadroom};
pub use score::lru_order::LruOrder;
pub use score::metric::{MetricRange, MetricScorer, MetricScorerParameters, Metrics, PreferredMetric};
pub use score::no_hit_spread::NoHitSpreadScorer;
pub use score::predictions::{Prediction, PredictionTable, Predictions};
pub use score::round_robin::RoundRobinScorer;
pub use score::session::SessionScorer;
pub use score::tier::{TierScorer, TierWeights};
