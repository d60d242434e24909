//! Tokio's clock as a timer.

use std::future::Future;
use std::time::Instant;

use crate::executor::Timer;

/// Time as tokio tells it: where its clock is paused, this one is too.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TokioTimer;

impl TokioTimer {
    /// The timer of whatever tokio runtime it is used in.
    #[must_use]
    pub fn new() -> Self {
        Self
    }
}

impl Timer for TokioTimer {
    fn now(&self) -> Instant {
        ::tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static {
        ::tokio::time::sleep_until(at.into())
    }
}
