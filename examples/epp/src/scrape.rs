//! Scraping: what engines tell of themselves, asked for all the time.
//!
//! A pod that answers at all is a pod that serves: engines differ in what else they would say to that.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::RwLock;
use pointsman::core::PodId;
use pointsman::exec::handoff::PodAddresses;
use pointsman::index::Pod;
use pointsman::plugins::extra::Metrics;
use pointsman::{EngineAdapters, Health, HealthCheck, engine_adapters, engine_cache, engine_load};

use crate::endpoints::authority;
use crate::picker_config::MetricsScrape;

/// Figures of pods by the names that plugins ask for.
#[derive(Debug, Default)]
pub struct Figures(RwLock<HashMap<(Box<str>, PodId), f64>>);

impl Metrics for Figures {
    fn figure(&self, metric: &str, pod: PodId) -> Option<f64> {
        // Looked up by a key of its own type: few profiles ask, and names are short.
        self.0.read().get(&(metric.into(), pod)).copied()
    }
}

/// Asks pods for their metrics.
#[derive(Debug)]
pub struct Scrape {
    client: Client<HttpConnector, Full<Bytes>>,
    addresses: Arc<dyn PodAddresses>,
    settings: MetricsScrape,
    figures: Arc<Figures>,
    told: RwLock<HashMap<Pod, Told>>,
}

/// The tokens that a pod's cache has room for, and its adapters.
type Told = (Option<u64>, Option<EngineAdapters>);

impl Scrape {
    /// Asks pods at these addresses, and keeps figures that plugins ask for by name.
    #[must_use]
    pub fn new(addresses: Arc<dyn PodAddresses>, settings: MetricsScrape, figures: Arc<Figures>) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, addresses, settings, figures, told: RwLock::default() }
    }

    async fn fetch(&self, pod: Pod) -> Result<Option<String>, Health> {
        let address = self.addresses.address(pod).ok_or(Health::Unreachable)?;
        let address = authority(&address);
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let MetricsScrape { scheme, path, port, .. } = &self.settings;
        let url = match port {
            Some(port) => format!("{scheme}://{host}:{port}{path}"),
            None => format!("{scheme}://{address}{path}"),
        };
        let request = Request::get(url).body(Full::default()).map_err(|_| Health::Unreachable)?;
        let response = self.client.request(request).await.map_err(|error| match error.is_connect() {
            true => Health::not_connected(&error),
            false => Health::Failing,
        })?;
        if !response.status().is_success() {
            return Ok(None);
        }
        let body = Limited::new(response.into_body(), MAX_BYTES).collect().await.map_err(|_| Health::Failing)?;
        Ok(Some(String::from_utf8_lossy(&body.to_bytes()).into_owned()))
    }

    fn learn(&self, pod: Pod, metrics: &str) {
        let mut told = self.told.write();
        // Of pods that left something stays, and is asked for by nobody.
        if told.len() >= MOST_TOLD {
            told.clear();
        }
        told.insert(pod, (engine_cache(metrics), engine_adapters(metrics)));
        drop(told);
        for (name, metric) in &self.settings.attributes {
            let (key, mut figures) = ((name.as_str().into(), pod.id()), self.figures.0.write());
            // What is not told any more is not known any more.
            match figure(metrics, metric) {
                Some(figure) => figures.insert(key, figure),
                None => figures.remove(&key),
            };
        }
    }
}

impl HealthCheck for Scrape {
    async fn check(&self, pod: Pod) -> Health {
        match tokio::time::timeout(TIMEOUT, self.fetch(pod)).await {
            Ok(Ok(Some(metrics))) => {
                self.learn(pod, &metrics);
                Health::Healthy(engine_load(&metrics))
            }
            Ok(Ok(None)) => Health::Healthy(None),
            Ok(Err(health)) => health,
            Err(_) => Health::Failing,
        }
    }

    fn cache_tokens(&self, pod: Pod) -> Option<u64> {
        self.told.read().get(&pod)?.0
    }

    fn adapters(&self, pod: Pod) -> Option<EngineAdapters> {
        self.told.read().get(&pod)?.1.clone()
    }
}

/// The first sample of a metric, by its name and, in braces, labels that it must have.
fn figure(metrics: &str, wanted: &str) -> Option<f64> {
    let (name, labels) = wanted.split_once('{').unwrap_or((wanted, ""));
    let labels: Vec<&str> =
        labels.trim_end_matches('}').split(',').map(str::trim).filter(|label| !label.is_empty()).collect();
    metrics.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (found, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest.strip_prefix(' ')?),
        };
        let has = labels.iter().all(|label| found.split(',').any(|found| found.trim() == *label));
        let value: f64 = value.split_ascii_whitespace().next()?.parse().ok()?;
        (has && value.is_finite()).then_some(value)
    })
}

/// Pods of which something is kept at most; it is told again with the next answer.
const MOST_TOLD: usize = 4_096;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes read of an answer.
const MAX_BYTES: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_found_by_its_name_and_its_labels() {
        let text = "# HELP a:b x\na:b_total 9\na:b{x=\"1\",y=\"2\"} 3.5\na:b{x=\"2\"} 4 170000\nc 5\nd NaN\n";
        assert_eq!((figure(text, "a:b"), figure(text, "a:b{x=\"2\"}")), (Some(3.5), Some(4.0)));
        assert_eq!((figure(text, "c"), figure(text, "d"), figure(text, "a")), (Some(5.0), None, None));
        assert_eq!(figure(text, "a:b{y=\"2\", x=\"1\"}"), Some(3.5));
    }
}
