//! What a host brings for its batch: the requests, how large they are, and new plans.

use routing_core::Pod;
use routing_core::batch::BatchPlan;

use crate::run::ClientRequest;

/// A host's batch. Requests are told by their places in it.
pub trait BatchWork: Send {
    /// How large a request is thought to be.
    fn size(&self, place: u32) -> Size;

    /// A request as it is sent. Asked for at every try, so that a batch need not lie in memory as requests.
    fn request(&mut self, place: u32) -> ClientRequest;

    /// Plans anew for requests that have no pod any more, in ascending order, over the pods that live; none if that cannot be,
    /// and the batch ends. Cohorts name requests by their places in the batch, not in `rest`.
    ///
    /// Called when a pod died, with what it had left, and when one came to life, with all that is not under way.
    fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan>;
}

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
