//! Log events of a router by `tracing`: health of pods, circuit breakers, odd profiles. Without the feature nothing is logged.
//!
//! A change is one event, with model and pod as fields, and the target `pointsman`. Health changes are as rare as checks; breakers may
//! change with every request, so what is told of them is bounded by a [`LogBudget`].

#[cfg(feature = "tracing")]
mod budget;

use routing_core::Warning;
use routing_exec::Breakers;

use crate::Clock;

/// A pod's health changed.
#[cfg(feature = "tracing")]
pub(crate) fn health(model: &str, pod: &str, is_healthy: bool, why: &str) {
    if is_healthy {
        tracing::info!(target: TARGET, model, pod, why, "pod is healthy");
    } else {
        tracing::warn!(target: TARGET, model, pod, why, "pod is unhealthy");
    }
}

/// What is odd about a profile that is in force from now on.
#[cfg(feature = "tracing")]
pub(crate) fn warnings(model: &str, profile: &str, warnings: &[Warning]) {
    for warning in warnings {
        tracing::warn!(target: TARGET, model, profile, %warning, "the profile is odd");
    }
}

/// Logs the changes of breakers.
#[cfg(feature = "tracing")]
pub(crate) fn breakers<const W: usize>(
    breakers: &Breakers<W>,
    model: &str,
    index: &std::sync::Arc<kv_index::Index<W>>,
    clock: &Clock,
) {
    // What is captured refers to no router: breakers are a part of one.
    let (model, index, clock) = (model.to_owned(), std::sync::Arc::clone(index), std::sync::Arc::clone(clock));
    let budget = parking_lot::Mutex::new(budget::LogBudget::new());
    breakers.on_change(move |change| {
        let now = clock();
        let Some(suppressed) = budget.lock().spend(now) else { return };
        let pod = index.name(change.pod);
        let pod = pod.as_deref().unwrap_or("?");
        let (before, after, cause) = (change.before.name(), change.after.name(), &change.cause);
        let open_ms = change.after.open_until.map(|until| until.saturating_duration_since(now).as_millis() as u64);
        if change.after.open_until.is_some() {
            tracing::warn!(target: TARGET, model, pod, before, after, %cause, open_ms, suppressed, "circuit breaker");
        } else {
            tracing::info!(target: TARGET, model, pod, before, after, %cause, suppressed, "circuit breaker");
        }
    });
}

#[cfg(not(feature = "tracing"))]
pub(crate) fn health(_model: &str, _pod: &str, _is_healthy: bool, _why: &str) {}

#[cfg(not(feature = "tracing"))]
pub(crate) fn warnings(_model: &str, _profile: &str, _warnings: &[Warning]) {}

#[cfg(not(feature = "tracing"))]
pub(crate) fn breakers<const W: usize>(
    _breakers: &Breakers<W>,
    _model: &str,
    _index: &std::sync::Arc<kv_index::Index<W>>,
    _clock: &Clock,
) {
}

#[cfg(feature = "tracing")]
const TARGET: &str = "pointsman";
