//! Periodic maintenance: the routers' housekeeping, time series, diagnosis, snapshots.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use super::app_state::AppState;
use super::{findings, metrics, snapshot, source_log};

/// Once a second, until the gateway stops.
pub(super) async fn run(app: Arc<AppState>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let (mut last_snapshot, mut last_diagnosis) = (Instant::now(), Instant::now());
    loop {
        ticks.tick().await;
        app.request_log.tick();
        source_log::log(&app);
        app.observers.truncation_log.log();
        write_records(&app, false).await;
        app.models.iter().for_each(|model| model.router.tick(Instant::now()));
        if last_diagnosis.elapsed() >= DIAGNOSIS_INTERVAL {
            findings::log(&app);
            last_diagnosis = Instant::now();
        }
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
        let indexes = app.models.iter().map(|model| (model.router.name(), &**model.router.index()));
        snapshot::write(&settings.path, indexes, position)
            .inspect_err(|error| warn!(path = %settings.path.display(), %error, "the snapshot cannot be written"))
    });
    // A failure was logged.
    let _ = written.await;
}

/// Finds the causes of differences in cached tokens, and writes the records that are done; all of them, if told so.
pub(super) async fn write_records(app: &Arc<AppState>, all: bool) {
    app.models.iter().for_each(|model| model.router.cache_audit().settle(all));
    app.observers.flush(all).await;
}

/// How often it is asked what is probably wrong.
const DIAGNOSIS_INTERVAL: Duration = Duration::from_secs(10);
