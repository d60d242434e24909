//! Pods that fail as they are told, and clients that know a good answer.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use pointsman::core::{Pod, Role};
use pointsman::exec::adapter::TokioTimer;
use pointsman::exec::{Transport, TransportError};
use pointsman::plugins::profiles;
use pointsman::plugins::tokenize::{PromptError, PromptTokenizer};
use pointsman::{PodSpec, Router, RouterService};
use tokio::time::{Instant, sleep};
use tower::Service;

/// A byte is a token.
#[derive(Debug)]
struct Bytewise;

impl PromptTokenizer for Bytewise {
    fn tokenize(&self, body: &[u8], tokens: &mut Vec<u32>) -> Result<(), PromptError> {
        tokens.extend(body.iter().map(|byte| u32::from(*byte)));
        Ok(())
    }
}

/// Three pods that do everything.
pub(crate) const ALIKE: &[Role] = &[Role::Both; 3];

/// Two pods that prefill, and two that decode.
const APART: &[Role] = &[Role::Prefill, Role::Prefill, Role::Decode, Role::Decode];

/// The fleets with each of their profiles, and the pods that are bad: one of three, or one of each two.
pub(crate) fn fleets() -> impl Iterator<Item = (&'static [Role], &'static str, &'static [usize])> {
    let alike = profiles::NAMES.into_iter().map(|profile| (ALIKE, profile, &[0][..]));
    alike.chain(["prefill_decode", "prefill_decode_conditional"].map(|profile| (APART, profile, &[0, 2][..])))
}

/// A router over pods of these roles, `pod-0` and so on.
pub(crate) fn router(profile: &'static str, roles: &[Role]) -> Router {
    let pod = |(at, role): (usize, &Role)| PodSpec::new(format!("pod-{at}"), format!("pod-{at}:1")).role(*role);
    let builder = Router::builder("m").pods(roles.iter().enumerate().map(pod)).profile(profile).seed(7);
    builder.tokenizer(Arc::new(Bytewise)).clock(|| Instant::now().into_std()).build().unwrap()
}

/// What a pod does with a request while it is bad.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// It answers so, at once.
    Answer(u16, &'static [(&'static str, &'static str)]),
    /// What it answers ends before its end.
    Cut,
    /// Nobody listens.
    Refused,
    /// It says nothing.
    Silent,
}

pub(crate) type Answer = Result<Response<Full<Bytes>>, TransportError>;

impl Fault {
    pub(crate) async fn happens(self, request: &Request<Bytes>) -> Answer {
        sleep(Duration::from_millis(1)).await;
        match self {
            Self::Answer(status, headers) => Ok(answer(status, headers, "{}")),
            Self::Cut if is_stream(request) => Ok(answer(200, STREAMED, "data: {\"choices\":[]}\n\n")),
            Self::Cut => Ok(answer(200, &[("content-type", "application/json"), ("content-length", "99")], "{\"cho")),
            Self::Refused => Err(TransportError::Connect("connection refused".into())),
            Self::Silent => pending().await,
        }
    }
}

/// What a pod that is well does: 150 ms.
pub(crate) async fn served(request: &Request<Bytes>) -> Answer {
    sleep(Duration::from_millis(150)).await;
    Ok(if is_stream(request) {
        answer(200, STREAMED, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n")
    } else {
        answer(200, &[("content-type", "application/json")], WHOLE)
    })
}

const STREAMED: &[(&str, &str)] = &[("content-type", "text/event-stream")];
const WHOLE: &str = r#"{"choices":[],"kv_transfer_params":{"remote_block_ids":[1],"remote_engine_id":"e","remote_request_id":"r","remote_host":"h","remote_port":1}}"#;

fn is_stream(request: &Request<Bytes>) -> bool {
    let body: serde_json::Value = serde_json::from_slice(request.body()).unwrap();
    body["stream"] == true
}

fn answer(status: u16, headers: &[(&str, &str)], body: &'static str) -> Response<Full<Bytes>> {
    let response =
        headers.iter().fold(Response::builder().status(status), |made, (name, value)| made.header(*name, *value));
    response.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap()
}

/// Sends a request of its own prompt, every other one for a stream, every fourth one long. Whether its client is served, to the end.
pub(crate) async fn ask<T: Transport>(router: &Router, transport: T, number: usize) -> bool {
    let service =
        RouterService::new(router.clone(), router.executor(transport, TokioTimer::new()), TokioTimer::new()).unwrap();
    // A long one is worth a prefill pod of its own.
    let prompt = format!("{number} {}", "of a prompt that nobody has ".repeat(if number % 4 < 2 { 80 } else { 20 }));
    let streams = number.is_multiple_of(2);
    let body = serde_json::json!({"model": "m", "stream": streams, "prompt": prompt, "user": format!("u{number}")});
    let request = Request::post("/v1/completions").header("content-type", "application/json");
    let response = service.clone().call(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await;
    let response = response.unwrap_or_else(|never: Infallible| match never {});
    let is_success = response.status().is_success();
    let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let is_whole = if streams { body.ends_with(b"data: [DONE]\n\n") } else { body == WHOLE };
    is_success && is_whole && !body.windows(5).any(|part| part == b"error")
}

/// A transport of pods that do so with a request.
pub(crate) fn transport<A: Future<Output = Answer> + Send + 'static>(
    pod: impl Fn(Pod, Request<Bytes>) -> A + Send + Sync + 'static,
) -> impl Transport {
    pod
}
