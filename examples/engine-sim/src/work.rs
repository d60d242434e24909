//! The engine's task: steps that take the time they cost.
//!
//! Timers are no finer than a millisecond and a fast pod's steps are shorter, so the task keeps to a schedule and sleeps
//! only when it is ahead of it.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::core::{Core, Mood};

impl Core {
    /// Works until it is dropped.
    pub(super) async fn work(&self) {
        let mut due = Instant::now();
        let mut mood = self.mood.subscribe();
        loop {
            if mood.wait_for(|mood| !mood.hung).await.is_err() {
                return;
            }
            let (now, slow) = (Instant::now(), mood.borrow().slow);
            let Some((life, cost)) = self.begin(now, slow) else {
                self.idle().await;
                due = Instant::now();
                continue;
            };
            due = due.max(now.checked_sub(CATCH_UP).unwrap_or(now)).checked_add(cost).unwrap_or(now);
            if due > now {
                due = pass(due, slow, &mut mood).await;
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

/// Waits until a step is done that is begun at some slowness, and says when that was. Should the pod become slower or
/// quicker meanwhile, what is left of the step does too: a pod that recovers or starts anew is not held up by its past.
async fn pass(mut due: Instant, mut slow: f64, mood: &mut watch::Receiver<Mood>) -> Instant {
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => return due,
            Ok(changed) = mood.wait_for(|mood| mood.slow != slow) => {
                let (now, times) = (Instant::now(), changed.slow / slow);
                due = now + Duration::from_secs_f64(due.saturating_duration_since(now).as_secs_f64() * times);
                slow = changed.slow;
            }
            else => return due,
        }
    }
}

/// How far behind its schedule a pod may be and still catch up: more would be a burst that no engine can do.
const CATCH_UP: Duration = Duration::from_millis(20);
