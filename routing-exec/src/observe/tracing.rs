//! Spans by the `tracing` crate: one for each dispatch, and one within it for each attempt.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use routing_core::{InFlightGuard, PlanStep, Pod, RoutingPlan};
use tracing::{Span, debug, field, info_span};

use super::names::{RequestLabels, duration, error_type};
use crate::executor::DispatchHost;
use crate::handoff::PodAddresses;
use crate::report::{DispatchOutcome, DispatchReport};

/// Traces a dispatch, around another host.
///
/// The dispatch's span, `request`, is a child of the current one, and lasts until the dispatch is over. Within it an `attempt` span
/// lasts as long as the attempt's guard, with an event at its first byte. At the end an event for each attempt has its outcome.
pub struct TracedHost<H> {
    host: H,
    addresses: Option<Arc<dyn PodAddresses>>,
    span: Span,
}

impl<H: DispatchHost> TracedHost<H> {
    /// Wraps a host, and begins the span.
    pub fn new(host: H, labels: &RequestLabels) -> Self {
        let span = info_span!(
            target: TARGET,
            "request",
            otel.kind = "server",
            gen_ai.operation.name = &*labels.operation,
            gen_ai.request.model = labels.model.as_deref(),
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

    /// Adds the addresses of pods to attempts.
    #[must_use]
    pub fn addresses(self, addresses: Arc<dyn PodAddresses>) -> Self {
        Self { addresses: Some(addresses), ..self }
    }

    /// The dispatch's span.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }
}

impl<H: DispatchHost> DispatchHost for TracedHost<H> {
    type Guard = TracedGuard<H::Guard>;

    fn begin_attempt(&mut self, pod: Pod, step: &PlanStep) -> Self::Guard {
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
        TracedGuard { guard: self.host.begin_attempt(pod, step), span }
    }

    fn before_send(&mut self, pod: Pod, headers: &mut HeaderMap) {
        self.host.before_send(pod, headers);
    }

    fn replan(&mut self, excluded: &[Pod]) -> Option<RoutingPlan> {
        debug!(target: TARGET, parent: &self.span, excluded = excluded.len(), "replan");
        self.host.replan(excluded)
    }

    fn finished(&mut self, report: DispatchReport) {
        // The span ends here, though the host may live longer.
        let span = std::mem::replace(&mut self.span, Span::none());
        for attempt in &report.attempts {
            debug!(
                target: TARGET,
                parent: &span,
                {
                    pointsman.step = &*attempt.step,
                    pointsman.pod = attempt.pod.id().index(),
                    pointsman.outcome = attempt.outcome_name(),
                    http.response.status_code = attempt.status,
                    pointsman.bytes = attempt.bytes,
                },
                "attempt ended"
            );
        }
        if let DispatchOutcome::Completed(status) = report.outcome {
            span.record("http.response.status_code", status);
        }
        if let Some(error) = error_type(&report.outcome) {
            span.record("error.type", &*error);
        }
        span.record("pointsman.outcome", report.outcome.name());
        span.record("pointsman.attempts", report.attempts.len());
        span.record("pointsman.bytes", report.bytes);
        span.record("gen_ai.server.time_to_first_token", report.time_to_first_token().map(|time| time.as_secs_f64()));
        span.record("gen_ai.server.request.duration", duration(&report).map(|time| time.as_secs_f64()));
        drop(span);
        self.host.finished(report);
    }
}

/// A guard, and the span of its attempt.
#[derive(Debug)]
pub struct TracedGuard<L> {
    guard: L,
    span: Span,
}

impl<L: InFlightGuard> InFlightGuard for TracedGuard<L> {
    fn first_byte(&mut self) {
        debug!(target: TARGET, parent: &self.span, "first byte");
        self.guard.first_byte();
    }
}

impl<H: fmt::Debug> fmt::Debug for TracedHost<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TracedHost").field("host", &self.host).field("span", &self.span).finish_non_exhaustive()
    }
}

/// The host and port of an address.
fn split(address: &str) -> (Option<&str>, Option<u64>) {
    let authority = address.split_once("://").map_or(address, |(_, authority)| authority).trim_end_matches('/');
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (Some(host), port.parse().ok()),
        _ => (Some(authority), None),
    }
}

const TARGET: &str = "routing_exec";
