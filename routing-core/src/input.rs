//! The input of one decision: a request, one version of the fleet, and options that combine.

use std::fmt;

use kv_index::{DEFAULT_POD_WORDS, PodSet};

use crate::fleet::Fleet;
use crate::plan::PlanStep;
use crate::request::Request;
use crate::trace::Trace;

/// What a plan is decided for.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use routing_core::{Fleet, PodSet, Request, RoutingInput, Trace};
///
/// let (request, fleet) = (Request::new("llama-8b", Instant::now()), <Fleet>::new(1, []));
/// let (failed, mut trace) = (PodSet::EMPTY, Trace::default());
/// // A second try, without the pods that failed, and with its reasons.
/// let input = RoutingInput::new(&request, &fleet).excluding(failed).traced(&mut trace);
/// # let _ = input;
/// ```
#[must_use]
pub struct RoutingInput<'d, const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) request: &'d Request<'d>,
    pub(crate) fleet: &'d Fleet<W>,
    pub(crate) excluded: PodSet<W>,
    pub(crate) has_room: Option<&'d dyn Fn(&PlanStep) -> bool>,
    pub(crate) trace: Option<&'d mut Trace<W>>,
}

impl<'d, const W: usize> RoutingInput<'d, W> {
    /// A request over all pods of a fleet, without a trace.
    #[inline]
    pub fn new(request: &'d Request<'d>, fleet: &'d Fleet<W>) -> Self {
        Self { request, fleet, excluded: PodSet::EMPTY, has_room: None, trace: None }
    }

    /// The same without these pods: those that failed the request already.
    #[inline]
    pub fn excluding(self, pods: PodSet<W>) -> Self {
        Self { excluded: pods, ..self }
    }

    /// The same, where not all pods have room for it: a plan is not made, and not recorded, if this says no of one of its steps. For
    /// [flow control](crate::flow).
    #[inline]
    pub fn with_room(self, has_room: &'d dyn Fn(&PlanStep) -> bool) -> Self {
        Self { has_room: Some(has_room), ..self }
    }

    /// The same, with its reasons written to a trace. Where the decision fails, the trace ends there.
    #[inline]
    pub fn traced(self, trace: &'d mut Trace<W>) -> Self {
        Self { trace: Some(trace), ..self }
    }
}

impl<const W: usize> fmt::Debug for RoutingInput<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, fleet, excluded, has_room, trace } = self;
        f.debug_struct("RoutingInput")
            .field("request", request)
            .field("fleet", &fleet.version())
            .field("excluded", excluded)
            .field("has_room", &has_room.is_some())
            .field("trace", &trace.is_some())
            .finish()
    }
}
