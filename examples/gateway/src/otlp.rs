//! OpenTelemetry export by OTLP: spans of each routed request, its decision and its attempts.
//!
//! ```text
//!  (the client's span) ─▶ chat sim ─┬▶ decision
//!                                   ├▶ attempt pod-0 ─▶ (the pod's spans)
//!                                   └▶ attempt pod-1 ─▶ (the pod's spans)
//! ```
//!
//! The rule: a collector that is slow or gone costs spans, and never a request. Spans are queued within bounds, and sent by a thread
//! of the SDK's own.

use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
use opentelemetry::trace::{Span as _, SpanKind, Status, TraceContextExt, Tracer as _, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracer, SdkTracerProvider, Span};
use pointsman::RouterHost;
use routing_core::Pod;
use routing_exec::{AttemptRecord, DispatchOutcome, DispatchReport};

use super::config::OtlpSettings;
use super::error::StartError;
use super::request_record::Arrival;

/// Sends spans to a collector.
#[derive(Debug)]
pub(super) struct Otlp {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

impl Otlp {
    /// Begins to send. Whether the collector is there is not asked.
    ///
    /// # Errors
    ///
    /// When the endpoint is none.
    pub(super) fn start(settings: &OtlpSettings) -> Result<Self, StartError> {
        let exporter = SpanExporter::builder().with_tonic().with_endpoint(&settings.endpoint).build();
        let exporter = exporter.map_err(|error| StartError::Otlp(error.to_string().into()))?;
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(settings.sample_ratio))))
            .with_resource(Resource::builder().with_service_name(settings.service_name.clone()).build())
            .build();
        let tracer = provider.tracer("pointsman-gateway");
        Ok(Self { provider, tracer })
    }

    /// Begins the spans of a request that was routed: its own, and that of its decision, which began at `deciding`.
    pub(super) fn request(&self, host: &RouterHost, operation: &'static str, deciding: Instant) -> RequestSpans {
        let (parts, clock) = (host.request().parts(), Clock::new());
        let parent = TraceContextPropagator::new().extract(&Headers(&parts.headers));
        let arrived = parts.extensions.get::<Arrival>().map_or(deciding, |arrival| arrival.at);
        let model = host.model().to_owned();
        let builder = self.tracer.span_builder(format!("{operation} {model}"));
        let request = builder.with_kind(SpanKind::Server).with_start_time(clock.time(arrived)).with_attributes([
            KeyValue::new("gen_ai.operation.name", operation),
            KeyValue::new("gen_ai.request.model", model),
            KeyValue::new("url.path", parts.uri.path().to_owned()),
            KeyValue::new("http.request.method", parts.method.as_str().to_owned()),
        ]);
        let request = self.tracer.build_with_context(request, &parent);
        let context = parent.with_remote_span_context(request.span_context().clone());
        let decision = self.tracer.span_builder("decision").with_start_time(clock.time(deciding)).with_attributes([
            KeyValue::new("pointsman.profile", host.profile().to_string()),
            KeyValue::new("pointsman.prompt_tokens", count(host.request().tokens().len() as u64)),
            KeyValue::new("pointsman.expected_cached_tokens", count(host.expected().map_or(0, |(_, tokens)| tokens))),
        ]);
        self.tracer.build_with_context(decision, &context).end();
        RequestSpans { tracer: self.tracer.clone(), context, request, attempts: Vec::new(), clock }
    }

    /// Sends what is left, for a bounded time. Blocks.
    pub(super) fn shutdown(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT) {
            tracing::warn!(%error, "the last spans were not exported");
        }
    }
}

/// The spans of one request.
pub(super) struct RequestSpans {
    tracer: SdkTracer,
    /// What spans of the request are children of.
    context: Context,
    request: Span,
    attempts: Vec<(Pod, Span)>,
    clock: Clock,
}

impl RequestSpans {
    /// An attempt is sent: begins its span, and makes it the parent of the pod's.
    pub(super) fn attempt(&mut self, pod: Pod, name: &str, step: &str, headers: &mut HeaderMap) {
        let attempt =
            self.tracer.span_builder(format!("attempt {name}")).with_kind(SpanKind::Client).with_attributes([
                KeyValue::new("pointsman.pod", name.to_owned()),
                KeyValue::new("pointsman.step", step.to_owned()),
            ]);
        let attempt = self.tracer.build_with_context(attempt, &self.context);
        let context = self.context.with_remote_span_context(attempt.span_context().clone());
        TraceContextPropagator::new().inject_context(&context, &mut HeadersMut(headers));
        self.attempts.push((pod, attempt));
    }

    /// The request is over.
    pub(super) fn finish(mut self, report: &DispatchReport) {
        let now = SystemTime::now();
        for record in &report.attempts {
            // In the order they were sent; those that a breaker refused were not.
            let Some(at) = self.attempts.iter().position(|(pod, _)| *pod == record.pod) else { continue };
            if record.outcome_name() == "breaker_open" {
                continue;
            }
            let (_, mut span) = self.attempts.remove(at);
            describe_attempt(&mut span, record);
            span.end_with_timestamp(record.ended.map_or(now, |ended| self.clock.time(ended)));
        }
        let span = &mut self.request;
        span.set_attribute(KeyValue::new("pointsman.outcome", report.outcome.name()));
        span.set_attribute(KeyValue::new("pointsman.attempts", count(report.attempts.len() as u64)));
        if let Some(first) = report.time_to_first_token() {
            span.set_attribute(KeyValue::new("gen_ai.server.time_to_first_token", first.as_secs_f64()));
        }
        let usage = report.attempts.last().and_then(|attempt| attempt.usage).unwrap_or_default();
        for (name, tokens) in [
            ("gen_ai.usage.input_tokens", usage.prompt_tokens),
            ("gen_ai.usage.output_tokens", usage.completion_tokens),
            ("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens),
        ] {
            tokens.into_iter().for_each(|tokens| span.set_attribute(KeyValue::new(name, count(tokens))));
        }
        let error = match &report.outcome {
            DispatchOutcome::Completed(status) => {
                span.set_attribute(KeyValue::new("http.response.status_code", i64::from(*status)));
                (*status >= 400).then(|| status.to_string())
            }
            DispatchOutcome::Failed(error) => Some(error.code().to_owned()),
            outcome => Some(outcome.name().to_owned()),
        };
        fail(span, error);
        span.end_with_timestamp(now);
    }
}

fn describe_attempt(span: &mut Span, record: &AttemptRecord) {
    let outcome = record.outcome_name();
    span.set_attribute(KeyValue::new("pointsman.outcome", outcome));
    if let Some(status) = record.status {
        span.set_attribute(KeyValue::new("http.response.status_code", i64::from(status)));
    }
    if let Some(first) = record.time_to_first_token() {
        span.set_attribute(KeyValue::new("gen_ai.server.time_to_first_token", first.as_secs_f64()));
    }
    fail(span, (outcome != "completed").then(|| outcome.to_owned()));
}

/// Marks a span as failed, if there is an error.
fn fail(span: &mut Span, error: Option<String>) {
    if let Some(error) = error {
        span.set_attribute(KeyValue::new("error.type", error.clone()));
        span.set_status(Status::error(error));
    }
}

fn count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// What the time was at an instant.
#[derive(Clone, Copy)]
struct Clock {
    instant: Instant,
    time: SystemTime,
}

impl Clock {
    fn new() -> Self {
        Self { instant: Instant::now(), time: SystemTime::now() }
    }

    fn time(&self, at: Instant) -> SystemTime {
        match at.checked_duration_since(self.instant) {
            Some(later) => self.time + later,
            None => self.time - self.instant.saturating_duration_since(at),
        }
    }
}

struct Headers<'h>(&'h HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

struct HeadersMut<'h>(&'h mut HeaderMap);

impl Injector for HeadersMut<'_> {
    fn set(&mut self, key: &str, value: String) {
        // An empty `tracestate` is none.
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(key), HeaderValue::try_from(value)) {
            if value.is_empty() {
                self.0.remove(name);
            } else {
                self.0.insert(name, value);
            }
        }
    }
}

/// How long the last spans may take.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
