//! Test fixture: fake pods, a client, and a gateway between them.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use pointsman_gateway::config::PodSettings;
use pointsman_gateway::{Config, Gateway};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// What a pod answers.
#[derive(Clone, Debug)]
pub(crate) enum Script {
    /// A document.
    Whole(&'static str),
    /// Events, at once.
    Events(&'static [&'static str]),
    /// So many events, each in a chunk of its own, at once.
    Burst(usize),
    /// Events, the first at once and each of the others when it is let go.
    Gated(&'static [&'static str]),
    /// An error.
    Status(u16),
    /// A document, with these headers.
    With(&'static [(&'static str, &'static str)]),
    /// Events without end.
    Endless,
    /// The beginning of a document that has a length, and no end.
    Stuck,
}

pub(crate) struct FakePod {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    inner: Arc<Inner>,
    server: Option<(CancellationToken, JoinHandle<()>)>,
}

struct Inner {
    script: Mutex<Script>,
    seen: Mutex<Vec<(HeaderMap, Bytes)>>,
    gate: Semaphore,
    healthy: Mutex<bool>,
    /// Streams whose client left.
    left: Semaphore,
}

impl FakePod {
    pub(crate) async fn start(name: &str, script: Script) -> Self {
        let inner = Arc::new(Inner {
            script: Mutex::new(script),
            seen: Mutex::default(),
            gate: Semaphore::new(0),
            healthy: Mutex::new(true),
            left: Semaphore::new(0),
        });
        let router = Router::new()
            .route("/v1/chat/completions", post(answer))
            .route("/v1/completions", post(answer))
            .route("/v1/embeddings", post(answer))
            .route("/v1/responses", post(answer))
            .route("/v1/messages", post(answer))
            .route("/v1/messages/count_tokens", post(answer))
            .route("/health", get(health))
            .route("/metrics", get(async || "vllm:num_requests_running 0\nvllm:kv_cache_usage_perc 0.25\n"))
            .with_state(Arc::clone(&inner));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let server = tokio::spawn(async move {
            tokio::select! {
                served = axum::serve(listener, router) => served.unwrap(),
                () = stopped.cancelled() => {}
            }
        });
        Self { name: name.to_owned(), address, inner, server: Some((stop, server)) }
    }

    pub(crate) fn settings(&self) -> PodSettings {
        PodSettings::new(&self.name, &format!("http://{}", self.address))
    }

    pub(crate) fn answers(&self, script: Script) {
        *self.inner.script.lock() = script;
    }

    pub(crate) fn is_healthy(&self, healthy: bool) {
        *self.inner.healthy.lock() = healthy;
    }

    /// Lets so many events go.
    pub(crate) fn let_go(&self, events: usize) {
        self.inner.gate.add_permits(events);
    }

    pub(crate) fn seen(&self) -> Vec<(HeaderMap, Bytes)> {
        self.inner.seen.lock().clone()
    }

    /// Waits until a client has left a stream.
    pub(crate) async fn left(&self) {
        within("the pod to feel that its client left", self.inner.left.acquire()).await.unwrap().forget();
    }

    /// Nobody listens any more.
    pub(crate) async fn die(&mut self) {
        if let Some((stop, server)) = self.server.take() {
            stop.cancel();
            server.await.unwrap();
        }
    }
}

async fn health(State(pod): State<Arc<Inner>>) -> StatusCode {
    if *pod.healthy.lock() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}

async fn answer(State(pod): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    pod.seen.lock().push((parts.headers, body));
    let script = pod.script.lock().clone();
    let events = |body| Response::builder().header("content-type", "text/event-stream").body(body).unwrap();
    match script {
        Script::Whole(text) => {
            Response::builder().header("content-type", "application/json").body(text.into()).unwrap()
        }
        Script::Events(pieces) => events(Body::from(pieces.concat())),
        Script::Status(status) => Response::builder().status(status).body(r#"{"error":{}}"#.into()).unwrap(),
        Script::With(headers) => {
            let answer = headers.iter().fold(Response::builder(), |answer, (name, value)| answer.header(*name, *value));
            answer.body(WHOLE.into()).unwrap()
        }
        Script::Burst(count) => {
            let chunks = (0..count).map(|_| Ok::<_, Infallible>(Bytes::from_static(b"data: {\"choices\":[]}\n\n")));
            let chunks = chunks.chain([Ok(Bytes::from_static(b"data: [DONE]\n\n"))]);
            events(Body::from_stream(futures_util::stream::iter(chunks)))
        }
        Script::Endless => {
            let event = Bytes::from(format!("data: {}\n\n", "x".repeat(64 << 10)));
            events(Body::from_stream(futures_util::stream::repeat(Ok::<_, Infallible>(event))))
        }
        Script::Stuck => {
            let begun = futures_util::stream::once(async { Ok::<_, Infallible>(Bytes::from_static(b"{")) });
            let stream = futures_util::StreamExt::chain(begun, futures_util::stream::pending());
            let answer = Response::builder().header("content-type", "application/json").header("content-length", "100");
            answer.body(Body::from_stream(stream)).unwrap()
        }
        Script::Gated(pieces) => {
            let (sender, mut receiver) = mpsc::channel::<&'static str>(1);
            tokio::spawn(write(pod, pieces, sender));
            let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
            events(Body::from_stream(futures_util::StreamExt::map(stream, Ok::<_, Infallible>)))
        }
    }
}

async fn write(pod: Arc<Inner>, pieces: &'static [&'static str], sender: mpsc::Sender<&'static str>) {
    for (at, piece) in pieces.iter().enumerate() {
        if at > 0 {
            tokio::select! {
                permit = pod.gate.acquire() => permit.unwrap().forget(),
                () = sender.closed() => {}
            }
        }
        if sender.is_closed() || sender.send(piece).await.is_err() {
            pod.left.add_permits(1);
            return;
        }
    }
}

/// A client.
#[derive(Clone)]
pub(crate) struct Client {
    http: HyperClient<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

/// An answer that is whole.
#[derive(Debug)]
pub(crate) struct ClientResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl ClientResponse {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { http: HyperClient::builder(TokioExecutor::new()).build_http(), address }
    }

    /// Sends a request, and gives what begins to be its answer.
    pub(crate) async fn begin(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> Response<Incoming> {
        let request = http::Request::post(format!("http://{}{path}", self.address));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(Full::from(body.to_owned())).unwrap();
        within("an answer to begin", self.http.request(request)).await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> ClientResponse {
        whole(self.begin(path, body, headers).await).await
    }

    pub(crate) async fn chat(&self) -> ClientResponse {
        self.post("/v1/chat/completions", CHAT, &[]).await
    }

    pub(crate) async fn get(&self, path: &str) -> ClientResponse {
        self.try_get(path).await.unwrap()
    }

    /// Fails where the server closes the connection while the request is on its way.
    pub(crate) async fn try_get(&self, path: &str) -> Result<ClientResponse, hyper_util::client::legacy::Error> {
        let request = http::Request::get(format!("http://{}{path}", self.address)).body(Full::default()).unwrap();
        Ok(whole(within("an answer to begin", self.http.request(request)).await?).await)
    }
}

async fn whole(answer: Response<Incoming>) -> ClientResponse {
    let (parts, body) = answer.into_parts();
    let body = within("an answer to end", body.collect()).await.unwrap().to_bytes();
    ClientResponse { status: parts.status.as_u16(), headers: parts.headers, body }
}

/// The next piece of an answer.
pub(crate) async fn piece(body: &mut Incoming) -> Option<Result<String, hyper::Error>> {
    let frame = within("a piece of an answer", body.frame()).await?;
    Some(frame.map(|frame| String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()))
}

/// A configuration for pods that is quick to notice things.
pub(crate) fn config(pods: &[&FakePod]) -> Config {
    let mut config = Config::default_for(pods.iter().map(|pod| pod.settings()).collect());
    config.health_check.interval = Duration::from_millis(50);
    config
}

pub(crate) async fn gateway(pods: &[&FakePod]) -> (Gateway, Client) {
    let gateway = Gateway::start(config(pods)).await.unwrap();
    let client = Client::new(gateway.address());
    (gateway, client)
}

/// Waits for something that must come soon.
pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(10), future).await.unwrap_or_else(|_| panic!("waited 10 s for {what}"))
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    within(what, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

pub(crate) const CHAT: &str = r#"{"model":"sim","messages":[{"role":"user","content":"hello there"}]}"#;
pub(crate) const STREAMED: &str =
    r#"{"model":"sim","stream":true,"messages":[{"role":"user","content":"hello there"}]}"#;
pub(crate) const EVENTS: &[&str] = &["data: {\"a\":1}\n\n", "data: {\"b\":2}\n\n", "data: [DONE]\n\n"];
pub(crate) const WHOLE: &str = r#"{"id":"x",  "choices":[]}"#;
