//! Health check filter: pods that pass their health checks.

use kv_index::PodSet;
use routing_core::{Declare, Filter, PluginError, RoutingContext};

/// Keeps the pods that answer their health checks.
///
/// `OnEmpty::Fail` is sensible: a request to a dead pod is an error that comes late. Where health checks are less reliable
/// than pods, `OnEmpty::KeepPrevious` tries them all the same.
#[derive(Clone, Copy, Debug)]
pub struct HealthFilter;

impl HealthFilter {
    /// Declares that it is the filter for health; health itself is the fleet's.
    pub fn declare(declare: &mut Declare<'_>) -> Self {
        declare.filters_health();
        Self
    }
}

impl<const W: usize> Filter<W> for HealthFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        Ok(candidates & context.fleet().healthy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::testing::{Setup, request};

    fn check<const W: usize>() {
        let setup = Setup::<W>::full();
        let last = setup.last();
        let setup = setup.pod(0, |pod| pod.unhealthy()).pod(last, |pod| pod.unhealthy());
        assert_eq!(setup.kept(request(), HealthFilter::declare), (1..last).collect::<Vec<_>>());
    }

    #[test]
    fn unhealthy_pods_go() {
        check::<1>();
        check::<4>();
        check::<16>();
    }
}
