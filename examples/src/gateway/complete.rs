//! One request: taken in, decided on, carried out, answered.
//!
//! The rule: whatever becomes of it, it is counted once, its load is let go, and its client has an answer that says what it
//! is. An answer passes through as it comes; a client that leaves cancels its pod.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use kv_index::PodSet;
use routing_core::{RoutingPlan, Trace};
use routing_exec::adapter::TokioTimer;
use routing_exec::handoff::Api;
use routing_exec::observe::{About, Counted};
use routing_exec::{ClientRequest, Run, upload};

use super::answer::Refusal;
use super::asked::{Asked, REQUEST_ID, request_id};
use super::book::Decision;
use super::explain;
use super::host::Hosted;
use super::passing::Passing;
use super::serving::Serving;
use super::shared::{Admission, Shared};
use super::wanted::Wanted;

/// Answers a completion, of chats and of texts.
pub(super) async fn complete(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let seed = shared.seed();
    let id = request_id(request.headers(), seed);
    let mut response = match answer(&shared, request, &id, seed).await {
        Ok(response) => response,
        Err(refusal) => {
            shared.book.refused();
            refusal.response()
        }
    };
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

async fn answer(shared: &Arc<Shared>, request: Request, id: &HeaderValue, seed: u64) -> Result<Response, Refusal> {
    let began = Instant::now();
    if shared.is_draining() {
        return Err(Refusal::draining());
    }
    // One version of everything, from here to the end.
    let serving = shared.serving.load_full();
    let limit = serving.limits.in_flight;
    let admission = shared.admit(limit).ok_or_else(|| Refusal::busy(limit))?;
    let (mut parts, body) = request.into_parts();
    parts.headers.insert(REQUEST_ID, id.clone());
    let body = upload::collect(body, serving.limits.body_bytes, UPLOAD_IDLE, &TokioTimer::new()).await;
    let body = body.map_err(|error| {
        // What is left of the body is not read, so nothing can follow it on this connection.
        Refusal { close: true, ..Refusal::new(error.status(), "upload", error.to_string()) }
    })?;
    let asked = Asked::read(body, &shared.model)?;
    let wanted = Wanted::new(shared, asked, parts.headers.clone(), seed);
    let explained = parts.headers.get(EXPLAIN).is_some_and(|value| value == "1");
    let decided = decide(shared, &serving, &wanted, explained || shared.is_watched())?;
    carry_out(shared, Order { serving, wanted, decided, parts, began, explained, admission, id }).await
}

/// What was decided, and why if that was wanted.
struct Decided {
    plan: RoutingPlan,
    trace: Option<Arc<Trace>>,
}

fn decide(shared: &Shared, serving: &Serving, wanted: &Wanted, traced: bool) -> Result<Decided, Refusal> {
    let mut trace = traced.then(Trace::default);
    let request = wanted.request(&shared.model.name, Instant::now());
    let plan = serving.decide(&request, PodSet::EMPTY, trace.as_mut());
    let plan =
        plan.map_err(|error| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "no_pod_available", error.to_string()))?;
    Ok(Decided { plan, trace: trace.map(Arc::new) })
}

/// Everything that a request is carried out by.
struct Order<'o> {
    serving: Arc<Serving>,
    wanted: Arc<Wanted>,
    decided: Decided,
    parts: Parts,
    began: Instant,
    explained: bool,
    admission: Admission,
    id: &'o HeaderValue,
}

async fn carry_out(shared: &Arc<Shared>, order: Order<'_>) -> Result<Response, Refusal> {
    let Order { serving, wanted, decided, parts, began, explained, admission, id } = order;
    let Decided { plan, trace } = decided;
    let reasons = trace.as_ref().filter(|_| explained).map(|trace| explain::reasons(trace, &serving.fleet));
    let key = shared.book.decided(Decision {
        prompt_tokens: wanted.tokens.len() as u64,
        matched_tokens: wanted.matched(shared, &plan),
        picks: plan.steps().iter().map(|step| (Arc::clone(&step.name), first(step))).collect(),
        trace,
        ..Decision::new(id.to_str().unwrap_or("?").into(), began, Arc::clone(&serving))
    });
    let client = ClientRequest::new(&parts, wanted.asked.body.clone(), wanted.seed);
    let host = Hosted::new(Arc::clone(shared), Arc::clone(&serving), wanted, key);
    let about = About::new(operation(parts.uri.path())).model(shared.model.name.clone());
    let run = Run::new(serving.settings.clone(), client, plan, Vec::new());
    let answer = tokio::select! {
        answer = shared.driver.execute(run, Counted::new(host, about)) => answer,
        () = shared.cut.cancelled() => return Ok(Refusal::draining().response()),
    };
    // Read now: the run may be over before its answer is passed on.
    let pod = shared.book.last_pod(key);
    let is_events = answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(EVENTS));
    let mut answer = answer.map(|body| Body::new(Passing::new(body, admission, shared.cut.clone(), is_events)));
    if let Some(reasons) = reasons {
        let name = pod.and_then(|pod| serving.fleet.pod(pod.id())).map_or("", |info| &*info.name);
        for (header, text) in [(POD, name.to_owned()), (TRACE, explain::header(&reasons))] {
            // Names of pods are an operator's, and may be anything.
            if let Ok(value) = HeaderValue::try_from(text) {
                answer.headers_mut().insert(header, value);
            }
        }
    }
    Ok(answer)
}

fn first(step: &routing_core::PlanStep) -> Option<routing_core::Pod> {
    step.candidates.first().map(|candidate| candidate.pod)
}

fn operation(path: &str) -> &'static str {
    if Api::of(path) == Api::Chat { "chat" } else { "text_completion" }
}

/// The body of a whole answer, for those that make one.
pub(super) fn json(status: StatusCode, value: &impl serde::Serialize) -> Response {
    let mut response = Response::new(Body::from(serde_json::to_vec(value).map_or_else(|_| Bytes::new(), Bytes::from)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What a client asks reasons by.
const EXPLAIN: &str = "x-pointsman-explain";
/// What it gets them in.
const TRACE: &str = "x-pointsman-trace";
/// Which pod answered.
const POD: &str = "x-pointsman-pod";
const EVENTS: &[u8] = b"text/event-stream";
/// How long a client may pause in its own request.
const UPLOAD_IDLE: Duration = Duration::from_secs(10);
