//! Atomic reload: a new configuration in place of the old one, all of it or nothing.
//!
//! Everything that can fail is done aside. Then one pointer is swapped: a request sees the old profile with the old pods or
//! the new one with the new pods. Streams continue, even if their pods left the fleet.

use std::sync::Arc;

use routing_core::Fleet;
use routing_exec::DispatchConfig;
use routing_plugins::PluginState;

use super::app_state::AppState;
use super::config::Config;
use super::error::{ReloadError, StartError};
use super::health;
use super::live_config::{self, LiveConfig, WorkflowPool};
use super::pod_registry::RegisteredPod;
use super::workflow;

/// Applies a configuration.
pub(super) fn reload(app: &Arc<AppState>, config: Config) -> Result<(), ReloadError> {
    if app.is_draining() {
        return Err(ReloadError::Draining);
    }
    config.check()?;
    // Held to the end: reloads are one after the other, and health is taken in before or after.
    let mut registry = app.registry.lock();
    let fixed = needs_restart(&app.config.lock(), &config);
    if !fixed.is_empty() {
        return Err(ReloadError::NeedsRestart(fixed));
    }
    let mut next = None;
    let join = || {
        let joined = next.insert(registry.next(&app.plugin_state.index, &config.pods, || app.tasks.token())?);
        Ok(joined.fleet())
    };
    // Pods join last: what fails before has nothing to take back.
    let dispatch = app.live_config.load().dispatch.clone();
    let live_config = build_live_config(&config, &app.plugin_state, join, dispatch)?;
    let Some(next) = next else { return Ok(()) };
    // Nothing fails from here on.
    app.addresses.publish(&next, &registry);
    app.live_config.store(Arc::new(live_config));
    for gone in registry.without(&next) {
        gone.stop.cancel();
        app.plugin_state.index.retire(gone.pod);
    }
    let new: Vec<RegisteredPod> = next.without(&registry).cloned().collect();
    *app.config.lock() = config;
    app.sources.lock().follow(app, &next);
    *registry = next;
    drop(registry);
    start_health_checks(app, new);
    Ok(())
}

/// Starts the health checks of new pods.
pub(super) fn start_health_checks(app: &Arc<AppState>, pods: Vec<RegisteredPod>) {
    for entry in pods {
        // A pod that had the id before may have failed; this one has not.
        app.breakers.recovered(entry.pod);
        app.tasks.spawn(health::check_periodically(Arc::clone(app), entry));
    }
}

/// The live configuration of a configuration.
///
/// # Errors
///
/// When its profile cannot be used.
pub(super) fn build_live_config(
    config: &Config,
    plugin_state: &PluginState,
    fleet: impl FnOnce() -> Result<Fleet, StartError>,
    mut dispatch: DispatchConfig,
) -> Result<LiveConfig, StartError> {
    let workflows = WorkflowPool::new(workflow::build(&config.profile, plugin_state)?);
    dispatch.policy = Arc::new(live_config::dispatch_policy(config));
    dispatch.handoff = config.handoff.handoff(Arc::new(()));
    Ok(LiveConfig {
        profile: config.profile.label().into(),
        workflows: Arc::new(workflows),
        fleet: Arc::new(fleet()?),
        limits: config.limits.clone(),
        client_idle_timeout: config.timeouts.client_idle_timeout,
        client_fields: config.client_fields.allow.clone(),
        dispatch,
    })
}

/// The changed settings that need a restart.
fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let fixed = [
        ("listen", old.listen != new.listen),
        ("internal", old.internal != new.internal),
        ("tls", old.tls != new.tls),
        ("model", old.model != new.model),
        ("event_sources", old.event_sources != new.event_sources),
        ("snapshot", old.snapshot != new.snapshot),
        ("decision_log", old.decision_log != new.decision_log),
        ("limits.max_connections", old.limits.max_connections != new.limits.max_connections),
        (
            "limits.max_request_headers_bytes",
            old.limits.max_request_headers_bytes != new.limits.max_request_headers_bytes,
        ),
        ("timeouts.connect_timeout", old.timeouts.connect_timeout != new.timeouts.connect_timeout),
    ];
    fixed.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}
