//! An API server that plays answers: lists as they stand, and watches whose lines a test sends when it wants to.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::response::Response;
use futures_util::StreamExt;
use kube::{Client, Config};
use parking_lot::Mutex;
use pointsman::{Discovery, PodSpec};
use pointsman_epp::discovery::kubernetes::{InferencePoolPods, KubernetesError};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const POOLS: &str = "/apis/inference.networking.k8s.io/v1/namespaces/default/inferencepools";
pub(crate) const OLD_POOLS: &str = "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/default/inferencepools";
pub(crate) const REWRITES: &str = "/apis/llm-d.ai/v1alpha2/namespaces/default/inferencemodelrewrites";
pub(crate) const OLD_REWRITES: &str =
    "/apis/inference.networking.x-k8s.io/v1alpha2/namespaces/default/inferencemodelrewrites";
pub(crate) const OBJECTIVES: &str = "/apis/llm-d.ai/v1alpha2/namespaces/default/inferenceobjectives";

/// The server, which ends with this.
pub(crate) struct ApiServer {
    shared: Shared,
    uri: http::Uri,
    /// Its own, so that with it all connections end.
    runtime: Mutex<Option<Runtime>>,
}

type Shared = Arc<Mutex<Script>>;

#[derive(Default)]
struct Script {
    /// By path: the answers to come, and the last one given, which stands while no other comes.
    lists: HashMap<String, (VecDeque<ListAnswer>, Option<ListAnswer>)>,
    /// By path: the watches to come. Without one, a watch stays open and says nothing.
    watches: HashMap<String, VecDeque<WatchAnswer>>,
    requests: Vec<Request>,
}

type ListAnswer = (u16, String);

enum WatchAnswer {
    Status(u16, String),
    Lines(UnboundedReceiver<io::Result<Bytes>>),
}

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) query: HashMap<String, String>,
}

impl Request {
    pub(crate) fn is_watch(&self) -> bool {
        self.query.get("watch").is_some_and(|watch| watch == "true")
    }
}

impl ApiServer {
    /// A server that knows of nothing yet.
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let shared = Shared::default();
        let app = axum::Router::new().fallback(answer).with_state(Arc::clone(&shared));
        runtime.spawn(async move { axum::serve(TcpListener::from_std(listener).unwrap(), app).await.unwrap() });
        Self { shared, uri, runtime: Mutex::new(Some(runtime)) }
    }

    /// A server with the recorded pool and its two pods.
    pub(crate) fn recorded() -> Self {
        let server = Self::start();
        server.list(POOLS, 200, include_str!("pools.v1.list.json"));
        server.list(PODS, 200, include_str!("pods.list.json"));
        server
    }

    pub(crate) fn client(&self) -> Client {
        Client::try_from(Config::new(self.uri.clone())).unwrap()
    }

    /// The pods of the recorded pool, told and tried again without waiting.
    pub(crate) fn pods(&self) -> InferencePoolPods {
        let pods = InferencePoolPods::new(self.client(), "default", "vllm");
        pods.debounce(Duration::from_millis(5)).retry(Duration::from_millis(1))
    }

    /// Answers the next list of a path, and those after it until another is given.
    pub(crate) fn list(&self, path: &str, status: u16, body: impl Into<String>) {
        self.shared.lock().lists.entry(path.to_owned()).or_default().0.push_back((status, body.into()));
    }

    /// Answers the next watch of a path.
    pub(crate) fn watch(&self, path: &str) -> Watch {
        let (lines, received) = unbounded_channel();
        self.answer_watch(path, WatchAnswer::Lines(received));
        Watch(lines)
    }

    /// Refuses the next watch of a path.
    pub(crate) fn refuse_watch(&self, path: &str, status: u16, body: impl Into<String>) {
        self.answer_watch(path, WatchAnswer::Status(status, body.into()));
    }

    pub(crate) fn requests(&self, path: &str) -> Vec<Request> {
        self.shared.lock().requests.iter().filter(|request| request.path == path).cloned().collect()
    }

    /// Hangs up on everybody, and listens no more.
    pub(crate) fn stop(&self) {
        if let Some(runtime) = self.runtime.lock().take() {
            runtime.shutdown_background();
        }
    }

    fn answer_watch(&self, path: &str, answer: WatchAnswer) {
        self.shared.lock().watches.entry(path.to_owned()).or_default().push_back(answer);
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A watch: what is sent may be sent before it is asked for. It ends in good order where this is dropped.
pub(crate) struct Watch(UnboundedSender<io::Result<Bytes>>);

impl Watch {
    pub(crate) fn send(&self, event: &Value) {
        self.raw(format!("{event}\n"));
    }

    /// A piece of a line, or of several.
    pub(crate) fn raw(&self, text: impl Into<String>) {
        self.0.send(Ok(Bytes::from(text.into()))).unwrap();
    }

    /// Cuts the connection.
    pub(crate) fn cut(self) {
        self.0.send(Err(io::ErrorKind::ConnectionReset.into())).unwrap();
    }
}

async fn answer(
    State(shared): State<Shared>,
    uri: http::Uri,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let request = Request { path: uri.path().to_owned(), query };
    let mut script = shared.lock();
    script.requests.push(request.clone());
    if !request.is_watch() {
        let answer = script.lists.get_mut(&request.path).and_then(|(coming, standing)| {
            *standing = coming.pop_front().or(standing.take());
            standing.clone()
        });
        let (status, body) = answer.unwrap_or_else(|| (404, "404 page not found\n".to_owned()));
        return plain(status, body);
    }
    match script.watches.get_mut(&request.path).and_then(VecDeque::pop_front) {
        Some(WatchAnswer::Status(status, body)) => plain(status, body),
        Some(WatchAnswer::Lines(lines)) => {
            let lines = futures_util::stream::unfold(lines, async |mut lines| Some((lines.recv().await?, lines)));
            streamed(lines.boxed())
        }
        None => streamed(futures_util::stream::pending().boxed()),
    }
}

fn plain(status: u16, body: impl Into<String>) -> Response {
    Response::builder().status(status).header("content-type", "application/json").body(body.into().into()).unwrap()
}

fn streamed(lines: futures_util::stream::BoxStream<'static, io::Result<Bytes>>) -> Response {
    Response::builder().header("content-type", "application/json").body(Body::from_stream(lines)).unwrap()
}

/// The event that tells a watch that it has fallen behind.
pub(crate) fn gone() -> Value {
    let message = "too old resource version: 48266 (51002)";
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": "Expired", "code": 410});
    json!({"type": "ERROR", "object": status})
}

/// What a discovery says next, within ten seconds.
pub(crate) async fn next(pods: &mut InferencePoolPods) -> Result<Vec<PodSpec>, KubernetesError> {
    tokio::time::timeout(Duration::from_secs(10), pods.next()).await.expect("something is said within ten seconds")
}

/// Whether nothing is said for a while.
pub(crate) async fn is_quiet(pods: &mut InferencePoolPods) -> bool {
    tokio::time::timeout(Duration::from_millis(60), pods.next()).await.is_err()
}

/// `name address role`, with a `~` where the pod drains.
pub(crate) fn brief(pods: &[PodSpec]) -> Vec<String> {
    let brief = |pod: &PodSpec| {
        let name = pod.name.trim_start_matches("vllm-7c9d8f6b5-");
        format!("{}{name} {} {:?}", if pod.draining { "~" } else { "" }, pod.address, pod.role)
    };
    pods.iter().map(brief).collect()
}
