//! Housekeeping: a figure a second, retired pods swept, the index kept in its file.

use std::sync::Arc;
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::time::MissedTickBehavior;

use super::config::server_seconds as seconds;
use super::shared::Shared;
use super::{metrics, snapshot};

/// Once a second, until everything stops.
pub(super) async fn house(shared: Arc<Shared>) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut kept = Instant::now();
    loop {
        ticks.tick().await;
        shared.book.tick();
        // In steps: nobody waits long for the shards that a sweep locks.
        shared.plugin_state.index.expire(Instant::now(), STEP);
        shared.plugin_state.index.sweep(STEP);
        metrics::install().map(PrometheusHandle::run_upkeep);
        let every = shared.config.lock().snapshot.as_ref().map(|settings| seconds(settings.every_seconds));
        if every.is_some_and(|every| kept.elapsed() >= every) {
            keep_now(&shared).await;
            kept = Instant::now();
        }
    }
}

/// Writes the index to its file, if it has one. A failure is said, and the next time may do better.
pub(super) async fn keep_now(shared: &Arc<Shared>) {
    let Some(settings) = shared.config.lock().snapshot.clone() else { return };
    let shared = Arc::clone(shared);
    let written = tokio::task::spawn_blocking(move || {
        let position = shared.sources.lock().position();
        snapshot::write(&settings.path, &shared.plugin_state.index, position)
            .inspect_err(|error| eprintln!("cannot keep the index in `{}`: {error}", settings.path.display()))
    });
    // What went wrong was said.
    let _ = written.await;
}

/// Blocks that are looked at in a second.
const STEP: usize = 100_000;
