//! Health checks over HTTP: an engine's health, and what its metrics tell.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::AUTHORIZATION;
use http::uri::Scheme;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::TokioExecutor;
use kv_index::Pod;
use parking_lot::Mutex;
use routing_exec::handoff::PodAddresses;

use super::{Health, HealthCheck};
use crate::engine_metrics::{EngineAdapters, engine_adapters, engine_cache, engine_load};

/// `GET /health` and then `/metrics`: any engine's health, and vLLM's or SGLang's load.
///
/// Its own client speaks plain HTTP: a pod at `https://` is unreachable to it. Bring one [that speaks TLS](Self::with_client) for such
/// pods. A pod's key is sent along.
#[derive(Clone, Debug)]
pub struct HttpHealth<C = HttpConnector> {
    client: Client<C, Full<Bytes>>,
    addresses: Arc<dyn PodAddresses>,
    timeout: Duration,
    probe: Probe,
    metrics: Endpoint,
    listener: Option<Listener>,
    /// What pods said of themselves beside their load.
    told: Arc<Mutex<HashMap<Pod, Told>>>,
}

/// What makes a pod healthy.
#[derive(Clone, Copy, Debug)]
enum Probe {
    /// That it says so at `/health`.
    Health,
    /// That it answers at all when it is asked for its metrics.
    Metrics,
}

/// Where a pod is asked.
#[derive(Clone, Debug)]
struct Endpoint {
    path: Cow<'static, str>,
    /// If not the pod's own, and so is the scheme.
    port: Option<u16>,
    scheme: Option<Scheme>,
}

/// Who else reads metrics.
#[derive(Clone)]
struct Listener(Arc<OnMetrics>);

type OnMetrics = dyn Fn(Pod, &str) + Send + Sync;

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener(..)")
    }
}

/// The tokens that a pod's cache has room for, and its adapters.
type Told = (Option<u64>, Option<EngineAdapters>);

impl HttpHealth {
    /// Checks of pods at these addresses, each within a second.
    #[must_use]
    pub fn new(addresses: Arc<dyn PodAddresses>) -> Self {
        Self::with_client(Client::builder(TokioExecutor::new()).build_http(), addresses)
    }
}

impl<C> HttpHealth<C> {
    /// The same over a client of the host's.
    #[must_use]
    pub fn with_client(client: Client<C, Full<Bytes>>, addresses: Arc<dyn PodAddresses>) -> Self {
        Self {
            client,
            addresses,
            timeout: Duration::from_secs(1),
            probe: Probe::Health,
            metrics: Endpoint::at("/metrics"),
            listener: None,
            told: Arc::default(),
        }
    }

    /// The same within another time.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// The same by metrics alone: a pod that answers at all when it is asked for them is healthy. One request a check in place of two.
    #[must_use]
    pub fn by_metrics(self) -> Self {
        Self { probe: Probe::Metrics, ..self }
    }

    /// The same where metrics are at another path, which begins with a slash.
    #[must_use]
    pub fn metrics_path(self, path: impl Into<Box<str>>) -> Self {
        let path: Box<str> = path.into();
        Self { metrics: Endpoint { path: Cow::Owned(path.into()), ..self.metrics }, ..self }
    }

    /// The same where metrics are at another port than the pod's own.
    #[must_use]
    pub fn metrics_port(self, port: u16) -> Self {
        Self { metrics: Endpoint { port: Some(port), ..self.metrics }, ..self }
    }

    /// The same where metrics are asked for over another scheme than the pod's own: a pod that speaks TLS may tell them in the clear.
    #[must_use]
    pub fn metrics_scheme(self, scheme: Scheme) -> Self {
        Self { metrics: Endpoint { scheme: Some(scheme), ..self.metrics }, ..self }
    }

    /// The same, showing each metrics text to the host too. It should be quick: the check waits for it.
    #[must_use]
    pub fn on_metrics(self, listener: impl Fn(Pod, &str) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Listener(Arc::new(listener))), ..self }
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> HttpHealth<C> {
    /// What a pod answers; none if that is no success.
    async fn get(&self, pod: Pod, endpoint: &Endpoint) -> Result<Option<Bytes>, Health> {
        let address = self.addresses.address(pod).ok_or(Health::Unreachable)?;
        let url = endpoint.url(&address);
        let mut request = Request::get(url).body(Full::default()).map_err(|_| Health::Unreachable)?;
        if let Some(key) = self.addresses.authorization(pod) {
            request.headers_mut().insert(AUTHORIZATION, key);
        }
        let fetch = async {
            let response = self.client.request(request).await.map_err(|error| match error.is_connect() {
                true => Health::not_connected(&error),
                false => Health::Failing,
            })?;
            if !response.status().is_success() {
                return Ok(None);
            }
            let body = Limited::new(response.into_body(), MAX_BYTES).collect().await;
            body.map(|body| Some(body.to_bytes())).map_err(|_| Health::Failing)
        };
        tokio::time::timeout(self.timeout, fetch).await.unwrap_or(Err(Health::Failing))
    }

    /// A healthy pod's metrics, if it has some.
    async fn metrics(&self, pod: Pod) -> Result<Option<Bytes>, Health> {
        match self.probe {
            Probe::Metrics => self.get(pod, &self.metrics).await,
            Probe::Health => {
                self.get(pod, &Endpoint::at("/health")).await?.ok_or(Health::Failing)?;
                Ok(self.get(pod, &self.metrics).await.ok().flatten())
            }
        }
    }
}

impl<C: Connect + Clone + Send + Sync + 'static> HealthCheck for HttpHealth<C> {
    async fn check(&self, pod: Pod) -> Health {
        let metrics = match self.metrics(pod).await {
            Ok(Some(metrics)) => metrics,
            Ok(None) => return Health::Healthy(None),
            Err(health) => return health,
        };
        let metrics = String::from_utf8_lossy(&metrics);
        if let Some(Listener(listener)) = &self.listener {
            listener(pod, &metrics);
        }
        let mut told = self.told.lock();
        // Of pods that left something stays, and is asked for by nobody.
        if told.len() >= MOST_TOLD {
            told.clear();
        }
        told.insert(pod, (engine_cache(&metrics), engine_adapters(&metrics)));
        Health::Healthy(engine_load(&metrics))
    }

    fn cache_tokens(&self, pod: Pod) -> Option<u64> {
        self.told.lock().get(&pod)?.0
    }

    fn adapters(&self, pod: Pod) -> Option<EngineAdapters> {
        self.told.lock().get(&pod)?.1.clone()
    }
}

impl Endpoint {
    /// A path at the pod itself.
    const fn at(path: &'static str) -> Self {
        Self { path: Cow::Borrowed(path), port: None, scheme: None }
    }

    /// Its URL at a pod's address, which is a host and maybe a port, behind a scheme or not.
    fn url(&self, address: &str) -> String {
        let Self { path, port, scheme } = self;
        let (own, authority) = address.split_once("://").unwrap_or(("http", address));
        let scheme = scheme.as_ref().map_or(own, Scheme::as_str);
        let authority = authority.trim_end_matches('/');
        let Some(port) = port else { return format!("{scheme}://{authority}{path}") };
        // Without a port the last colon may be one of an IPv6 address.
        let port_of = authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']'));
        let host = port_of.map_or(authority, |(host, _)| host);
        format!("{scheme}://{host}:{port}{path}")
    }
}

/// Pods of which something is kept at most; it is told again with the next check.
const MOST_TOLD: usize = 4_096;
/// Bytes read of a pod's answer.
const MAX_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use routing_core::Load;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::{PodSpec, Router};

    /// Answers one path, and 404 to all others.
    async fn pod(path: &'static str, body: &'static str) -> (u16, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = [0; 1024];
                let read = stream.read(&mut head).await.unwrap_or(0);
                let is_known = head[..read].starts_with(format!("GET {path} ").as_bytes());
                let (status, body) = if is_known { ("200 OK", body) } else { ("404 Not Found", "") };
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        (port, task)
    }

    fn at(port: u16) -> (Router, Pod) {
        let router = Router::builder("m").pod(PodSpec::new("a", format!("127.0.0.1:{port}"))).build().unwrap();
        let pod = router.pod("a").unwrap();
        (router, pod)
    }

    #[tokio::test]
    async fn metrics_are_read_where_they_are_and_shown_to_the_host() {
        let metrics = "vllm:num_requests_running 3\nvllm:num_requests_waiting 2\n";
        let ((own, _own), (other, _other)) = (pod("/health", "").await, pod("/m", metrics).await);
        let (router, pod) = at(own);
        let check = HttpHealth::new(router.addresses());
        assert_eq!(check.check(pod).await, Health::Healthy(None), "it has none at its own port");
        let shown = Arc::new(Mutex::new(Vec::new()));
        let showing = Arc::clone(&shown);
        let check = check.metrics_port(other).metrics_path("/m").on_metrics(move |pod, text| {
            showing.lock().push((pod, text.to_owned()));
        });
        let load = Load { running: 3, waiting: 2, ..Load::default() };
        assert_eq!(check.check(pod).await, Health::Healthy(Some(load)));
        assert_eq!(*shown.lock(), [(pod, metrics.to_owned())]);
    }

    #[tokio::test]
    async fn by_metrics_alone_whoever_answers_is_healthy() {
        let (port, server) = pod("/elsewhere", "").await;
        let (router, pod) = at(port);
        let check = HttpHealth::new(router.addresses());
        assert_eq!(check.check(pod).await, Health::Failing, "a 404 is no health");
        let check = check.by_metrics();
        assert_eq!(check.check(pod).await, Health::Healthy(None));
        server.abort();
        assert!(server.await.is_err());
        assert_eq!(check.check(pod).await, Health::Unreachable);
    }

    #[test]
    fn another_port_takes_the_place_of_the_one_that_is_there() {
        let (own, other) = (Endpoint::at("/x"), Endpoint { port: Some(2), ..Endpoint::at("/x") });
        assert_eq!(["a:1", "https://a:1/"].map(|at| own.url(at)), ["http://a:1/x", "https://a:1/x"]);
        assert_eq!(["http://a:1/", "a"].map(|at| other.url(at)), ["http://a:2/x", "http://a:2/x"]);
        assert_eq!(["[::1]", "[::1]:1"].map(|at| other.url(at)), ["http://[::1]:2/x", "http://[::1]:2/x"]);
    }

    #[tokio::test]
    async fn a_pod_that_speaks_tls_may_tell_its_metrics_in_the_clear() {
        let (port, _pod) = pod("/metrics", "vllm:num_requests_running 3\nvllm:num_requests_waiting 0\n").await;
        let router = Router::builder("m").pod(PodSpec::new("a", "https://127.0.0.1:1")).build().unwrap();
        let check = HttpHealth::new(router.addresses()).by_metrics().metrics_port(port);
        let pod = router.pod("a").unwrap();
        assert_ne!(check.check(pod).await, Health::Healthy(Some(Load { running: 3, ..Load::default() })));
        let check = check.metrics_scheme(Scheme::HTTP);
        assert_eq!(check.check(pod).await, Health::Healthy(Some(Load { running: 3, ..Load::default() })));
    }

    #[tokio::test]
    async fn nobody_there_is_unreachable_and_silence_is_a_failure() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (open, gone) = (silent.local_addr().unwrap().to_string(), "127.0.0.1:1");
        let router = Router::builder("m").pod(PodSpec::new("s", open)).pod(PodSpec::new("g", gone)).build().unwrap();
        let check = HttpHealth::new(router.addresses()).timeout(Duration::from_millis(50));
        assert_eq!(check.check(router.pod("s").unwrap()).await, Health::Failing);
        assert_eq!(check.check(router.pod("g").unwrap()).await, Health::Unreachable);
    }
}
