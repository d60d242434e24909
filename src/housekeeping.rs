//! Housekeeping as a tokio task.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::router::Router;

/// The task that calls [`Router::tick`] every second. Dropping it ends the task.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct Housekeeping(JoinHandle<()>);

impl Drop for Housekeeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<const W: usize> Router<W> {
    /// Spawns a task that [ticks](Self::tick) every second, on the current tokio runtime.
    pub fn spawn_housekeeping(&self) -> Housekeeping {
        let router = self.clone();
        Housekeeping(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(PERIOD);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                router.tick(router.now());
            }
        }))
    }
}

const PERIOD: Duration = Duration::from_secs(1);
