//! The engine loop: steps that take the time they cost.
//!
//! Timers are no finer than a millisecond and a fast pod's steps are shorter, so the task keeps to a schedule and sleeps
//! only when it is ahead of it.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::engine::{Condition, Engine};

impl Engine {
    /// Steps until it is dropped.
    pub(super) async fn run_steps(&self) {
        let mut due = Instant::now();
        let mut condition = self.condition.subscribe();
        loop {
            if condition.wait_for(|condition| !condition.hung).await.is_err() {
                return;
            }
            let (now, slowdown) = (Instant::now(), condition.borrow().slowdown);
            let Some((incarnation, cost)) = self.begin(now, slowdown) else {
                self.idle().await;
                due = Instant::now();
                continue;
            };
            due = due.max(now.checked_sub(CATCH_UP).unwrap_or(now)).checked_add(cost).unwrap_or(now);
            if due > now {
                due = wait_until(due, slowdown, &mut condition).await;
            } else {
                tokio::task::yield_now().await;
            }
            if condition.wait_for(|condition| !condition.hung).await.is_err() {
                return;
            }
            self.complete(incarnation, Instant::now());
        }
    }

    /// Waits for something to do.
    async fn idle(&self) {
        match self.next_expiry() {
            Some(expiry) => _ = tokio::time::timeout_at(expiry.into(), self.wake.notified()).await,
            None => self.wake.notified().await,
        }
    }
}

/// Waits for the end of a step that was begun at some slowdown; when that was. What is left of the step follows a change of the
/// slowdown, so that a pod that recovers or restarts is not held up by its past.
async fn wait_until(mut due: Instant, mut slowdown: f64, condition: &mut watch::Receiver<Condition>) -> Instant {
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => return due,
            Ok(changed) = condition.wait_for(|condition| condition.slowdown != slowdown) => {
                let (now, times) = (Instant::now(), changed.slowdown / slowdown);
                due = now + Duration::from_secs_f64(due.saturating_duration_since(now).as_secs_f64() * times);
                slowdown = changed.slowdown;
            }
            else => return due,
        }
    }
}

/// How far behind its schedule a pod may be and still catch up: more would be a burst that no engine can do.
const CATCH_UP: Duration = Duration::from_millis(20);
