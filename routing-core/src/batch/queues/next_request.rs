//! What a pod is given next, and who of a cohort goes first.

/// Whether a cohort's first request, which computes the shared prefix, is sent ahead of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CohortStart {
    /// The others wait until its response begins; later cohorts of the pod overtake them. For engines that share blocks once they
    /// are computed: sent together, each request of the cohort would compute them.
    ///
    /// A response that is not streamed begins when it is complete, so this costs a large cohort one response's time.
    LeaderFirst,
    /// All are sent within the pod's limit. For engines that share prefixes between waiting prompts.
    Together,
}

/// The next request of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a caller may make by itself, to send a request out of order")]
pub struct NextRequest {
    /// Which, by its place in the batch.
    pub request: u32,
    /// The cohort that waits for its response, by a number of its pod's list.
    pub leader_of: Option<u32>,
}

impl NextRequest {
    /// A request that nobody waits for.
    #[must_use]
    pub fn alone(request: u32) -> Self {
        Self { request, leader_of: None }
    }
}
