//! Spans by the `tracing` crate: one for a run, and one within it for each attempt.

use std::fmt;
use std::sync::Arc;

use routing_core::{InFlightGuard, PlanStep, Pod, RoutingPlan};
use tracing::{Span, debug, field, info_span};

use super::names::{About, duration, error, fate, first_byte, outcome};
use crate::driver::Host;
use crate::handoff::Addresses;
use crate::record::{Outcome, Report};

/// A host that traces its run, around another.
///
/// The run's span, `request`, is a child of the one that is current when this is made, and lasts until the run is over. Within
/// it an `attempt` span lasts as long as its pod is held, with an event at its first byte. At the end an event for each attempt
/// says what became of it.
pub struct Traced<H> {
    host: H,
    addresses: Option<Arc<dyn Addresses>>,
    span: Span,
}

impl<H: Host> Traced<H> {
    /// Begins the span of a run of this request.
    pub fn new(host: H, about: &About) -> Self {
        let span = info_span!(
            target: TARGET,
            "request",
            otel.kind = "server",
            gen_ai.operation.name = &*about.operation,
            gen_ai.request.model = about.model.as_deref(),
            http.response.status_code = field::Empty,
            "error.type" = field::Empty,
            pointsman.outcome = field::Empty,
            pointsman.attempts = field::Empty,
            pointsman.bytes = field::Empty,
            gen_ai.server.time_to_first_token = field::Empty,
            gen_ai.server.request.duration = field::Empty,
        );
        Self { host, addresses: None, span }
    }

    /// The same, whose attempts tell where their pods are.
    #[must_use]
    pub fn addresses(self, addresses: Arc<dyn Addresses>) -> Self {
        Self { addresses: Some(addresses), ..self }
    }

    /// The run's span, for a host to add to.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }
}

impl<H: Host> Host for Traced<H> {
    type Hold = TracedHold<H::Hold>;

    fn hold(&mut self, pod: Pod, step: &PlanStep) -> Self::Hold {
        let address = self.addresses.as_ref().and_then(|addresses| addresses.address(pod));
        let (server, port) = address.as_deref().map_or((None, None), split);
        let span = info_span!(
            target: TARGET,
            parent: &self.span,
            "attempt",
            otel.kind = "client",
            pointsman.step = &*step.name,
            pointsman.role = ?step.role,
            pointsman.pod = pod.id().index(),
            pointsman.pod.generation = pod.generation(),
            server.address = server,
            server.port = port,
        );
        TracedHold { hold: self.host.hold(pod, step), span }
    }

    fn replan(&mut self, without: &[Pod]) -> Option<RoutingPlan> {
        debug!(target: TARGET, parent: &self.span, without = without.len(), "decided anew");
        self.host.replan(without)
    }

    fn finished(&mut self, report: Report) {
        // The span ends here, though its host may be kept a while longer.
        let span = std::mem::replace(&mut self.span, Span::none());
        for attempt in &report.attempts {
            debug!(
                target: TARGET,
                parent: &span,
                {
                    pointsman.step = &*attempt.step,
                    pointsman.pod = attempt.pod.id().index(),
                    pointsman.outcome = fate(&attempt.fate),
                    http.response.status_code = attempt.status,
                    pointsman.bytes = attempt.bytes,
                },
                "attempt ended"
            );
        }
        if let Outcome::Completed(status) = report.outcome {
            span.record("http.response.status_code", status);
        }
        if let Some(error) = error(&report.outcome) {
            span.record("error.type", &*error);
        }
        span.record("pointsman.outcome", outcome(&report.outcome));
        span.record("pointsman.attempts", report.attempts.len());
        span.record("pointsman.bytes", report.bytes);
        span.record("gen_ai.server.time_to_first_token", first_byte(&report).map(|time| time.as_secs_f64()));
        span.record("gen_ai.server.request.duration", duration(&report).map(|time| time.as_secs_f64()));
        drop(span);
        self.host.finished(report);
    }
}

/// A share of load, and the span of the attempt that it is for.
#[derive(Debug)]
pub struct TracedHold<L> {
    hold: L,
    span: Span,
}

impl<L: InFlightGuard> InFlightGuard for TracedHold<L> {
    fn first_byte(&mut self) {
        debug!(target: TARGET, parent: &self.span, "first byte");
        self.hold.first_byte();
    }
}

impl<H: fmt::Debug> fmt::Debug for Traced<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traced").field("host", &self.host).field("span", &self.span).finish_non_exhaustive()
    }
}

/// A host and its port.
fn split(address: &str) -> (Option<&str>, Option<u64>) {
    let authority = address.split_once("://").map_or(address, |(_, authority)| authority).trim_end_matches('/');
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (Some(host), port.parse().ok()),
        _ => (Some(authority), None),
    }
}

const TARGET: &str = "routing_exec";
