//! Dispatch host: load accounting, replanning and the final report of one dispatch.

use http::HeaderMap;
use routing_core::{InFlightGuard, PlanStep, Pod, RoutingPlan};

use crate::report::DispatchReport;

/// Callbacks into the embedding program during one dispatch. One value per dispatch, so it may own the request's state.
///
/// Implemented for functions `FnMut(DispatchReport)`, which only receive the report, and for `()`, which ignores it.
pub trait DispatchHost: Send + 'static {
    /// A request's share of a pod's load, released when dropped.
    type Guard: InFlightGuard + 'static;

    /// An attempt is about to be sent to a pod. The guard is kept until the attempt is over.
    fn begin_attempt(&mut self, pod: Pod, step: &PlanStep) -> Self::Guard;

    /// An attempt's request is sent to its pod right now, with these headers, to which the host may add: of a trace, for one. Called
    /// after [`Self::begin_attempt`], unless the pod's circuit breaker refused the attempt.
    fn before_send(&mut self, _pod: Pod, _headers: &mut HeaderMap) {}

    /// Makes a new plan that excludes these pods; `None` if there is none.
    fn replan(&mut self, _excluded: &[Pod]) -> Option<RoutingPlan> {
        None
    }

    /// The dispatch is over. Called once, at the latest when its future or body is dropped.
    fn finished(&mut self, _report: DispatchReport) {}
}

impl DispatchHost for () {
    type Guard = ();

    fn begin_attempt(&mut self, _: Pod, _: &PlanStep) {}
}

impl<F: FnMut(DispatchReport) + Send + 'static> DispatchHost for F {
    type Guard = ();

    fn begin_attempt(&mut self, _: Pod, _: &PlanStep) {}

    fn finished(&mut self, report: DispatchReport) {
        self(report);
    }
}
