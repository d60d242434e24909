//! Mock OpenAI-compatible server for tests: fixed answers, or a chosen failure.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use pointsman_example_common::words::word;

/// How it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behavior {
    Healthy,
    Status(u16),
    ErrorEvent,
    /// Two tokens, then the connection breaks.
    Truncated,
    NoUsage,
    Silent,
}

pub(crate) struct MockServer {
    address: std::net::SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl MockServer {
    pub(crate) async fn start(behavior: Behavior) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let app = Router::new().route("/v1/chat/completions", post(answer)).with_state(behavior);
        let ended = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move {
            tokio::select! {
                served = async { axum::serve(listener, app).await } => served.unwrap(),
                () = ended => {}
            }
        });
        Self { address, stop, task }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// What it says in so many tokens.
pub(crate) fn reply(tokens: usize) -> String {
    (0..tokens as u64).map(word).collect()
}

async fn answer(State(behavior): State<Behavior>, body: Bytes) -> Response {
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let tokens = body["max_tokens"].as_u64().unwrap() as usize;
    if let Behavior::Status(status) = behavior {
        return StatusCode::from_u16(status).unwrap().into_response();
    }
    let details = serde_json::json!({"cached_tokens": 3});
    let usage = serde_json::json!({"prompt_tokens": 7, "completion_tokens": tokens, "prompt_tokens_details": details});
    if body["stream"] == false {
        let choice = serde_json::json!({"message": {"content": reply(tokens)}, "finish_reason": "length"});
        return serde_json::json!({"choices": [choice], "usage": usage}).to_string().into_response();
    }
    let events = events(behavior, tokens, &usage);
    Response::builder()
        .header("content-type", "text/event-stream; charset=utf-8")
        .body(Body::from_stream(events))
        .unwrap()
}

type Event = Result<Bytes, std::io::Error>;

fn events(behavior: Behavior, tokens: usize, usage: &serde_json::Value) -> BoxStream<'static, Event> {
    let event = |value: serde_json::Value| format!("data: {value}\n\n");
    let piece = |nth: u64| event(serde_json::json!({"choices": [{"delta": {"content": word(nth)}}]}));
    let mut said: Vec<String> = (0..tokens as u64).map(piece).collect();
    let finish = event(serde_json::json!({"choices": [{"delta": {}, "finish_reason": "length"}]}));
    let last = event(serde_json::json!({"choices": [], "usage": usage}));
    let done = "data: [DONE]\n\n".to_owned();
    match behavior {
        Behavior::Silent => return stream::pending().boxed(),
        Behavior::ErrorEvent => said.extend(["event: error\ndata: {\"error\":{}}\n\n".to_owned(), done]),
        Behavior::NoUsage => said.extend([finish, done]),
        Behavior::Truncated => said.truncate(2),
        _ => said.extend([finish, last, done]),
    }
    let whole = stream::iter(said).map(|text| Ok(Bytes::from(text)));
    // An empty turn of the runtime before each, so that they are not all one packet.
    let whole = whole.then(|event: Event| async {
        tokio::task::yield_now().await;
        event
    });
    match behavior {
        Behavior::Truncated => {
            let broken = stream::once(async {
                // What was said is on its way before the connection breaks.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                Err(std::io::Error::other("cut"))
            });
            whole.chain(broken).boxed()
        }
        _ => whole.boxed(),
    }
}
