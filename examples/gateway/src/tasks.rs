//! Structured concurrency: every task of a gateway is tracked, and none outlives it.
//!
//! The rule: what is spawned here ends when [`Tasks::stop`] is called, and [`Tasks::wait`] returns when it has.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::stop_signal::StopSignal;

/// The tasks of one gateway. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Tasks {
    tracker: TaskTracker,
    stopped: StopSignal,
}

impl Tasks {
    /// Starts a task. It is dropped, wherever it is, when everything stops.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stopped = self.stopped.given();
        self.tracker.spawn(async move {
            tokio::select! {
                biased;
                () = stopped => {}
                () = task => {}
            }
        });
    }

    /// Starts a task that ends by a token of its own, and has things to close before it is gone.
    #[cfg(any(feature = "nats", feature = "grpc"))]
    pub(super) fn spawn_closing(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tracker.spawn(task);
    }

    /// A token that is cancelled when everything stops, or before.
    pub(super) fn token(&self) -> CancellationToken {
        self.stopped.child_token()
    }

    /// Ends everything.
    pub(super) fn stop(&self) {
        self.stopped.give();
        self.tracker.close();
    }

    /// Waits until every task is gone. Only after [`Self::stop`].
    pub(super) async fn wait(&self) {
        self.tracker.wait().await;
    }
}

/// The HTTP client's own tasks are the gateway's too.
impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}
