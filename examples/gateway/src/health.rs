//! Active health checks: `GET /health` and `/metrics` of each pod; a change publishes a new fleet.
//!
//! One task a pod, so that one that hangs delays no other. A refused connection makes a pod unhealthy at once; a timeout or an
//! error status, the second time in a row. One success makes it healthy again, and closes its circuit breaker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use routing_core::{Load, Pod};

use super::app_state::AppState;
use super::pod_registry::RegisteredPod;
use super::scrape;

/// Checks a pod at the configured interval, until it is removed.
pub(super) async fn check_periodically(app: Arc<AppState>, entry: RegisteredPod) {
    let mut failures = 0;
    loop {
        let settings = app.config.lock().health_check.clone();
        let probed = probe(&app, &entry, settings.timeout).await;
        let healthy = match probed {
            Ok(()) => {
                failures = 0;
                Some(true)
            }
            Err(ProbeError::Refused) => Some(false),
            Err(ProbeError::Failed) => {
                failures += 1;
                (failures >= 2).then_some(false)
            }
        };
        let load = if probed.is_ok() { scrape_load(&app, &entry, settings.timeout).await } else { None };
        record(&app, entry.pod, healthy, load);
        tokio::select! {
            () = entry.stop.cancelled() => return,
            () = tokio::time::sleep(settings.interval) => {}
        }
    }
}

/// Checks every pod once, at the start, so that the first request finds healthy pods.
pub(super) async fn check_all(app: &Arc<AppState>) {
    let pods = app.registry.lock().pods.clone();
    let timeout = app.config.lock().health_check.timeout;
    let checks = pods.iter().map(|entry| async {
        let healthy = probe(app, entry, timeout).await.is_ok();
        let load = if healthy { scrape_load(app, entry, timeout).await } else { None };
        record(app, entry.pod, Some(healthy), load);
    });
    futures_util::future::join_all(checks).await;
}

/// Why a probe failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProbeError {
    /// The connection was refused.
    Refused,
    /// Timeout, or an error status.
    Failed,
}

/// Publishes a new fleet if the health changed.
fn record(app: &AppState, pod: Pod, healthy: Option<bool>, load: Option<Load>) {
    let mut registry = app.registry.lock();
    let Some(entry) = registry.get_mut(pod) else { return };
    if let Some(load) = load {
        entry.load = load;
        app.plugin_state.load.report(pod, load, Instant::now());
    }
    let Some(healthy) = healthy.filter(|healthy| *healthy != entry.healthy) else { return };
    entry.healthy = healthy;
    if healthy {
        app.breakers.recovered(pod);
    }
    let fleet = registry.fleet();
    // Under the registry's lock: versions are published in order.
    app.live_config.store(Arc::new(app.live_config.load().with_fleet(fleet)));
}

async fn probe(app: &AppState, entry: &RegisteredPod, timeout: Duration) -> Result<(), ProbeError> {
    match tokio::time::timeout(timeout, get(app, entry, "/health")).await {
        Ok(Ok((status, _))) if status.is_success() => Ok(()),
        Ok(Err(true)) => Err(ProbeError::Refused),
        _ => Err(ProbeError::Failed),
    }
}

async fn scrape_load(app: &AppState, entry: &RegisteredPod, timeout: Duration) -> Option<Load> {
    let (status, text) = tokio::time::timeout(timeout, get(app, entry, "/metrics")).await.ok()?.ok()?;
    status.is_success().then(|| scrape::load(&String::from_utf8_lossy(&text))).flatten()
}

/// `GET` of a pod; an error is true if there was no connection.
async fn get(app: &AppState, entry: &RegisteredPod, path: &str) -> Result<(StatusCode, Bytes), bool> {
    let url = format!("{}{path}", entry.settings.url.trim_end_matches('/'));
    let request = Request::get(url).body(Full::default()).map_err(|_| false)?;
    let response = app.client.request(request).await.map_err(|error| error.is_connect())?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_METRICS).collect().await.map_err(|_| false)?;
    Ok((status, body.to_bytes()))
}

/// Bytes read of a pod's metrics.
const MAX_METRICS: usize = 4 << 20;
