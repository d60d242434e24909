//! Health check filter: pods that pass their health checks.

use kv_index::PodSet;
use routing_core::{Declare, Filter, PluginError, RoutingContext};

/// Keeps the pods that answer their health checks; where none of the fleet does that takes something new, those that did last
/// ([`Fleet::fallback`](routing_core::Fleet::fallback)), since a fault of all pods mostly ends before a check says so.
///
/// `OnEmpty::Fail` is sensible: who is left out then never was well, or has been gone for long, and a request to a dead pod is an
/// error that comes late. Where health checks are less reliable than pods, `OnEmpty::KeepPrevious` tries them all the same.
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
        let fleet = context.fleet();
        let well = candidates & fleet.healthy();
        // One that drains is left out by the next filter, and would leave nobody.
        Ok(if (well - fleet.draining()).is_empty() { well | (candidates & fleet.fallback()) } else { well })
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

    #[test]
    fn where_none_is_well_those_stay_that_were_last() {
        let now = request().now;
        let one_never_was = || Setup::<1>::new(4).pod(0, |pod| pod.unhealthy());
        let ill = |from: Setup<1>, pods: std::ops::Range<usize>| {
            pods.fold(from, |setup, at| setup.pod(at, |pod| pod.unhealthy_since(now)))
        };
        let kept = |setup: Setup<1>| setup.kept(request(), HealthFilter::declare);
        assert_eq!(kept(ill(one_never_was(), 1..4)), [1, 2, 3]);
        assert_eq!(kept(ill(one_never_was(), 1..3)), [3], "one is well");
        assert_eq!(kept(ill(one_never_was(), 1..3).pod(3, |pod| pod.draining())), [1, 2, 3], "but takes nothing new");
    }
}
