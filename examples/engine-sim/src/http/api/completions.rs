//! Completion handlers: tokens, limits, KV from elsewhere, the engine, and the response.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use routing_plugins::tokenize::PromptTokenizer;

use super::Api;
use super::error::ApiError;
use super::kv_transfer;
use super::request_body::Body;
use super::response_body::{Kind, Reply, Usage};
use super::sse::Stream;
use crate::http::completion::{Completion, OutputLimits};
use crate::http::in_flight::Submission;
use crate::http::request_handle::RequestHandle;

/// `POST /v1/chat/completions`.
pub(super) async fn chat(State(api): State<Arc<Api>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(&api, Kind::Chat, &headers, &body).await
}

/// `POST /v1/completions`.
pub(super) async fn completion(State(api): State<Arc<Api>>, headers: HeaderMap, body: Bytes) -> Response {
    respond(&api, Kind::Completion, &headers, &body).await
}

pub(super) async fn respond(api: &Api, kind: Kind, headers: &HeaderMap, body: &[u8]) -> Response {
    let given = headers.get(&REQUEST_ID);
    let id = given.and_then(|id| id.to_str().ok()).map_or_else(|| new_id(api), str::to_owned);
    let answer = generate(api, kind, &id, body).await;
    let mut response = answer.unwrap_or_else(|error| error.of_kind(kind));
    if let Some(id) = given.cloned().or_else(|| HeaderValue::from_str(&id).ok()) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

async fn generate(api: &Api, kind: Kind, id: &str, bytes: &[u8]) -> Result<Response, ApiError> {
    let engine = &api.engine;
    let status = engine.condition.borrow().status;
    if let Some(status) = status.and_then(|status| StatusCode::from_u16(status).ok()) {
        return Err(ApiError { status, message: format!("answered {status} on demand") });
    }
    let body = Body::read(bytes, &engine.config.model)?;
    if body.has_messages() != (kind != Kind::Completion) {
        return Err(ApiError::bad_request("chats have `messages`, completions have a `prompt`"));
    }
    let prompt = tokens(api, bytes)?;
    let transfer = body.kv_transfer_params.clone().unwrap_or_default();
    let mut limits = body.limits()?;
    if transfer.keeps() {
        limits = OutputLimits { most: Some(1), ..OutputLimits::default() };
    }
    let room = room(&prompt, limits, engine.context())?;
    let received = match transfer.source() {
        Some(source) => kv_transfer::fetch(engine, source, engine.cached(&prompt, body.cache_salt.as_deref())).await?,
        None => 0,
    };
    let completion = Completion::to(&prompt, limits, room);
    let length = prompt.len();
    let kept = transfer.keeps();
    let lease = kept.then(|| format!("{}-{}", id, NEXT.fetch_add(1, Ordering::Relaxed)));
    let (tokens, finish) = (completion.ids(), completion.finish);
    let (name, salt) = (id.to_owned(), body.cache_salt);
    let submission = Submission { name, prompt, completion: tokens, finish, salt, received, lease };
    let Some(handle) = engine.submit(submission) else { return cut_off().await };
    let reply = Reply { kind, id: prefixed(kind, id), model: engine.config.model.clone(), created: seconds() };
    if body.stream != Some(true) || kept {
        return whole(api, handle, reply, completion, length).await;
    }
    let wants_usage = body.stream_options.and_then(|options| options.include_usage).unwrap_or(false);
    let stream =
        Stream { reply, completion, handle, condition: engine.condition.subscribe(), prompt: length, wants_usage };
    let headers = [(CONTENT_TYPE, "text/event-stream; charset=utf-8"), (CACHE_CONTROL, "no-cache")];
    Ok((headers, stream.into_body()).into_response())
}

async fn whole(
    api: &Api,
    mut handle: RequestHandle,
    reply: Reply,
    completion: Completion,
    prompt: usize,
) -> Result<Response, ApiError> {
    let Some(progress) = handle.whole().await else { return cut_off().await };
    let usage = Usage { prompt, cached: progress.cached, completion: completion.words.len() };
    let mut json = reply.whole(&completion.words.concat(), completion.finish, usage);
    if let Some(kept) = &progress.kept {
        json["kv_transfer_params"] = kv_transfer::params(&api.engine, kept);
    }
    Ok(Json(json).into_response())
}

fn tokens(api: &Api, body: &[u8]) -> Result<Vec<u32>, ApiError> {
    let mut tokens = Vec::new();
    api.prompts.tokenize(body, &mut tokens).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        ApiError::bad_request(format!("{error}{cause}"))
    })?;
    match tokens.is_empty() {
        true => Err(ApiError::bad_request("the prompt has no tokens")),
        false => Ok(tokens),
    }
}

/// Tokens that the context has left for a completion.
fn room(prompt: &[u32], limits: OutputLimits, context: usize) -> Result<usize, ApiError> {
    let output = limits.most.unwrap_or(1);
    let room = context.saturating_sub(prompt.len());
    if output > room {
        return Err(ApiError::bad_request(format!(
            "this model's maximum context length is {context} tokens, but {} were requested ({} in the prompt, {output} in \
             the completion)",
            prompt.len() + output,
            prompt.len()
        )));
    }
    Ok(room)
}

/// A pod that died does not respond: its listener is about to close the connection.
async fn cut_off<T>() -> T {
    std::future::pending().await
}

fn prefixed(kind: Kind, id: &str) -> String {
    match kind {
        Kind::Chat => format!("chatcmpl-{id}"),
        Kind::Completion => format!("cmpl-{id}"),
        Kind::Responses => format!("resp_{id}"),
        Kind::Messages => format!("msg_{id}"),
    }
}

fn new_id(api: &Api) -> String {
    format!("{}-{:x}", api.engine.config.name, NEXT.fetch_add(1, Ordering::Relaxed))
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Numbers what has no name, in all pods of the process.
static NEXT: AtomicU64 = AtomicU64::new(0);
