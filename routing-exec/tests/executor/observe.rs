//! What observers tell of a dispatch: the names, and the values.
#![cfg(all(feature = "metrics", feature = "tracing"))]
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::executor_world::*;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use routing_core::{FailurePolicy, PlanStep, Pod, Role, RoutingPlan};
use routing_exec::handoff::PodAddresses;
use routing_exec::observe::{MeteredHost, RequestLabels, RequestMeters, TracedHost, describe};
use routing_exec::{Dispatch, DispatchHost, Executor, TransportExecutor};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Prefill on a pod that refuses, then on one that answers; then a decode of two events, a second apart.
fn carry_out(host: impl DispatchHost) {
    let clock = Clock::default();
    let world = Pods::new(&clock, |pod, _| {
        let wait = |seconds| Act::Wait(Duration::from_secs(seconds));
        match pod.id().index() {
            0 => vec![wait(1), Act::Refuse],
            1 => vec![wait(1), head(200, "application/json"), chunk("{}")],
            _ => vec![wait(1), events(), chunk("data: a\n\n"), wait(1), chunk("data: b\n\n")],
        }
    });
    let pods = pods(3);
    let prefill = PlanStep::new("prefill", Role::Prefill, &pods[..2]).on_failure(FailurePolicy::Skip);
    let plan = RoutingPlan::new(1, [prefill, PlanStep::new("decode", Role::Decode, &pods[2..])]);
    let dispatch = Dispatch::new(dispatch_config(), request(), plan, Vec::new());
    let executor: TransportExecutor<_, _> = TransportExecutor::new(world, clock.clone());
    block_on(&clock, async { read(executor.execute(dispatch, host).await.into_body()).await });
}

#[derive(Clone, Debug, Default)]
struct Recorded {
    values: Arc<Mutex<BTreeMap<String, Vec<f64>>>>,
    described: Arc<Mutex<BTreeMap<String, Option<Unit>>>>,
    lookups: Arc<AtomicUsize>,
}

struct Metric(String, Recorded);

impl Metric {
    fn push(&self, value: f64) {
        self.1.values.lock().unwrap().entry(self.0.clone()).or_default().push(value);
    }
}

impl CounterFn for Metric {
    fn increment(&self, value: u64) {
        self.push(value as f64);
    }

    fn absolute(&self, _: u64) {
        panic!("counters only count");
    }
}

impl HistogramFn for Metric {
    fn record(&self, value: f64) {
        self.push(value);
    }
}

impl Recorded {
    fn looked_up(&self) -> usize {
        self.lookups.load(SeqCst)
    }

    fn metric(&self, key: &Key) -> Arc<Metric> {
        self.lookups.fetch_add(1, SeqCst);
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Metric(format!("{}{{{}}}", key.name(), labels.join(",")), self.clone()))
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().insert(name.as_str().to_owned(), unit);
    }

    fn describe_gauge(&self, name: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("no gauge: {name:?}");
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.described.lock().unwrap().insert(name.as_str().to_owned(), unit);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.metric(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        panic!("no gauge: {key}");
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.metric(key))
    }
}

#[test]
fn a_dispatch_is_counted_by_conventional_names() {
    let recorded = Recorded::default();
    let keeper = Keeper::default();
    metrics::with_local_recorder(&recorded, || {
        describe();
        carry_out(MeteredHost::new(keeper.clone(), RequestLabels::new("chat").model("m")));
    });
    assert_eq!(keeper.0.reports.lock().unwrap().len(), 1, "the host within is told too");
    assert_eq!((keeper.0.holds.load(SeqCst), keeper.0.held_ever.load(SeqCst)), (0, 3));
    let values = recorded.values.lock().unwrap().clone();
    let expected: [(&str, f64); 12] = [
        ("gen_ai_server_request_duration_seconds{gen_ai_operation_name=chat,gen_ai_request_model=m}", 4.0),
        ("gen_ai_server_time_to_first_token_seconds{gen_ai_operation_name=chat,gen_ai_request_model=m}", 3.0),
        ("pointsman_exec_attempt_duration_seconds{step=decode,outcome=completed}", 2.0),
        ("pointsman_exec_attempt_duration_seconds{step=prefill,outcome=completed}", 1.0),
        ("pointsman_exec_attempt_duration_seconds{step=prefill,outcome=connect_failure}", 1.0),
        ("pointsman_exec_attempts_total{step=decode,outcome=completed}", 1.0),
        ("pointsman_exec_attempts_total{step=prefill,outcome=completed}", 1.0),
        ("pointsman_exec_attempts_total{step=prefill,outcome=connect_failure}", 1.0),
        ("pointsman_exec_forwarded_bytes_total{}", 18.0),
        ("pointsman_exec_dropped_handoffs_total{}", 0.0),
        ("pointsman_exec_replans_total{}", 0.0),
        ("pointsman_exec_dispatches_total{outcome=completed}", 1.0),
    ];
    let expected: BTreeMap<_, _> = expected.map(|(name, value)| (name.to_owned(), vec![value])).into();
    assert_eq!(values, expected);
    let described = recorded.described.lock().unwrap();
    for name in values.keys() {
        let name = name.split('{').next().unwrap();
        assert!(described.contains_key(name), "{name} is described");
    }
    assert_eq!(described["gen_ai_server_request_duration_seconds"], Some(Unit::Seconds));
}

#[test]
fn requests_that_are_labelled_alike_look_their_metrics_up_once() {
    let (recorded, alone) = (Recorded::default(), Recorded::default());
    let labels = || RequestLabels::new("chat").model("m");
    metrics::with_local_recorder(&recorded, || {
        let meters = Arc::new(RequestMeters::new(labels()));
        (0..3).for_each(|_| carry_out(MeteredHost::with_meters((), Arc::clone(&meters))));
    });
    metrics::with_local_recorder(&alone, || carry_out(MeteredHost::new((), labels())));
    let once = alone.values.lock().unwrap().clone();
    let three_times = once.iter().map(|(name, values)| (name.clone(), values.repeat(3))).collect::<BTreeMap<_, _>>();
    assert_eq!(*recorded.values.lock().unwrap(), three_times);
    assert_eq!((recorded.looked_up(), alone.looked_up()), (once.len(), once.len()));
}

/// Writes down spans, with their fields, and events.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl tracing::field::Visit for Fields {
    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: tracing::Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Notes {
    fn on_new_span(&self, attributes: &tracing::span::Attributes<'_>, id: &tracing::span::Id, cx: Context<'_, S>) {
        let span = cx.span(id).unwrap();
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let parent = span.parent().map_or("", |parent| parent.name());
        self.0.lock().unwrap().push(format!("open {parent}/{} {:?}", span.name(), fields.0));
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &tracing::span::Id, values: &tracing::span::Record<'_>, cx: Context<'_, S>) {
        values.record(cx.span(id).unwrap().extensions_mut().get_mut::<Fields>().unwrap());
    }

    fn on_event(&self, event: &tracing::Event<'_>, cx: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let parent = cx.event_span(event).map_or("", |span| span.name());
        self.0.lock().unwrap().push(format!("event {parent} {:?}", fields.0));
    }

    fn on_close(&self, id: tracing::span::Id, cx: Context<'_, S>) {
        let span = cx.span(&id).unwrap();
        let extensions = span.extensions();
        self.0.lock().unwrap().push(format!("close {} {:?}", span.name(), extensions.get::<Fields>().unwrap().0));
    }
}

#[derive(Debug)]
struct Numbered;

impl PodAddresses for Numbered {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        Some(format!("10.0.0.{}:8000", pod.id().index()).into())
    }
}

#[test]
fn a_dispatch_and_its_attempts_are_spans_with_conventional_names() {
    let notes = Notes::default();
    let keeper = Keeper::default();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(notes.clone()), || {
        let host =
            TracedHost::new(keeper.clone(), &RequestLabels::new("chat").model("m")).addresses(Arc::new(Numbered));
        carry_out(host);
    });
    assert_eq!((keeper.0.reports.lock().unwrap().len(), keeper.0.first_bytes.load(SeqCst)), (1, 2));
    let notes = notes.0.lock().unwrap();
    let lines: Vec<_> = notes.iter().map(|note| note.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
    let expected = [
        "open /request",
        "open request/attempt",
        "close attempt",
        "open request/attempt",
        "event attempt",
        "close attempt",
        "open request/attempt",
        "event attempt",
        "close attempt",
        "event request",
        "event request",
        "event request",
        "close request",
    ];
    assert_eq!(lines, expected, "{notes:#?}");
    let has = |at: usize, part: &str| assert!(notes[at].contains(part), "{part} in {}", notes[at]);
    has(0, r#""gen_ai.operation.name": "chat""#);
    has(0, r#""gen_ai.request.model": "m""#);
    has(1, r#""server.address": "10.0.0.0", "server.port": "8000""#);
    has(1, r#""pointsman.step": "prefill""#);
    has(6, r#""server.address": "10.0.0.2""#);
    has(9, r#""pointsman.outcome": "connect_failure""#);
    has(11, r#""http.response.status_code": "200""#);
    has(12, r#""http.response.status_code": "200""#);
    has(12, r#""gen_ai.server.time_to_first_token": "3.0""#);
    has(12, r#""gen_ai.server.request.duration": "4.0""#);
    has(12, r#""pointsman.outcome": "completed""#);
    assert!(!notes[12].contains("error.type"));
}

#[test]
fn a_dispatch_that_fails_names_its_error() {
    let (notes, recorded) = (Notes::default(), Recorded::default());
    let clock = Clock::default();
    let world = Pods::new(&clock, |_, _| vec![Act::Refuse]);
    let executor: TransportExecutor<_, _> = TransportExecutor::new(world, clock.clone());
    metrics::with_local_recorder(&recorded, || {
        tracing::subscriber::with_default(tracing_subscriber::registry().with(notes.clone()), || {
            let about = RequestLabels::new("chat");
            let host = TracedHost::new(MeteredHost::new((), about.clone()), &about);
            assert_eq!(block_on(&clock, executor.execute(dispatch(&pods(1)), host)).status(), 502);
        });
    });
    assert!(notes.0.lock().unwrap().last().unwrap().contains(r#""error.type": "pod_failed""#));
    let values = recorded.values.lock().unwrap();
    assert!(
        values.contains_key("gen_ai_server_request_duration_seconds{gen_ai_operation_name=chat,error_type=pod_failed}")
    );
    assert!(values.contains_key("pointsman_exec_dispatches_total{outcome=failed}"));
    assert!(!values.keys().any(|name| name.starts_with("gen_ai_server_time_to_first_token")));
}
