//! A new configuration in place of the old one: all of it, or nothing.
//!
//! Everything that can fail is done aside. Then one pointer is swapped: a request sees the old profile with the old pods or
//! the new one with the new pods. Streams go on, whatever became of their pods in the fleet.

use std::sync::Arc;

use routing_core::Fleet;
use routing_exec::DispatchConfig;
use routing_plugins::PluginState;

use super::config::Config;
use super::config::server_seconds as seconds;
use super::error::{ReloadError, StartError};
use super::health;
use super::roster::Member;
use super::serving::{self, Deciding, Serving};
use super::shared::Shared;
use super::workflow;

/// Takes a configuration.
pub(super) fn reload(shared: &Arc<Shared>, config: Config) -> Result<(), ReloadError> {
    if shared.is_draining() {
        return Err(ReloadError::Draining);
    }
    config.check()?;
    // Held to the end: reloads are one after the other, and health is taken in before or after.
    let mut roster = shared.roster.lock();
    let fixed = needs_restart(&shared.config.lock(), &config);
    if !fixed.is_empty() {
        return Err(ReloadError::NeedsRestart(fixed));
    }
    let mut next = None;
    let join = || {
        let joined = next.insert(roster.next(&shared.plugin_state.index, &config.pods, || shared.tasks.token())?);
        Ok(joined.fleet())
    };
    // Pods join last: what fails before has nothing to take back.
    let dispatch = shared.serving.load().dispatch.clone();
    let serving = serving(&config, &shared.plugin_state, join, dispatch)?;
    let Some(next) = next else { return Ok(()) };
    // Nothing fails from here on.
    shared.directory.publish(&next, &roster);
    shared.serving.store(Arc::new(serving));
    for gone in roster.without(&next) {
        gone.stop.cancel();
        shared.plugin_state.index.retire(gone.pod);
    }
    let new: Vec<Member> = next.without(&roster).cloned().collect();
    *shared.config.lock() = config;
    shared.sources.lock().follow(shared, &next);
    *roster = next;
    drop(roster);
    follow_all(shared, new);
    Ok(())
}

/// What is asked of pods while they are there.
pub(super) fn follow_all(shared: &Arc<Shared>, members: Vec<Member>) {
    for member in members {
        // A pod that had the id before may have failed; this one has not.
        shared.breakers.recovered(member.pod);
        shared.tasks.spawn(health::follow(Arc::clone(shared), member));
    }
}

/// A version of what is served, by a configuration.
///
/// # Errors
///
/// When its profile cannot be used.
pub(super) fn serving(
    config: &Config,
    plugin_state: &PluginState,
    fleet: impl FnOnce() -> Result<Fleet, StartError>,
    mut dispatch: DispatchConfig,
) -> Result<Serving, StartError> {
    let deciding = Deciding::new(workflow::build(&config.profile, plugin_state)?);
    dispatch.policy = Arc::new(serving::dispatch_policy(config));
    dispatch.handoff = serving::handoff(config.handoff);
    Ok(Serving {
        profile: config.profile.label().into(),
        deciding: Arc::new(deciding),
        fleet: Arc::new(fleet()?),
        limits: config.limits.clone(),
        client_pause: seconds(config.patience.client_seconds),
        dispatch,
    })
}

/// The settings that differ and are fixed at the start.
fn needs_restart(old: &Config, new: &Config) -> Vec<&'static str> {
    let fixed = [
        ("listen", old.listen != new.listen),
        ("internal", old.internal != new.internal),
        ("tls", old.tls != new.tls),
        ("model", old.model != new.model),
        ("sources", old.sources != new.sources),
        ("snapshot", old.snapshot != new.snapshot),
        ("limits.connections", old.limits.connections != new.limits.connections),
        ("limits.header_bytes", old.limits.header_bytes != new.limits.header_bytes),
        ("patience.connect_seconds", old.patience.connect_seconds != new.patience.connect_seconds),
    ];
    fixed.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}
