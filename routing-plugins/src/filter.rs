//! Filters: which pods are candidates.
//!
//! | filter | who stays | when nobody would |
//! |---|---|---|
//! | [`HealthFilter`] | pods that answer their health checks, or did last where none does | fail |
//! | [`DrainFilter`] | pods that take new requests | fail |
//! | [`BreakerFilter`] | pods whose circuit breaker is closed; those that fail now and then are tried last | keep previous |
//! | [`RoleFilter`] | pods that do the step's work | fail |
//! | [`ConcurrencyFilter`] | pods with few enough requests or tokens in flight | fail |
//! | [`AffinityFilter`] | pods that hold enough of the prompt | keep previous |
//! | [`LongestMatchFilter`] | pods that hold most of the prompt, if that is enough | keep previous |
//! | [`ImbalanceFilter`] | the least loaded pods, if loads are far apart | fail |
//!
//! More are in [`extra`](crate::extra). A filter says who may stay, and nothing else. What happens when that is nobody is said once, in the profile, by
//! [`OnEmpty`](routing_core::OnEmpty); the table names the sensible choice, and each filter says why.
//!
//! How loaded a whole fleet is by the same limits, for hosts that shed load, is told by [`saturation`].

mod affinity;
mod breaker;
#[cfg(feature = "serde")]
pub(crate) mod checks;
mod concurrency;
mod drain;
mod health;
mod imbalance;
mod in_flight;
mod longest_match;
mod metric;
pub(crate) mod retain;
mod role;
pub mod saturation;
#[cfg(test)]
pub(crate) mod testing;

pub use affinity::{AffinityFilter, AffinityParameters};
pub use breaker::BreakerFilter;
pub use concurrency::{ConcurrencyFilter, ConcurrencyParameters};
pub use drain::DrainFilter;
pub use health::HealthFilter;
pub use imbalance::{ImbalanceFilter, ImbalanceParameters};
pub use in_flight::{Figures, InFlightLimit};
pub use longest_match::{LongestMatchFilter, LongestMatchParameters};
pub use metric::{Comparison, Metric, Unknown, Unreported};
pub use role::{RoleFilter, RoleParameters, Unlabelled};

#[cfg(all(test, feature = "serde"))]
mod tests {
    use std::sync::Arc;

    use routing_core::{Declare, NoParameters, Picker, PluginError, Ranking, Registry, RoutingContext, Totals};

    use super::*;
    use crate::extra::*;
    use crate::prepare::{GivenTokensPreparer, LoadParameters, LoadPreparer};

    struct Anybody;

    impl Picker for Anybody {
        fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
            totals.rank(1, ranking);
            Ok(())
        }
    }

    fn registry() -> Result<Registry, routing_core::TypeTaken> {
        let mut registry = Registry::new();
        registry.preparer::<NoParameters, _>("tokens", |_, d| GivenTokensPreparer::declare(d))?;
        registry.preparer::<LoadParameters, _>("loads", |p, d| <LoadPreparer>::declare(d, p, Arc::default()))?;
        registry.filter::<NoParameters, _>("health", |_, d| HealthFilter::declare(d))?;
        registry.filter::<NoParameters, _>("drain", |_, d| DrainFilter::declare(d))?;
        registry.filter::<NoParameters, _>("breaker", |_, d| <BreakerFilter>::declare(d, Arc::default()))?;
        registry.filter::<RoleParameters, _>("role", |p, d| RoleFilter::declare(d, p))?;
        registry.filter::<LabelParameters, _>("label", |p, d| LabelFilter::declare(d, p))?;
        registry.filter::<AdapterParameters, _>("adapter", |p, d| AdapterFilter::declare(d, p))?;
        registry.filter::<CapacityParameters, _>("capacity", |p, d| <CapacityFilter>::declare(d, p))?;
        registry.filter::<ContextRangeParameters, _>("range", |p, d| ContextRangeFilter::declare(d, p))?;
        registry.filter::<ConcurrencyParameters, _>("concurrency", |p, d| ConcurrencyFilter::declare(d, p))?;
        registry.filter::<PriorityHeadroomParameters, _>("headroom", |p, d| PriorityHeadroomFilter::declare(d, p))?;
        registry.filter::<UtilizationParameters, _>("utilization", |p, d| UtilizationFilter::declare(d, p))?;
        registry.filter::<MetricFilterParameters, _>("metric", |p, d| MetricFilter::declare(d, p, Arc::new(())))?;
        registry.picker::<NoParameters, _>("anybody", |_: NoParameters, _: &mut Declare<'_>| Anybody)?;
        Ok(registry)
    }

    const PLUGINS: &str = "
plugins:
- {type: tokens}
- {type: loads}
- {type: health}
- {type: drain}
- {type: breaker}
- {type: role, parameters: {role: decode, label: role, unlabelled: none}}
- {type: label, parameters: {selector: 'zone in (a, b), !gpu', same_as_client: {zone: zone}, clients_without: remove}}
- {type: adapter, parameters: {room: false, unknown_slots: keep}}
- {type: capacity, parameters: {output_tokens: 256}}
- {type: range, parameters: {label: context}}
- {type: concurrency, parameters: {limit: {requests: 64}, headroom: 0.2, figures: counted}}
- {type: headroom, parameters: {limit: {tokens: 100000}, ceilings: {priorities: [100, 50, 10], min: 0.5, max: 1}}}
- {type: utilization, parameters: {waiting: 5, kv_used: 0.8, headroom: 0.2, unreported: remove}}
- {type: metric, parameters: {conditions: [{metric: waiting, is: at_most, value: 0}], unreported: keep}}
- {type: anybody}
profiles:
- name: serve
  prepare: [tokens, loads]
  filter:
  - {plugin: health}
  - {plugin: drain}
  - {plugin: breaker}
  - {plugin: role}
  - {plugin: label}
  - {plugin: adapter}
  - {plugin: capacity}
  - {plugin: range}
  - {plugin: concurrency}
  - {plugin: headroom}
  - {plugin: utilization}
  - {plugin: metric}
  pick: anybody
";

    #[test]
    fn documents_name_every_parameter() {
        let registry = registry().unwrap();
        let document = registry.read(serde_yaml_ng::Deserializer::from_str(PLUGINS)).unwrap();
        assert!(document.build(&registry).unwrap().warnings().is_empty());
    }

    #[test]
    fn what_is_wrong_with_a_parameter_is_said() {
        let registry = registry().unwrap();
        let error = |parameters: &str| {
            let text = format!("plugins: [{{type: {parameters}}}]\nprofiles: []");
            registry.read(serde_yaml_ng::Deserializer::from_str(&text)).unwrap_err().to_string()
        };
        let selector = error("label, parameters: {selector: 'zone in a'}");
        assert!(selector.contains("expected `(` after `zone in`"), "{selector}");
        let ceilings = error("headroom, parameters: {limit: {tokens: 9}, ceilings: {priorities: [], min: 0.5}}");
        assert!(ceilings.contains("`priorities` is empty"), "{ceilings}");
        let limit = error("concurrency, parameters: {limit: {}}");
        assert!(limit.contains("give `requests` or `tokens`"), "{limit}");
        let nothing = error("metric, parameters: {conditions: []}");
        assert!(nothing.contains("a list is empty"), "{nothing}");
        let missing = error("role, parameters: {}");
        assert!(missing.contains("role"), "{missing}");
    }
}
