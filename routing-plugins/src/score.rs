//! Scorers: how good each candidate is, 0..=1.
//!
//! Scorers of cost ([`PrefillCostScorer`], [`LinearCostScorer`], [`ExpectedWaitScorer`], [`FirstTokenScorer`],
//! [`TotalLatencyScorer`], [`RecentWorkScorer`]) and those of load in their relative
//! form share one map from costs to scores: `(dearest − cost) / (dearest − cheapest)` over the candidates. The cheapest gets
//! 1, the dearest 0, and all get 1 when they cost the same. A cheaper candidate never scores below a dearer one; it scores
//! the same only where the two are closer than a single-precision number can tell.

mod cache_affinity;
mod expected_wait;
mod first_token;
mod handoff_cost;
mod kv_utilization;
mod least_load;
mod linear_cost;
mod locality;
pub(crate) mod normalize;
mod pod_rows;
mod prefill_cost;
mod prefill_queue;
mod prefill_wait;
mod prompt;
mod recent_work;
#[cfg(test)]
pub(crate) mod testing;
mod total_latency;
mod work_window;

pub use cache_affinity::{CacheAffinityParameters, CacheAffinityScorer};
pub use expected_wait::{ExpectedWaitParameters, ExpectedWaitScorer};
pub use first_token::{FirstTokenParameters, FirstTokenScorer, WaitCredit};
pub use handoff_cost::{HandoffCostScorer, HandoffCostScorerParameters};
pub use kv_utilization::KvUtilizationScorer;
pub use least_load::{LeastLoadParameters, LeastLoadScorer, LoadFigure, LoadForm};
pub use linear_cost::{LinearCostParameters, LinearCostScorer};
pub use locality::{LocalityLevel, LocalityParameters, LocalityScorer};
pub use prefill_cost::PrefillCostScorer;
pub use prefill_queue::PrefillQueues;
pub use recent_work::{RecentWorkParameters, RecentWorkScorer};
pub use total_latency::{TotalLatencyParameters, TotalLatencyScorer};
pub use work_window::RecentWork;

pub(crate) use pod_rows::{ROWS, rows_of};
pub(crate) use prompt::{PromptReads, PromptSize, length, uncached};
pub(crate) use total_latency::TotalLatency;

#[cfg(all(test, feature = "serde"))]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;
    use crate::Fraction;
    use crate::extra::{HeadroomParameters, MetricScorerParameters, TierWeights};

    fn read<T: DeserializeOwned>(json: &str) -> Result<T, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_not_given_is_as_by_default() {
        assert_eq!(read("{}"), Ok(CacheAffinityParameters::default()));
        assert_eq!(read("{}"), Ok(ExpectedWaitParameters::default()));
        assert_eq!(read("{}"), Ok(FirstTokenParameters::default()));
        assert_eq!(read("{}"), Ok(TotalLatencyParameters::default()));
        assert_eq!(read("{}"), Ok(RecentWorkParameters::default()));
        assert_eq!(read("{}"), Ok(HeadroomParameters::default()));
        assert_eq!(read("{}"), Ok(LeastLoadParameters::default()));
        assert_eq!(read("{}"), Ok(LinearCostParameters::default()));
        assert_eq!(read("{}"), Ok(LocalityParameters::default()));
        assert_eq!(read("{}"), Ok(TierWeights::default()));
        assert_eq!(read(r#"{"metric": "heat"}"#), Ok(MetricScorerParameters::new("heat")));
    }

    #[test]
    fn forms_are_told_by_their_names() {
        let half = Fraction::new(0.5).unwrap();
        let limit = crate::Positive::new(128.0).unwrap();
        let read = |form: &str| read::<LeastLoadParameters>(&format!(r#"{{"by": "waiting", "form": {form}}}"#));
        let form = |form| Ok(LeastLoadParameters { by: LoadFigure::Waiting, form, ..LeastLoadParameters::default() });
        assert_eq!(read(r#""relative""#), form(LoadForm::Relative));
        assert_eq!(read(r#"{"limit": {"limit": 128}}"#), form(LoadForm::Limit { limit, best: Fraction::ONE }));
        assert_eq!(read(r#"{"limit": {"limit": 128, "best": 0.5}}"#), form(LoadForm::Limit { limit, best: half }));
        assert_eq!(read(r#"{"idle": {"busy": 0.5}}"#), form(LoadForm::Idle { idle: 0, busy: half }));
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        assert!(read::<CacheAffinityParameters>(r#"{"length_weight": 1.1}"#).is_err());
        assert!(read::<CacheAffinityParameters>(r#"{"length_scale": 0}"#).is_err());
        assert!(read::<LinearCostParameters>(r#"{"request": -1}"#).is_err());
        assert!(read::<ExpectedWaitParameters>(r#"{"tokens_per_second": 0}"#).is_err());
        assert!(read::<MetricScorerParameters>(r#"{"metric": "heat", "range": {"least": 2, "most": 1}}"#).is_err());
        assert!(read::<TierWeights>(r#"{"host": 2}"#).is_err());
        assert!(read::<MetricScorerParameters>(r#"{"metric": ""}"#).is_err());
    }
}
