//! Atomic reload: a new configuration in place of the old one, all of it or nothing.
//!
//! Every router is asked whether it could change before one does. A request sees the old profile with the old pods of its
//! model or the new one with the new pods. Streams continue, even if their pods left the fleet.

use std::sync::Arc;

use super::app_state::{AppState, ClientLimits};
use super::config::{Config, ModelSettings};
use super::error::{ReloadError, StartError};
use super::model;

/// Applies a configuration.
pub(super) fn reload(app: &Arc<AppState>, config: Config) -> Result<(), ReloadError> {
    if app.is_draining() {
        return Err(ReloadError::Draining);
    }
    config.check()?;
    let mut current = app.config.lock();
    let fixed = needs_restart(&current, &config);
    if !fixed.is_empty() {
        return Err(ReloadError::NeedsRestart(fixed));
    }
    let served = config.served();
    let mut updates = Vec::with_capacity(served.len());
    for (model, served) in app.models.iter().zip(&served) {
        let mut update = model::update(&config, served)?;
        if !config.retry.has_budget_of(&current.retry) {
            update = update.retry_budget(config.retry.budget());
        }
        model.router.check(&update).map_err(|error| StartError::model(served, &error))?;
        updates.push((model, served, update));
    }
    // Nobody else changes pods, so what was checked does not fail.
    for (model, served, update) in updates {
        model.router.apply(update).map_err(|error| StartError::model(served, &error))?;
    }
    let names: Vec<&str> = served.iter().flat_map(|served| served.pods).map(|pod| &*pod.name).collect();
    app.pod_metrics.retain(|name| names.contains(&name));
    app.limits.store(Arc::new(ClientLimits::of(&config)));
    app.sources.lock().follow(app, &config);
    *current = config;
    drop(current);
    app.pods_changed.notify_one();
    Ok(())
}

/// The changed settings that need a restart.
fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let models =
        |config: &Config| -> Vec<ModelSettings> { config.served().iter().map(|served| served.model.clone()).collect() };
    let model = if old.models.is_empty() && new.models.is_empty() { "model" } else { "models" };
    let fixed = [
        ("listen", old.listen != new.listen),
        ("internal", old.internal != new.internal),
        ("tls", old.tls != new.tls),
        ("pod_tls", old.pod_tls != new.pod_tls),
        (model, models(old) != models(new)),
        ("event_sources", old.event_sources != new.event_sources),
        ("snapshot", old.snapshot != new.snapshot),
        ("decision_log", old.decision_log != new.decision_log),
        ("log", old.log != new.log),
        ("access_log", old.access_log != new.access_log),
        ("otlp", old.otlp != new.otlp),
        ("limits.max_connections", old.limits.max_connections != new.limits.max_connections),
        (
            "limits.max_request_headers_bytes",
            old.limits.max_request_headers_bytes != new.limits.max_request_headers_bytes,
        ),
        ("timeouts.connect_timeout", old.timeouts.connect_timeout != new.timeouts.connect_timeout),
    ];
    fixed.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}
