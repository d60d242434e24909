//! The adapters against a real server on the loopback: they stream, they cancel, and they go only where pods are.
#![cfg(all(feature = "tower", feature = "hyper-util", feature = "reqwest", feature = "tokio"))]
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::borrow::Cow;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use crate::executor_world::{Keeper, dispatch, pods, read};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use routing_core::Pod;
use routing_exec::adapter::{HyperTransport, ReqwestTransport, TokioTimer, TowerTransport};
use routing_exec::handoff::PodAddresses;
use routing_exec::{AttemptOutcome, DispatchOutcome, Executor, Failure, Timer, Transport, TransportExecutor};
use tokio::sync::mpsc;

#[derive(Debug, Default)]
struct Map(HashMap<Pod, String>);

impl PodAddresses for Map {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        self.0.get(&pod).map(|address| Cow::Borrowed(&**address))
    }
}

struct Pipe(mpsc::Receiver<Bytes>);

impl Body for Pipe {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// A server whose answers are written by a function that is given each request and where to write.
async fn server<F, W>(status: u16, headers: &'static [(&'static str, &'static str)], write: F) -> SocketAddr
where
    F: Fn(Request<Incoming>, mpsc::Sender<Bytes>) -> W + Clone + Send + Sync + 'static,
    W: Future<Output = ()> + Send + 'static,
{
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let write = write.clone();
            let service = hyper::service::service_fn(move |request| {
                let (sender, receiver) = mpsc::channel(1);
                tokio::spawn(write(request, sender));
                let answer = headers
                    .iter()
                    .fold(Response::builder().status(status), |answer, (name, value)| answer.header(*name, *value));
                async move { Ok::<_, Infallible>(answer.body(Pipe(receiver)).unwrap()) }
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

/// An address where nobody listens.
async fn nobody() -> SocketAddr {
    tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

const EVENTS: &[(&str, &str)] = &[("content-type", "text/event-stream")];

fn at(addresses: &[(Pod, SocketAddr)]) -> Arc<dyn PodAddresses> {
    Arc::new(Map(addresses.iter().map(|(pod, address)| (*pod, address.to_string())).collect()))
}

fn executor<T: Transport>(transport: T) -> TransportExecutor<T, TokioTimer> {
    TransportExecutor::new(transport, TokioTimer::new())
}

/// A service that is ready only after it was asked twice, and is not to be called before.
#[derive(Debug)]
struct Shy<S> {
    service: S,
    asked: u32,
    calls: Arc<AtomicUsize>,
}

impl<S: Clone> Clone for Shy<S> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), asked: 0, calls: Arc::clone(&self.calls) }
    }
}

impl<S: tower_service::Service<R>, R> tower_service::Service<R> for Shy<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.asked += 1;
        if self.asked < 2 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> S::Future {
        assert!(self.asked >= 2, "called before it was ready");
        self.calls.fetch_add(1, SeqCst);
        self.service.call(request)
    }
}

type HyperClient = Client<HttpConnector, Full<Bytes>>;

fn hyper_client() -> HyperClient {
    Client::builder(TokioExecutor::new()).build_http()
}

fn by_hyper(addresses: Arc<dyn PodAddresses>) -> HyperTransport<HttpConnector, Full<Bytes>> {
    HyperTransport::new(hyper_client(), addresses)
}

fn by_tower(addresses: Arc<dyn PodAddresses>) -> TowerTransport<Shy<HyperClient>, Full<Bytes>> {
    TowerTransport::new(Shy { service: hyper_client(), asked: 0, calls: Arc::default() }, addresses)
}

fn by_reqwest(addresses: Arc<dyn PodAddresses>) -> ReqwestTransport {
    // A proxy that leads nowhere: what the environment says of proxies is not for pods.
    let nowhere = reqwest::Proxy::all("http://127.0.0.1:1").unwrap();
    ReqwestTransport::new(reqwest::Client::builder().proxy(nowhere), addresses).unwrap()
}

/// A stream of events comes through byte for byte, and as it is written: the server waits to be read.
async fn streams<T: Transport>(by: impl Fn(Arc<dyn PodAddresses>) -> T) {
    let address = server(200, EVENTS, |request, sender| async move {
        assert_eq!((request.method().as_str(), request.uri().path()), ("POST", "/v1/chat/completions"));
        let length = request.headers()["content-length"].clone();
        let (body, ..) = read(request.into_body()).await;
        assert_eq!((&*body, length.to_str().unwrap()), (&b"{}"[..], "2"));
        for at in 0..50 {
            sender.send(format!("data: {at}\n\n").into()).await.unwrap();
        }
    });
    let pods = pods(1);
    let keeper = Keeper::default();
    let answer = executor(by(at(&[(pods[0], address.await)]))).execute(dispatch(&pods), keeper.clone()).await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-type"]),
        (200, &"text/event-stream".parse().unwrap())
    );
    let (bytes, _, broken) = read(answer.into_body()).await;
    let whole: String = (0..50).map(|at| format!("data: {at}\n\n")).collect();
    assert_eq!((String::from_utf8(bytes).unwrap(), broken), (whole, false));
    assert_eq!(keeper.0.reports.lock().unwrap()[0].outcome, DispatchOutcome::Completed(200));
}

/// A client that drops its body is felt by the server.
async fn cancels<T: Transport>(by: impl Fn(Arc<dyn PodAddresses>) -> T) {
    let (gone, mut felt) = mpsc::channel(1);
    let address = server(200, EVENTS, move |_, sender| {
        let gone = gone.clone();
        async move {
            while sender.send("data: a\n\n".into()).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            gone.send(()).await.unwrap();
        }
    });
    let pods = pods(1);
    let keeper = Keeper::default();
    let answer = executor(by(at(&[(pods[0], address.await)]))).execute(dispatch(&pods), keeper.clone()).await;
    let mut body = answer.into_body();
    assert!(std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().is_ok());
    assert!(felt.try_recv().is_err());
    drop(body);
    tokio::time::timeout(Duration::from_secs(10), felt.recv()).await.expect("the server feels it").unwrap();
    assert_eq!(keeper.0.reports.lock().unwrap()[0].outcome, DispatchOutcome::ClientDisconnected);
}

/// A pod that refuses connections, and one whose address nobody knows, never saw the request; the next one gets it.
async fn goes_on<T: Transport>(by: impl Fn(Arc<dyn PodAddresses>) -> T) {
    let address =
        server(200, EVENTS, |_, sender| async move { sender.send("data: a\n\n".into()).await.unwrap() }).await;
    let pods = pods(3);
    let keeper = Keeper::default();
    let addresses = at(&[(pods[0], nobody().await), (pods[2], address)]);
    let answer = executor(by(addresses)).execute(dispatch(&pods), keeper.clone()).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(read(answer.into_body()).await.0, b"data: a\n\n");
    let reports = keeper.0.reports.lock().unwrap();
    let outcomes: Vec<_> = reports[0].attempts.iter().map(|attempt| attempt.outcome.clone()).collect();
    assert!(
        matches!(&outcomes[0], AttemptOutcome::Failed(Failure::Connect(why)) if why.contains("refused")),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[1], AttemptOutcome::Failed(Failure::Connect("the pod has no address".into())));
    assert_eq!(outcomes[2], AttemptOutcome::Completed);
}

/// A connection that breaks in the middle is no refusal, and its client is told.
async fn breaks<T: Transport>(by: impl Fn(Arc<dyn PodAddresses>) -> T) {
    // Too long to be held until all of it is there.
    const LONG: &[(&str, &str)] = &[("content-length", "2000000"), ("content-type", "application/json")];
    let (read_some, stop) = tokio::sync::watch::channel(false);
    let address = server(200, LONG, move |_, sender| {
        let mut stop = stop.clone();
        async move {
            sender.send("{\"a\":".into()).await.unwrap();
            stop.wait_for(|stop| *stop).await.unwrap();
        }
    });
    let pods = pods(1);
    let keeper = Keeper::default();
    let answer = executor(by(at(&[(pods[0], address.await)]))).execute(dispatch(&pods), keeper.clone()).await;
    let mut body = answer.into_body();
    assert!(std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await.unwrap().is_ok());
    assert_eq!(body.size_hint().exact(), Some(1_999_995));
    read_some.send(true).unwrap();
    let (_, _, broken) = read(body).await;
    assert!(broken, "it must not look complete");
    let reports = keeper.0.reports.lock().unwrap();
    assert!(
        matches!(reports[0].attempts[0].outcome, AttemptOutcome::Failed(Failure::Truncated(_))),
        "{:?}",
        reports[0]
    );
}

/// Behind a real server an answer with a length is complete, though the server never asks for its end.
async fn completes<T: Transport>(by: impl Fn(Arc<dyn PodAddresses>) -> T) {
    const SHORT: &[(&str, &str)] = &[("content-length", "4"), ("content-type", "application/json")];
    let address = server(200, SHORT, |_, sender| async move {
        for piece in ["{\"", "\"}"] {
            // The last piece may be all that the server wants of it.
            let _ = sender.send(piece.into()).await;
        }
    });
    let (pods, keeper) = (pods(1), Keeper::default());
    let executor = executor(by(at(&[(pods[0], address.await)])));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let front = format!("http://{}/", listener.local_addr().unwrap());
    let kept = keeper.clone();
    let service = hyper::service::service_fn(move |_: Request<Incoming>| {
        let answer = executor.execute(dispatch(&pods), kept.clone());
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let asking = async {
        let client = hyper_client();
        for _ in 0..20 {
            let answer = client.request(Request::get(&front).body(Full::default()).unwrap()).await.unwrap();
            assert_eq!(read(answer.into_body()).await.0, b"{\"\"}");
        }
    };
    let serving = async {
        let (stream, _) = listener.accept().await.unwrap();
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.unwrap();
    };
    tokio::join!(asking, serving);
    let reports = keeper.0.reports.lock().unwrap();
    let outcomes: Vec<_> = reports.iter().map(|report| report.outcome.clone()).collect();
    assert_eq!(outcomes, vec![DispatchOutcome::Completed(200); 20]);
}

/// What a pod says of other places is for the client to read, not for us to follow.
async fn stays<T: Transport>(by: impl Fn(Arc<dyn PodAddresses>) -> T) {
    let elsewhere = Arc::new(AtomicUsize::new(0));
    let visits = Arc::clone(&elsewhere);
    let other = server(200, EVENTS, move |_, _| {
        visits.fetch_add(1, SeqCst);
        async {}
    });
    let target = format!("http://{}/secret", other.await);
    let headers: &'static [(&str, &str)] = vec![("location", &*target.leak())].leak();
    let address = server(307, headers, |_, _| async {}).await;
    let pods = pods(1);
    let answer = executor(by(at(&[(pods[0], address)]))).execute(dispatch(&pods), ()).await;
    // Nobody follows it, and the client does not learn the address either.
    assert_eq!((answer.status().as_u16(), elsewhere.load(SeqCst)), (502, 0));
    assert!(!answer.headers().contains_key("location"));
}

macro_rules! adapters {
    ($($name:ident: $by:path;)*) => {$(
        mod $name {
            #[tokio::test]
            async fn streams() {
                super::streams($by).await;
            }

            #[tokio::test]
            async fn cancels() {
                super::cancels($by).await;
            }

            #[tokio::test]
            async fn goes_on() {
                super::goes_on($by).await;
            }

            #[tokio::test]
            async fn breaks() {
                super::breaks($by).await;
            }

            #[tokio::test]
            async fn completes() {
                super::completes($by).await;
            }

            #[tokio::test]
            async fn stays() {
                super::stays($by).await;
            }
        }
    )*};
}

adapters! {
    hyper_util_client: super::by_hyper;
    tower_service_client: super::by_tower;
    reqwest_client: super::by_reqwest;
}

#[tokio::test]
async fn a_tower_service_is_called_once_for_each_request() {
    let address =
        server(200, EVENTS, |_, sender| async move { sender.send("data: a\n\n".into()).await.unwrap() }).await;
    let (pods, calls) = (pods(1), Arc::new(AtomicUsize::new(0)));
    let service = Shy { service: hyper_client(), asked: 0, calls: Arc::clone(&calls) };
    let executor = executor(TowerTransport::<_, Full<Bytes>>::new(service, at(&[(pods[0], address)])));
    for called in 1..=3 {
        assert_eq!(executor.execute(dispatch(&pods), ()).await.status(), 200);
        assert_eq!(calls.load(SeqCst), called);
    }
}

#[tokio::test(start_paused = true)]
async fn tokios_timer_tells_tokios_time() {
    let timer = TokioTimer::new();
    let began = timer.now();
    timer.sleep_until(began + Duration::from_secs(100)).await;
    let passed = timer.now() - began;
    assert!((Duration::from_secs(100)..Duration::from_secs(101)).contains(&passed), "{passed:?}");
}
