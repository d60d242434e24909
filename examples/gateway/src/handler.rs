//! Request handler of `/v1/chat/completions` and `/v1/completions`: admit, parse, route, dispatch, respond.
//!
//! The rule: a request is counted once, its load is released, and its client gets a response or an error, whatever happens.
//! Responses are streamed as they come; a client that disconnects cancels its pod.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode};
use kv_index::{Pod, PodSet};
use routing_core::{RoutingPlan, Trace};
use routing_exec::adapter::TokioTimer;
use routing_exec::handoff::Api;
use routing_exec::observe::{MeteredHost, RequestLabels};
use routing_exec::{ClientRequest, Dispatch, Executor, request_body};

use super::app_state::{Admission, AppState};
use super::cache_audit::Audited;
use super::error_response::ErrorResponse;
use super::explain;
use super::host::{DecisionBasis, RequestHost};
use super::live_config::LiveConfig;
use super::parsed_request::{ParsedRequest, REQUEST_ID, request_id};
use super::prefetched::Prefetched;
use super::request_log::Decision;
use super::response_body::ResponseBody;
use super::routing_request::RoutingRequest;

/// Handles a completion.
pub(super) async fn completions(State(app): State<Arc<AppState>>, request: Request) -> Response {
    let seed = app.seed();
    let id = request_id(request.headers(), seed);
    let mut response = match respond(&app, request, &id, seed).await {
        Ok(response) => response,
        Err(error) => {
            app.request_log.record_rejection();
            error.response()
        }
    };
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

async fn respond(
    app: &Arc<AppState>,
    request: Request,
    id: &HeaderValue,
    seed: u64,
) -> Result<Response, ErrorResponse> {
    let began = Instant::now();
    // One version of everything, from here to the end.
    let live_config = app.live_config.load_full();
    let limit = live_config.limits.max_requests;
    let admission = app.admit(limit).ok_or_else(|| ErrorResponse::busy(limit))?;
    // Only now: a drain that did not count this request has set the flag before.
    if app.is_draining() {
        return Err(ErrorResponse::draining());
    }
    let (mut parts, body) = request.into_parts();
    parts.headers.insert(REQUEST_ID, id.clone());
    let body = read_body(&live_config, body).await?;
    let parsed = ParsedRequest::parse(body, &app.model)?;
    let routing_request = tokenize(app, parsed, parts.headers.clone(), seed).await?;
    let explained = parts.headers.get(EXPLAIN).is_some_and(|value| value == "1");
    let decided = decide(app, &live_config, &routing_request, explained || app.is_viewed())?;
    dispatch(
        app,
        &app.executor,
        Routed { live_config, routing_request, decided, parts, began, explained, admission, id },
    )
    .await
}

/// Tokenizes the prompt; a long one on a blocking thread.
async fn tokenize(
    app: &Arc<AppState>,
    parsed: ParsedRequest,
    headers: HeaderMap,
    seed: u64,
) -> Result<Arc<RoutingRequest>, ErrorResponse> {
    if parsed.body.len() < LONG_BODY {
        return Ok(RoutingRequest::new(app, parsed, headers, seed));
    }
    let app = Arc::clone(app);
    let made = tokio::task::spawn_blocking(move || RoutingRequest::new(&app, parsed, headers, seed)).await;
    let broken = |_| {
        ErrorResponse::new(StatusCode::INTERNAL_SERVER_ERROR, "tokenize_failed", "the prompt could not be tokenized")
    };
    made.map_err(broken)
}

/// The client's body, within its limit and timeouts.
async fn read_body(live_config: &LiveConfig, body: Body) -> Result<Bytes, ErrorResponse> {
    let (limit, idle) = (live_config.limits.max_request_bytes, live_config.client_idle_timeout);
    // The rest of the body is not read, so nothing can follow it on this connection.
    let rejected =
        |status, message: String| ErrorResponse { close: true, ..ErrorResponse::new(status, "request_body", message) };
    let timer = TokioTimer::new();
    match tokio::time::timeout(idle * BODY_TIMEOUT_FACTOR, request_body::collect(body, limit, idle, &timer)).await {
        Ok(body) => body.map_err(|error| rejected(error.status(), error.to_string())),
        Err(_) => Err(rejected(StatusCode::REQUEST_TIMEOUT, "timeout of the request body".to_owned())),
    }
}

/// A decision, with its trace if one was requested.
struct Decided {
    plan: RoutingPlan,
    trace: Option<Arc<Trace>>,
    at: Instant,
    /// The plan's first pod, and the prompt tokens that it is expected to have cached.
    expected: Option<(Pod, u64)>,
}

fn decide(
    app: &AppState,
    live_config: &LiveConfig,
    routing_request: &RoutingRequest,
    traced: bool,
) -> Result<Decided, ErrorResponse> {
    let mut trace = traced.then(Trace::default);
    let at = Instant::now();
    let request = routing_request.request(&app.model.name, at);
    let plan = live_config.decide(&request, PodSet::EMPTY, trace.as_mut());
    let plan = plan
        .map_err(|error| ErrorResponse::new(StatusCode::SERVICE_UNAVAILABLE, "no_pod_available", error.to_string()))?;
    let expected = plan.steps().first().and_then(|step| {
        let pod = first(step)?;
        Some((pod, routing_request.expected_tokens(app, pod, step)))
    });
    Ok(Decided { plan, trace: trace.map(Arc::new), at, expected })
}

/// A routed request, ready for dispatch.
struct Routed<'r> {
    live_config: Arc<LiveConfig>,
    routing_request: Arc<RoutingRequest>,
    decided: Decided,
    parts: Parts,
    began: Instant,
    explained: bool,
    admission: Admission,
    id: &'r HeaderValue,
}

async fn dispatch<E: Executor>(
    app: &Arc<AppState>,
    executor: &E,
    routed: Routed<'_>,
) -> Result<Response, ErrorResponse> {
    let Routed { live_config, routing_request, decided, mut parts, began, explained, admission, id } = routed;
    let Decided { plan, trace, at, expected } = decided;
    let reasons = trace.as_ref().filter(|_| explained).map(|trace| explain::reasons(trace, &live_config.fleet));
    let key = app.request_log.record_decision(Decision {
        prompt_tokens: routing_request.tokens.len() as u64,
        expected_tokens: expected.map_or(0, |(_, tokens)| tokens),
        picks: plan.steps().iter().map(|step| (Arc::clone(&step.name), first(step))).collect(),
        trace,
        ..Decision::new(id.to_str().unwrap_or("?").into(), began, Arc::clone(&live_config))
    });
    strip_own(&mut parts.headers);
    let body = routing_request.parsed.body.clone();
    let client = ClientRequest::with_fields(&parts, body, routing_request.seed, &live_config.client_fields);
    let basis = DecisionBasis { at, expected };
    let host = RequestHost::new(Arc::clone(app), Arc::clone(&live_config), routing_request, key, basis);
    let audited = host.audited();
    let labels = RequestLabels::new(operation(parts.uri.path())).model(app.model.name.clone());
    let dispatch = Dispatch::new(live_config.dispatch.clone(), client, plan, Vec::new());
    let mut response = tokio::select! {
        response = executor.execute(dispatch, MeteredHost::new(host, labels)) => response,
        () = app.force_closed.cancelled() => return Ok(ErrorResponse::draining().response()),
    };
    strip_own(response.headers_mut());
    // Read now: the request may be finished before its response is forwarded.
    let pod = app.request_log.last_pod(key);
    let is_events = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(EVENTS));
    let (head, body) = response.into_parts();
    let is_whole = !is_events && announced_length(&head.headers).is_some_and(|bytes| bytes <= WHOLE_BYTES);
    let body = match is_whole {
        true => tokio::select! {
            body = Prefetched::all(body) => body,
            () = app.force_closed.cancelled() => return Ok(ErrorResponse::draining().response()),
        },
        false => Prefetched::none(body),
    };
    let body = ResponseBody::new(body, admission, app.force_closed.clone(), is_events);
    let mut response = Response::from_parts(head, Body::new(body));
    if let Some(Audited { observation, .. }) = audited.get() {
        let headers = response.headers_mut();
        headers.insert(EXPECTED_CACHED_TOKENS, observation.expected.into());
        headers.insert(CACHED_TOKENS, observation.actual.into());
    }
    if let Some(reasons) = reasons {
        let name = pod.and_then(|pod| live_config.fleet.pod(pod.id())).map_or("", |info| &*info.name);
        for (header, text) in [(POD, name.to_owned()), (TRACE, explain::header(&reasons))] {
            // A pod's name may be anything.
            if let Ok(value) = HeaderValue::try_from(text) {
                response.headers_mut().insert(header, value);
            }
        }
    }
    Ok(response)
}

/// Removes the headers that are between gateway and client.
fn strip_own(headers: &mut HeaderMap) {
    let own: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with(OWN)).cloned().collect();
    own.iter().for_each(|name| drop(headers.remove(name)));
}

fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn first(step: &routing_core::PlanStep) -> Option<Pod> {
    step.candidates.first().map(|candidate| candidate.pod)
}

fn operation(path: &str) -> &'static str {
    if Api::of(path) == Api::Chat { "chat" } else { "text_completion" }
}

/// A JSON response.
pub(super) fn json(status: StatusCode, value: &impl serde::Serialize) -> Response {
    let mut response = Response::new(Body::from(serde_json::to_vec(value).map_or_else(|_| Bytes::new(), Bytes::from)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Request header: return the decision trace.
const EXPLAIN: &str = "x-pointsman-explain";
/// Response header: the decision trace.
const TRACE: &str = "x-pointsman-trace";
/// Response header: the pod that answered.
const POD: &str = "x-pointsman-pod";
/// Response header of a whole response: prompt tokens that the pod was expected to have cached.
const EXPECTED_CACHED_TOKENS: &str = "x-pointsman-expected-cached-tokens";
/// Response header of a whole response: prompt tokens that the pod's engine says were cached.
const CACHED_TOKENS: &str = "x-pointsman-cached-tokens";
/// The longest response that is read whole, for its headers to tell of its end.
const WHOLE_BYTES: u64 = 1 << 20;
const EVENTS: &[u8] = b"text/event-stream";
/// Prefix of headers that pods neither receive nor send.
const OWN: &str = "x-pointsman-";
/// Bytes from which a prompt is tokenized on a blocking thread: about a millisecond of work.
const LONG_BODY: usize = 64 << 10;
/// The timeout of a whole body, in idle timeouts: bounds clients that send a byte now and then.
const BODY_TIMEOUT_FACTOR: u32 = 4;
