//! Periodic maintenance: time series, causes of cache misses, sweeps of retired pods, snapshots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::MissedTickBehavior;

use super::app_state::AppState;
use super::{metrics, snapshot};

/// Once a second, until the gateway stops.
pub(super) async fn run(app: Arc<AppState>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut last_snapshot = Instant::now();
    loop {
        ticks.tick().await;
        app.request_log.tick();
        write_decisions(&app, false).await;
        // In steps: a sweep locks shards for a short time only.
        app.plugin_state.index.expire(Instant::now(), STEP);
        app.plugin_state.index.sweep(STEP);
        metrics::install().map(PrometheusHandle::run_upkeep);
        let interval = app.config.lock().snapshot.as_ref().map(|settings| settings.interval);
        if interval.is_some_and(|interval| last_snapshot.elapsed() >= interval) {
            write_snapshot(&app).await;
            last_snapshot = Instant::now();
        }
    }
}

/// Writes a snapshot, if one is configured. A failure is logged, and the next interval tries again.
pub(super) async fn write_snapshot(app: &Arc<AppState>) {
    let Some(settings) = app.config.lock().snapshot.clone() else { return };
    let app = Arc::clone(app);
    let written = tokio::task::spawn_blocking(move || {
        let position = app.sources.lock().position();
        snapshot::write(&settings.path, &app.plugin_state.index, position)
            .inspect_err(|error| eprintln!("cannot write the snapshot `{}`: {error}", settings.path.display()))
    });
    // A failure was logged.
    let _ = written.await;
}

/// Finds the causes of differences in cached tokens, and writes the decisions that are done; all of them, if told so.
pub(super) async fn write_decisions(app: &Arc<AppState>, all: bool) {
    app.cache_audit.settle_open(all);
    if let Some(log) = &app.decision_log {
        log.flush(all).await;
    }
}

/// Blocks visited a second.
const STEP: usize = 100_000;
