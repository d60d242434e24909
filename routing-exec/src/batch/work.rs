//! What a host brings for its batch: the requests, how large they are, and new plans.

use routing_core::batch::BatchPlan;
use routing_core::{InFlightGuard, Pod};

use crate::run::ClientRequest;

/// A host's batch. Requests are told by their places in it.
pub trait BatchWork: Send {
    /// How large a request is thought to be. The answer may change as a host learns more: a request counts for what was said
    /// last, when it was given to its pod or when it was sent.
    fn size(&self, place: u32) -> Size;

    /// Whether a pod may begin a request now, and the request's share of the pod's load, which is held until it ends; none
    /// for not now. The host's own bound, beside [`Bound`](crate::batch::Bound): asked before a request is begun that has its
    /// turn and whose pod has room, and once more when anything happened to the batch or after
    /// [`ask_again`](crate::batch::BatchRunConfig::ask_again). A no holds up the pod, never the batch's order.
    ///
    /// So a gateway that serves others too begins a batch only in their gaps, and its decisions about others count what the batch
    /// does. A request that is tried again keeps its pod's place, and one that tries a dead pod is alone
    /// there: both are sent whatever the answer is, with no share after a no.
    ///
    /// Always, with no share, unless told otherwise.
    fn admit(&mut self, _pod: Pod, _place: u32) -> Option<BatchHold> {
        Some(Box::new(()))
    }

    /// A request as it is sent. Asked for at every try, so that a batch need not lie in memory as requests.
    fn request(&mut self, place: u32) -> ClientRequest;

    /// Plans anew for requests that have no pod any more, in ascending order, over the pods that live; none if that cannot be,
    /// and the batch ends. Cohorts name requests by their places in the batch, not in `rest`.
    ///
    /// Called when a pod died, with what it had left, and when one came to life, with all that is not under way.
    fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan>;
}

/// A request's share of its pod's load: told of its first byte, dropped when it ends.
pub type BatchHold = Box<dyn InFlightGuard>;

/// How large a request is thought to be, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a host fills in by name")]
pub struct Size {
    /// Of its prompt.
    pub prompt: u32,
    /// Of its answer.
    pub output: u32,
}

impl Size {
    /// Both.
    pub(super) fn tokens(self) -> u64 {
        u64::from(self.prompt) + u64::from(self.output)
    }
}
