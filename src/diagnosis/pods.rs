//! Findings about single pods and clocks: events that lag or never come, failures, health checks, loads.

use std::time::Instant;

use kv_index::OutOfStep;

use super::{ENOUGH, FindingKind, LONG, STALE, Tell};
use crate::cache_audit::Lag;
use crate::pod_registry::RegisteredPod;
use crate::router::Router;

impl<const W: usize> Router<W> {
    /// Pods whose events have not been up to date for long.
    pub(super) fn lagging_feeds(&self, pods: &[RegisteredPod], now: Instant, tell: Tell<'_>) {
        for pod in pods.iter().filter(|pod| pod.healthy) {
            let Some((lag, seconds)) = self.long_lag(pod, now) else { continue };
            let what = match lag {
                Lag::Gap => {
                    "batches of its events are missing, and those behind them wait: replay what is missing, or give it up"
                }
                Lag::OutOfStep(OutOfStep::Disconnected) => {
                    "its events cannot be subscribed to: check the address and port of its engine's publisher"
                }
                Lag::OutOfStep(OutOfStep::Replaying) => {
                    "its missing events are asked for in vain: check the address and port of its engine's replay socket"
                }
                Lag::OutOfStep(_) => {
                    "its engine publishes and does not replay, so every lost batch costs all that was known of it: check the address \
                     and port of its replay socket, or do without one"
                }
            };
            tell(FindingKind::FeedBehind, Some(pod), format!("for {seconds} s {what}"));
        }
    }

    /// Why a pod's events have not been up to date for long, and for how many seconds.
    fn long_lag(&self, pod: &RegisteredPod, now: Instant) -> Option<(Lag, u64)> {
        let (lag, since) = self.cache_audit().log_of(pod.pod)?.lag()?;
        let lasted = now.saturating_duration_since(since);
        (lasted > LONG).then_some((lag, lasted.as_secs()))
    }

    /// Pods of which nothing is heard, under a profile that goes by what they hold.
    pub(super) fn silent_pods(&self, pods: &[RegisteredPod], now: Instant, tell: Tell<'_>) {
        let (decided, _) = self.observations().without_tokens();
        if decided < ENOUGH || self.live().is_predicted || !self.observations().is_cache_aware() {
            return;
        }
        for pod in pods.iter().filter(|pod| is_old(pod, now) && pod.healthy) {
            let log = self.cache_audit().log_of(pod.pod);
            let is_heard = log.is_some_and(|log| log.stored() > 0 || log.heard().is_some());
            let holds = self.index().pod_stats(pod.pod).is_some_and(|stats| stats.blocks > 0);
            // One that was sent nothing has nothing to announce.
            let was_sent = self.observations().confirmed(pod.pod).missed > 0;
            if was_sent && !is_heard && !holds && self.long_lag(pod, now).is_none() {
                let message = format!(
                    "no event came from it, and the profile `{}` goes by what pods hold: start its engine with \
                     `--kv-events-config`, and feed its events",
                    self.profile()
                );
                tell(FindingKind::NoEvents, Some(pod), message);
            }
        }
    }

    /// Pods whose circuit breakers open again and again, without a success between.
    pub(super) fn failing_pods(&self, pods: &[RegisteredPod], now: Instant, tell: Tell<'_>) {
        for pod in pods {
            let lasted = pod.breaker.failing_since.map(|since| now.saturating_duration_since(since));
            let Some(lasted) = lasted.filter(|lasted| *lasted > LONG && pod.breaker.times_opened > 1) else { continue };
            let message = format!(
                "it has failed every request for {} s, and its circuit breaker opened {} times in a row: it may be up and not able to \
                 serve; look at its log, and let its health check try what requests do",
                lasted.as_secs(),
                pod.breaker.times_opened
            );
            tell(FindingKind::FailingPod, Some(pod), message);
        }
    }

    /// Pods that wait for their first health check, where nobody checks.
    pub(super) fn unchecked_pods(&self, pods: &[RegisteredPod], now: Instant, tell: Tell<'_>) {
        if self.trusts_new_pods() {
            return;
        }
        let unchecked: Vec<_> = pods.iter().filter(|pod| pod.checked.is_none() && is_old(pod, now)).collect();
        let what = "was built with `health_checked`, so that no pod gets a request before it passed a check";
        if !unchecked.is_empty() && unchecked.len() == pods.len() {
            let message = format!(
                "the router {what}, and nobody has said how any of its {} pods is: spawn health checks, call `set_healthy`, or leave \
                 `health_checked` out",
                pods.len()
            );
            return tell(FindingKind::NoHealthChecks, None, message);
        }
        for pod in unchecked {
            let message = format!(
                "nobody has said how it is, and the router {what}: check it as the others are, by `set_healthy`"
            );
            tell(FindingKind::NoHealthChecks, Some(pod), message);
        }
    }

    pub(super) fn clocks(&self, pods: &[RegisteredPod], now: Instant, tell: Tell<'_>) {
        for pod in pods {
            let age = pod.reported.map(|at| now.saturating_duration_since(at));
            if let Some(age) = age.filter(|age| *age > STALE) {
                let message = format!("its load was last reported {} s ago: who reads it has stopped", age.as_secs());
                tell(FindingKind::StaleLoad, Some(pod), message);
            }
        }
        let (decided, _) = self.observations().without_tokens();
        let behind = self.observations().behind();
        if decided > 0 && behind > STALE {
            let message = format!(
                "the last request's time was {} s behind the clock: take the time for each request, not once for many",
                behind.as_secs()
            );
            tell(FindingKind::StaleClock, None, message);
        }
        let since = self.observations().since_tick(now);
        if decided > 0 && since > STALE {
            let message = format!(
                "nobody called `tick` for {} s: what was speculated and what pods held that left stays, and circuit breakers stay \
                 open; call it every second, or spawn the housekeeping",
                since.as_secs()
            );
            tell(FindingKind::NoHousekeeping, None, message);
        }
    }
}

/// Whether a pod has been there for long.
fn is_old(pod: &RegisteredPod, now: Instant) -> bool {
    now.saturating_duration_since(pod.joined) > LONG
}
