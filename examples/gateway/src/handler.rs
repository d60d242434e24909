//! Request handler of `/v1/*`: completions, embeddings, Responses, Messages: read, admit, route, dispatch, respond.
//!
//! The rule: a request is counted once, its load is released, and its client gets a response or an error, whatever happens.
//! Responses are streamed as they come; a client that disconnects cancels its pod.

use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use kv_index::Pod;
use pointsman::{Admitted, Audited, LlmRequest, Prepared, check_encoding, ensure_request_id};
use routing_core::Trace;
use routing_exec::handoff::Api;
use routing_exec::observe::MeteredHost;
use routing_exec::{Executor, GatheredBody};

use super::app_state::{Admission, AppState};
use super::error_response::{self, ApiError};
use super::explain;
use super::flow::Claimed;
use super::host::RequestHost;
use super::model::{Model, operation};
use super::prefetched::Prefetched;
use super::request_log::Decision;
use super::request_record::{Arrival, RequestRecord};
use super::response_body::ResponseBody;
use super::uploads;

/// Handles a completion.
pub(super) async fn completions(State(app): State<Arc<AppState>>, mut request: Request) -> Response {
    let id = ensure_request_id(request.headers_mut(), app.number());
    let api = Api::of(request.uri().path());
    let arrival = Arrival::of(&request, id.to_str().unwrap_or("?"));
    request.extensions_mut().insert(arrival.clone());
    let explained = request.headers().get(EXPLAIN).is_some_and(|value| value == "1");
    let mut response = match respond(&app, request, &id, explained).await {
        Ok(response) => response,
        Err(error) => {
            app.request_log.record_rejection();
            if app.observers.wants_records() {
                app.observers.take(RequestRecord::rejected(&arrival, error.status.as_u16(), error.code));
            }
            let mut response = error_response::response(&error, api);
            let shed = error.shed.filter(|_| explained).map(|trace| explain::shed_header(&trace, error.code));
            if let Some(reasons) = shed.and_then(|reasons| HeaderValue::try_from(reasons).ok()) {
                response.headers_mut().insert(TRACE, reasons);
            }
            response
        }
    };
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

async fn respond(
    app: &Arc<AppState>,
    request: Request,
    id: &HeaderValue,
    explained: bool,
) -> Result<Response, ApiError> {
    let began = Instant::now();
    let limits = app.limits.load_full();
    check_encoding(request.headers())?;
    let (mut parts, body) = request.into_parts();
    let (body, admission) = uploads::receive(app, &limits, body).await?;
    let model = app.model_of(&body)?;
    let claimed = Claimed::of(&limits.clients, &parts.headers, began);
    strip_own(&mut parts.headers);
    if !limits.forwards_authorization {
        CREDENTIALS.iter().for_each(|name| drop(parts.headers.remove(name)));
    }
    let api = Api::of(parts.uri.path());
    let request = model.router.read_async(parts, body).await?;
    let class = claimed.class(&limits.clients, model.router.name(), &request);
    let is_traced = explained || app.is_viewed();
    let deciding = Instant::now();
    let prompt_tokens = request.tokens().len() as u64;
    let admitted = admit(app, model, request.classify(class), is_traced).await;
    if let Err(ApiError { shed: Some(trace), code, .. }) = &admitted {
        let (router, id) = (&model.router, id.to_str().unwrap_or("?").into());
        let decision = Decision::new(id, began, router.name(), router.profile(), router.fleet());
        app.request_log.record_shed(Decision { prompt_tokens, ..decision }, trace, code);
    }
    let Admitted { prepared, trace, .. } = admitted?;
    let routed = Routed { prepared, trace: trace.map(Arc::new), began, deciding, explained, admission, api, id };
    Ok(dispatch(app, model, routed).await)
}

/// Routes a request; where there is flow control, when its turn has come and a pod has room. A client that leaves, leaves the queue.
async fn admit(app: &Arc<AppState>, model: &Model, request: LlmRequest, is_traced: bool) -> Result<Admitted, ApiError> {
    let class = request.class();
    let band = model.router.flow_band(class.priority);
    let mut leaving = Leaving(band.map(|band| (app, band, class.key)));
    let admitted = app.force_closed.until(pin!(model.router.admit(request, is_traced, &model.timer))).await;
    let admitted = admitted.unwrap_or_else(|| Err(error_response::draining()));
    leaving.0 = None;
    match &admitted {
        Ok(Admitted { flow: Some(trace), .. }) => app.flow_metrics.went(trace),
        Err(ApiError { shed: Some(trace), code, .. }) => {
            app.flow_metrics.shed(Arc::clone(&trace.band), &trace.key, code);
        }
        _ => {}
    }
    admitted
}

/// A request before it is let go. Dropped, its client left.
struct Leaving<'r>(Option<(&'r Arc<AppState>, Arc<str>, Arc<str>)>);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if let Some((app, band, key)) = self.0.take() {
            app.flow_metrics.shed(band, &key, "left");
        }
    }
}

/// A routed request, ready for dispatch.
struct Routed<'r> {
    prepared: Prepared,
    trace: Option<Arc<Trace>>,
    began: Instant,
    deciding: Instant,
    explained: bool,
    admission: Admission,
    api: Api,
    id: &'r HeaderValue,
}

async fn dispatch(app: &Arc<AppState>, model: &Model, routed: Routed<'_>) -> Response {
    let Routed { prepared, trace, began, deciding, explained, admission, api, id } = routed;
    let Prepared { dispatch, host, .. } = prepared;
    let fleet = Arc::clone(host.fleet());
    let reasons = trace.as_ref().filter(|_| explained).map(|trace| explain::header(trace, &fleet));
    let first = |step: &routing_core::PlanStep| -> Option<Pod> { Some(step.candidates.first()?.pod) };
    let key = app.request_log.record_decision(Decision {
        prompt_tokens: host.request().tokens().len() as u64,
        expected_tokens: host.expected().map_or(0, |(_, tokens)| tokens),
        picks: dispatch.plan().steps().iter().map(|step| (Arc::clone(&step.name), first(step))).collect(),
        trace,
        ..Decision::new(id.to_str().unwrap_or("?").into(), began, host.model(), Arc::clone(host.profile()), fleet)
    });
    let audited = host.audited();
    let operation = operation(api);
    let meters = model.meters(api);
    let spans = app.observers.spans(&host, operation, deciding);
    let host = RequestHost::new(Arc::clone(app), host, key, spans);
    let executing = model.executor.execute(dispatch, MeteredHost::with_meters(host, meters));
    let Some(mut response) = app.force_closed.until(executing).await else {
        return error_response::response(&error_response::draining(), api);
    };
    strip_own(response.headers_mut());
    // Read now: the request may be finished before its response is forwarded.
    let pod = app.request_log.last_pod(key);
    let is_events = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(EVENTS));
    let (head, body) = response.map(GatheredBody::new).into_parts();
    let is_whole = !is_events && announced_length(&head.headers).is_some_and(|bytes| bytes <= WHOLE_BYTES);
    let body = match is_whole {
        true => match app.force_closed.until(pin!(Prefetched::all(body))).await {
            Some(body) => body,
            None => return error_response::response(&error_response::draining(), api),
        },
        false => Prefetched::none(body),
    };
    let body = ResponseBody::new(body, admission, app.force_closed.given(), is_events.then_some(api));
    let mut response = Response::from_parts(head, Body::new(body));
    if let Some(Audited { observation, .. }) = audited.get() {
        let headers = response.headers_mut();
        headers.insert(EXPECTED_CACHED_TOKENS, observation.expected.into());
        headers.insert(CACHED_TOKENS, observation.actual.into());
    }
    if let Some(reasons) = reasons {
        let name = pod.map_or_else(String::new, |name| name.to_string());
        for (header, text) in [(POD, name), (TRACE, reasons)] {
            // A pod's name may be anything.
            if let Ok(value) = HeaderValue::try_from(text) {
                response.headers_mut().insert(header, value);
            }
        }
    }
    response
}

/// Removes the headers that are between gateway and client.
fn strip_own(headers: &mut HeaderMap) {
    let own: Vec<_> = headers.keys().filter(|name| name.as_str().starts_with(OWN)).cloned().collect();
    own.iter().for_each(|name| drop(headers.remove(name)));
}

fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A JSON response.
pub(super) fn json(status: StatusCode, value: &impl serde::Serialize) -> Response {
    let mut response = Response::new(Body::from(serde_json::to_vec(value).map_or_else(|_| Bytes::new(), Bytes::from)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The header of the request id, towards clients and pods.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Headers that clients of the APIs say who they are by.
const CREDENTIALS: [HeaderName; 2] = [AUTHORIZATION, HeaderName::from_static("x-api-key")];
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
