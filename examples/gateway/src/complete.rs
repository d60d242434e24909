//! One request: taken in, decided on, carried out, answered.
//!
//! The rule: whatever becomes of it, it is counted once, its load is let go, and its client has an answer that says what it
//! is. An answer passes through as it comes; a client that leaves cancels its pod.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use kv_index::PodSet;
use routing_core::{RoutingPlan, Trace};
use routing_exec::adapter::TokioTimer;
use routing_exec::handoff::Api;
use routing_exec::observe::{MeteredHost, RequestLabels};
use routing_exec::{ClientRequest, Dispatch, Executor, request_body};

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
    // One version of everything, from here to the end.
    let serving = shared.serving.load_full();
    let limit = serving.limits.in_flight;
    let admission = shared.admit(limit).ok_or_else(|| Refusal::busy(limit))?;
    // Only now: a drain that did not count this request was seen to begin by it.
    if shared.is_draining() {
        return Err(Refusal::draining());
    }
    let (mut parts, body) = request.into_parts();
    parts.headers.insert(REQUEST_ID, id.clone());
    let body = uploaded(&serving, body).await?;
    let asked = Asked::read(body, &shared.model)?;
    let wanted = wanted(shared, asked, parts.headers.clone(), seed).await?;
    let explained = parts.headers.get(EXPLAIN).is_some_and(|value| value == "1");
    let decided = decide(shared, &serving, &wanted, explained || shared.is_watched())?;
    carry_out(shared, &shared.executor, Order { serving, wanted, decided, parts, began, explained, admission, id })
        .await
}

/// The request with its tokens. Those of a long prompt take a while, and are made where nobody else waits.
async fn wanted(shared: &Arc<Shared>, asked: Asked, headers: HeaderMap, seed: u64) -> Result<Arc<Wanted>, Refusal> {
    if asked.body.len() < LONG_BODY {
        return Ok(Wanted::new(shared, asked, headers, seed));
    }
    let shared = Arc::clone(shared);
    let made = tokio::task::spawn_blocking(move || Wanted::new(&shared, asked, headers, seed)).await;
    let broken = |_| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "untokenized", "the prompt could not be read");
    made.map_err(broken)
}

/// The client's body, if it comes in time and is not too large.
async fn uploaded(serving: &Serving, body: Body) -> Result<Bytes, Refusal> {
    let (limit, pause) = (serving.limits.body_bytes, serving.client_pause);
    // What is left of the body is not read, so nothing can follow it on this connection.
    let refused = |status, message: String| Refusal { close: true, ..Refusal::new(status, "upload", message) };
    let timer = TokioTimer::new();
    match tokio::time::timeout(pause * UPLOAD_PAUSES, request_body::collect(body, limit, pause, &timer)).await {
        Ok(body) => body.map_err(|error| refused(error.status(), error.to_string())),
        Err(_) => Err(refused(StatusCode::REQUEST_TIMEOUT, "the request's body took too long".to_owned())),
    }
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

async fn carry_out<E: Executor>(shared: &Arc<Shared>, executor: &E, order: Order<'_>) -> Result<Response, Refusal> {
    let Order { serving, wanted, decided, mut parts, began, explained, admission, id } = order;
    let Decided { plan, trace } = decided;
    let reasons = trace.as_ref().filter(|_| explained).map(|trace| explain::reasons(trace, &serving.fleet));
    let key = shared.book.decided(Decision {
        prompt_tokens: wanted.tokens.len() as u64,
        matched_tokens: wanted.matched(shared, &plan),
        picks: plan.steps().iter().map(|step| (Arc::clone(&step.name), first(step))).collect(),
        trace,
        ..Decision::new(id.to_str().unwrap_or("?").into(), began, Arc::clone(&serving))
    });
    strip_own(&mut parts.headers);
    let client = ClientRequest::new(&parts, wanted.asked.body.clone(), wanted.seed);
    let host = Hosted::new(Arc::clone(shared), Arc::clone(&serving), wanted, key);
    let labels = RequestLabels::new(operation(parts.uri.path())).model(shared.model.name.clone());
    let dispatch = Dispatch::new(serving.dispatch.clone(), client, plan, Vec::new());
    let mut answer = tokio::select! {
        answer = executor.execute(dispatch, MeteredHost::new(host, labels)) => answer,
        () = shared.cut.cancelled() => return Ok(Refusal::draining().response()),
    };
    strip_own(answer.headers_mut());
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

/// Takes out what only a gateway and its client say to each other.
fn strip_own(headers: &mut HeaderMap) {
    let own: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with(OWN)).cloned().collect();
    own.iter().for_each(|name| drop(headers.remove(name)));
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
/// What is between a client and its gateway, and no pod's to hear or to say.
const OWN: &str = "x-pointsman-";
/// From how many bytes on a prompt's tokens are made aside: about a millisecond of work.
const LONG_BODY: usize = 64 << 10;
/// In how many of its longest pauses a request must have come: who sends a byte now and then takes a place for no use.
const UPLOAD_PAUSES: u32 = 4;
