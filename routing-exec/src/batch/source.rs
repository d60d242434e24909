//! Batch source: the requests of a batch, their sizes, admission, and new plans.

use routing_core::batch::{BatchPlan, RequestSize};
use routing_core::{InFlightGuard, Pod};

use crate::dispatch::ClientRequest;

/// A batch. Requests are identified by their index in it.
pub trait BatchSource: Send {
    /// The expected size of a request, asked for when it is planned. How much longer or shorter answers are than expected is learned as
    /// they come.
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
    /// Called when a pod goes down, with its requests; when one comes up, with all that are not in flight; and when requests were
    /// [added](crate::batch::BatchRunner::extend), with those. Work moves to any pod that a plan has named, within the
    /// [cache](routing_core::batch::PodPlan::kv_tokens) that it names.
    fn replan(&mut self, requests: &[u32], pods: &[Pod]) -> Option<BatchPlan>;
}

/// A request's share of its pod's load: notified of the first byte, dropped at the end.
pub type BatchGuard = Box<dyn InFlightGuard>;
