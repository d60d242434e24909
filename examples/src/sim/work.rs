//! The engine's task: steps that take the time they cost.
//!
//! Timers are no finer than a millisecond and a fast pod's steps are shorter, so the task keeps to a schedule and sleeps
//! only when it is ahead of it.

use std::time::{Duration, Instant};

use crate::sim::core::Core;

impl Core {
    /// Works until it is dropped.
    pub(super) async fn work(&self) {
        let mut due = Instant::now();
        let mut mood = self.mood.subscribe();
        loop {
            if mood.wait_for(|mood| !mood.hung).await.is_err() {
                return;
            }
            let now = Instant::now();
            let Some((life, cost)) = self.begin(now) else {
                self.idle().await;
                due = Instant::now();
                continue;
            };
            due = due.max(now.checked_sub(CATCH_UP).unwrap_or(now)).checked_add(cost).unwrap_or(now);
            if due > now {
                tokio::time::sleep_until(due.into()).await;
            } else {
                tokio::task::yield_now().await;
            }
            if mood.wait_for(|mood| !mood.hung).await.is_err() {
                return;
            }
            self.complete(life, Instant::now());
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

/// How far behind its schedule a pod may be and still catch up: more would be a burst that no engine can do.
const CATCH_UP: Duration = Duration::from_millis(20);
