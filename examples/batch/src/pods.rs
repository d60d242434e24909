//! Pods of a batch: their ids, addresses and the sizes of their caches.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer as PoolTimer};
use kv_index::{Config, Index, Pod};
use routing_core::batch::BatchPod;
use routing_exec::handoff::PodAddresses;
use tokio::time::timeout;

use pointsman_example_common::cli::error_chain;

/// A pod of the batch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PodEndpoint {
    /// Its name in tables.
    pub(crate) name: String,
    /// Where it serves, such as `http://127.0.0.1:8000`.
    pub(crate) url: String,
    /// Tokens that its cache has room for.
    pub(crate) kv_tokens: u64,
}

/// Why pods cannot run a batch.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PodError {
    /// More pods than an index has places for.
    #[error("{0} pods are too many")]
    TooMany(usize),
    /// An engine that does not tell how large its cache is.
    #[error("`{url}/metrics` does not tell how many tokens the KV cache has room for ({why}): say it by `--kv-tokens`")]
    CacheUnknown {
        /// The pod's address.
        url: String,
        /// What was wrong.
        why: String,
    },
}

impl PodEndpoint {
    /// Pods by their addresses. One that does not tell the size of its cache, since it may be down for now, is taken to have as much as
    /// the smallest of the others.
    pub(crate) async fn all(urls: &[String], kv_tokens: Option<u64>) -> Result<Vec<Self>, PodError> {
        let (mut pods, mut silent) = (Vec::new(), Vec::new());
        for url in urls {
            match Self::at(url, kv_tokens).await {
                Ok(pod) => pods.push(pod),
                Err(error) => silent.push((url, error)),
            }
        }
        let least = pods.iter().map(|pod: &Self| pod.kv_tokens).min();
        for (url, error) in silent {
            let Some(least) = least else { return Err(error) };
            eprintln!("batch: {error}; until then it is taken to be {least}");
            pods.push(Self::at(url, Some(least)).await?);
        }
        Ok(pods)
    }

    /// A pod by its address. Unless it is given, its engine is asked for the size of its cache.
    async fn at(url: &str, kv_tokens: Option<u64>) -> Result<Self, PodError> {
        let url = url.trim_end_matches('/').to_owned();
        let kv_tokens = match kv_tokens {
            Some(kv_tokens) => kv_tokens,
            None => match timeout(METRICS_TIMEOUT, cache(&url)).await {
                Ok(Ok(kv_tokens)) => kv_tokens,
                Ok(Err(why)) => return Err(PodError::CacheUnknown { url, why }),
                Err(_) => return Err(PodError::CacheUnknown { url, why: "it does not answer".to_owned() }),
            },
        };
        Ok(Self { name: url.clone(), url, kv_tokens })
    }
}

/// Tokens that an engine's cache has room for, by its metrics.
async fn cache(url: &str) -> Result<u64, String> {
    let request =
        http::Request::get(format!("{url}/metrics")).body(Full::default()).map_err(|error| error.to_string())?;
    let response = client().request(request).await.map_err(|error| error_chain(&error))?;
    if !response.status().is_success() {
        return Err(format!("status {}", response.status().as_u16()));
    }
    let body = Limited::new(response.into_body(), MAX_METRICS).collect().await.map_err(|error| error_chain(&*error))?;
    let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    pointsman::engine_cache(&text).ok_or_else(|| "neither vLLM's nor SGLang's metrics".to_owned())
}

/// The addresses of pods.
#[derive(Debug)]
pub(crate) struct PodUrls(Vec<(Pod, String)>);

impl PodAddresses for PodUrls {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        self.0.iter().find(|(known, _)| *known == pod).map(|(_, url)| Cow::Borrowed(&**url))
    }
}

/// Gives each pod an id, and notes where it is.
pub(crate) fn join(pods: &[PodEndpoint]) -> Result<(Vec<BatchPod>, PodUrls), PodError> {
    let index: Index = Index::new(Config::default());
    let mut members = Vec::with_capacity(pods.len());
    let mut directory = Vec::with_capacity(pods.len());
    for (nth, at) in pods.iter().enumerate() {
        let joined = index.join(&format!("{nth}"));
        let pod = joined.map_err(|_| PodError::TooMany(pods.len()))?;
        members.push(BatchPod { pod, kv_tokens: at.kv_tokens, speed: 1.0 });
        directory.push((pod, at.url.clone()));
    }
    Ok((members, PodUrls(directory)))
}

/// The client that all requests go by.
pub(crate) fn client() -> Client<HttpConnector, Full<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(Duration::from_secs(5)));
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(PoolTimer::new()).pool_idle_timeout(Duration::from_secs(5));
    // Retries are the runner's.
    builder.retry_canceled_requests(false);
    builder.build(connector)
}

/// How long an engine may take to tell its metrics, and how long these may be.
const METRICS_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_METRICS: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use pointsman_engine_sim::{MODEL, PodConfig, SimPod};

    use super::*;

    #[tokio::test]
    async fn an_engine_is_asked_for_its_cache_unless_it_is_given() {
        let mut config = PodConfig::new("pod", MODEL);
        config.blocks = 100;
        let block = config.block_size.tokens() as u64;
        let pod = SimPod::start(config, Vec::new()).await.expect("it starts");
        let url = format!("http://{}/", pod.address());
        let asked = PodEndpoint::at(&url, None).await.expect("it tells");
        assert_eq!((asked.kv_tokens, asked.url.ends_with('/')), (100 * block, false));
        assert_eq!(PodEndpoint::at(&url, Some(7)).await.expect("it is given").kv_tokens, 7);
        let nobody = "http://127.0.0.1:9".to_owned();
        let both = PodEndpoint::all(&[nobody.clone(), url.clone()], None).await.expect("one of them tells");
        assert!(both.iter().all(|pod| pod.kv_tokens == 100 * block) && both[1].url == nobody);
        pod.stop().await;
        let error = PodEndpoint::all(&[url], None).await.expect_err("nobody is there").to_string();
        assert!(error.contains("--kv-tokens") && error.contains(&asked.url), "{error}");
    }
}
