//! Batch source: the requests of a batch, their sizes, admission, and new plans.

use routing_core::batch::BatchPlan;
use routing_core::{InFlightGuard, Pod};

use crate::dispatch::ClientRequest;

/// A batch. Requests are identified by their index in it.
pub trait BatchSource: Send {
    /// The expected size of a request. It may change over time: the size counts that was returned last, when the request was
    /// queued or when it was sent.
    fn size(&self, index: u32) -> RequestSize;

    /// Admission: the request's share of the pod's load, held until it ends, or `None` if the pod may not start it now.
    ///
    /// This is the caller's own limit, beside [`ConcurrencyLimit`](crate::batch::ConcurrencyLimit). It is consulted for the next
    /// request of a pod with capacity, and again after any event of the batch or
    /// [`admission_interval`](crate::batch::BatchRunnerConfig::admission_interval). A rejection blocks the pod, not the batch.
    ///
    /// So a gateway runs a batch in the gaps of its own traffic, and its decisions count the batch's load. Retries, which keep
    /// their pod's capacity, and probes of a pod that is down are sent even if rejected, without a guard.
    ///
    /// By default everything is admitted, without load accounting.
    fn admit(&mut self, _pod: Pod, _index: u32) -> Option<BatchGuard> {
        Some(Box::new(()))
    }

    /// The request, built at every attempt, so that a batch need not be in memory.
    fn request(&mut self, index: u32) -> ClientRequest;

    /// Plans requests that lost their pod, in ascending order, over the pods that are up; without a plan the batch ends. Cohorts
    /// name requests by their index in the batch, not in `requests`.
    ///
    /// Called when a pod goes down, with its requests, and when one comes up, with all that are not in flight.
    fn replan(&mut self, requests: &[u32], pods: &[Pod]) -> Option<BatchPlan>;
}

/// A request's share of its pod's load: notified of the first byte, dropped at the end.
pub type BatchGuard = Box<dyn InFlightGuard>;

/// The expected size of a request, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a host fills in by name")]
pub struct RequestSize {
    /// Prompt tokens.
    pub prompt: u32,
    /// Output tokens.
    pub output: u32,
}

impl RequestSize {
    pub(super) fn tokens(self) -> u64 {
        u64::from(self.prompt) + u64::from(self.output)
    }
}
