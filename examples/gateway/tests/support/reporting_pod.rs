//! Simulated pods with reporters, and a client of a gateway in front of them.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed, Digest, Index, Matches, Tier};
use pointsman_engine_sim::{PodConfig, SimPod};
use pointsman_example_common::words;
use pointsman_lab::SplitMix64;
use pointsman_reporter::shadow_cache::ShadowCache;
use pointsman_reporter::wire::HashScheme;
use pointsman_reporter::{Config, MessageSink, ReporterStats, incarnation_now};
use routing_plugins::tokenize::PromptTokenizer;
use tokio::task::JoinHandle;

use sink::ReportingSink;

#[path = "reporting_sink.rs"]
pub(crate) mod sink;

/// A simulated pod and its reporter.
pub(crate) struct ReportingPod {
    pub(crate) sim: SimPod,
    task: JoinHandle<ReporterStats>,
}

impl ReportingPod {
    pub(crate) async fn start(name: &str, sink: impl MessageSink) -> Self {
        let mut reporting =
            Config::new(name, HashScheme::native("sim", BlockSize::new(16).unwrap()), incarnation_now());
        reporting.flush_interval = Duration::from_millis(5);
        reporting.digest_interval = Duration::from_millis(50);
        reporting.retry_initial = Duration::from_millis(5);
        reporting.retry_max = Duration::from_millis(50);
        reporting.inventory_interval = Duration::from_millis(50);
        let shadow = ShadowCache::default();
        let (handle, task) = pointsman_reporter::start(reporting, shadow.clone(), sink);
        let task = tokio::spawn(task);
        // Few blocks: much is evicted.
        let mut config = PodConfig::new(name, "sim");
        (config.speed, config.blocks) = (1_000.0, 120);
        let sim = SimPod::start(config, vec![Box::new(ReportingSink::new(handle, shadow))]).await.unwrap();
        Self { sim, task }
    }

    /// The line of a configuration's fleet.
    pub(crate) fn yaml(&self) -> String {
        format!("{{ name: {}, url: 'http://{}', events: pushed }}", self.sim.name(), self.sim.address())
    }

    /// What its cache really has.
    pub(crate) fn truth(&self) -> Digest {
        digest(self.sim.cache())
    }

    /// How many leading blocks of a chain it really has.
    pub(crate) fn holds(&self, chain: &[BlockHash]) -> usize {
        let cache = self.sim.cache();
        chain.iter().take_while(|hash| cache.contains_key(hash)).count()
    }

    pub(crate) async fn stop(self) -> ReporterStats {
        self.sim.stop().await;
        tokio::time::timeout(PATIENCE, self.task).await.expect("a reporter ends with its pod").unwrap()
    }
}

/// The digest of a cache, copy by copy.
pub(crate) fn digest(cache: impl IntoIterator<Item = (BlockHash, u32)>) -> Digest {
    Digest::of(cache.into_iter().flat_map(|(hash, copies)| std::iter::repeat_n((hash, Tier::Gpu), copies as usize)))
}

/// Whether an index has exactly what each pod has.
pub(crate) fn knows(index: &Index, pods: &[ReportingPod]) -> bool {
    pods.iter().all(|pod| {
        let known = index.pod(pod.sim.name()).map(|handle| index.digest(handle).unwrap());
        known == Some(pod.truth())
    })
}

/// How many leading blocks of a chain each pod has, by an index.
pub(crate) fn depths(index: &Index, pods: &[ReportingPod], chain: &[BlockHash]) -> Vec<usize> {
    let mut matches = Matches::default();
    index.search(chain, &mut matches);
    pods.iter().map(|pod| matches.depth(index.pod(pod.sim.name()).unwrap().id())).collect()
}

/// A request's blocks.
pub(crate) fn chain(body: &[u8]) -> Vec<BlockHash> {
    let mut tokens = Vec::new();
    words::prompts().unwrap().tokenize(body, &mut tokens).unwrap();
    ChainHasher::new(ChainSeed::new("sim"), BlockSize::new(16).unwrap()).hash(&tokens)
}

/// A client of one gateway.
pub(crate) struct Client {
    http: HyperClient<HttpConnector, Full<Bytes>>,
    address: SocketAddr,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { http: HyperClient::builder(TokioExecutor::new()).build_http(), address }
    }

    /// Asks, and gives the decision's reasons.
    pub(crate) async fn ask(&self, body: &Bytes) -> serde_json::Value {
        let request = http::Request::post(format!("http://{}/v1/chat/completions", self.address))
            .header("content-type", "application/json")
            .header("x-pointsman-explain", "1")
            .body(Full::new(body.clone()))
            .unwrap();
        let answered = async {
            let response = self.http.request(request).await.unwrap();
            let (parts, body) = response.into_parts();
            (parts, body.collect().await.unwrap().to_bytes())
        };
        let (parts, body) = tokio::time::timeout(PATIENCE, answered).await.expect("an answer");
        assert!(parts.status.is_success(), "{}: {}", parts.status, String::from_utf8_lossy(&body));
        serde_json::from_str(parts.headers["x-pointsman-trace"].to_str().unwrap()).unwrap()
    }

    /// Asks for some prompts out of a few families, one after the other.
    pub(crate) async fn work(&self, rng: &mut SplitMix64, requests: usize) {
        for _ in 0..requests {
            self.ask(&body(rng.below(6), rng.between(20, 300))).await;
        }
    }
}

/// A prompt of so many words; those of one family begin alike.
pub(crate) fn body(family: usize, words: usize) -> Bytes {
    let content: String = (0..words).map(|n| format!(" w{family}x{n}")).collect();
    let messages = [serde_json::json!({"role": "user", "content": content})];
    serde_json::json!({"model": "sim", "messages": messages, "max_tokens": 4}).to_string().into()
}

/// How much of the prompt each pod was found to hold, and that of the one picked.
pub(crate) fn held(trace: &serde_json::Value) -> (Vec<(String, String)>, String) {
    let step = &trace["steps"][0];
    let score = |pod: &serde_json::Value| {
        let scores = pod["scores"].as_array().unwrap();
        scores.iter().find(|score| score["scorer"] == "cache").unwrap()["score"].to_string()
    };
    let pods = step["pods"].as_array().unwrap();
    let mut held: Vec<(String, String)> =
        pods.iter().map(|pod| (pod["name"].as_str().unwrap().to_owned(), score(pod))).collect();
    held.sort();
    let picked = held.iter().find(|(name, _)| step["picked"] == name.as_str()).unwrap().1.clone();
    (held, picked)
}

pub(crate) async fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Far more than anything here takes, on a machine that does much else.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
