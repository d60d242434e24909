//! How patient a run is.

use std::time::Duration;

use routing_core::Role;

use crate::failure::RetryOn;

/// How patient a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "settings that a host fills in by name")]
pub struct RunConfig {
    /// How many pods are sent a request for a step, of those that fail; at least one is.
    pub attempts: u32,
    /// Which failures are worth another pod.
    pub retry_on: RetryOn,
    /// How long a pod that prefills may take to its first byte.
    pub prefill_first_byte: Duration,
    /// How long any other pod may take to the first byte of a stream.
    pub first_byte: Duration,
    /// How long any other pod may take to an answer that comes whole: as long as it takes to make all of it.
    pub whole: Duration,
    /// How long a stream may pause.
    pub idle: Duration,
    /// How much of an answer is kept, of a leg that is not streamed to the client: one whose answer the next leg needs, which
    /// fails beyond that, or one that is asked first and may decline, which is the client's beyond that.
    pub most_kept: usize,
    /// How often a new plan may be asked for.
    pub replans: u32,
    /// What a client is told to wait when there is no pod for it.
    pub retry_after: Duration,
}

impl RunConfig {
    pub(crate) fn first_byte_of(&self, role: Role, streams: bool) -> Duration {
        match role {
            Role::Prefill => self.prefill_first_byte,
            _ if streams => self.first_byte,
            _ => self.whole,
        }
    }
}

impl Default for RunConfig {
    /// Three pods a step, 60 s to a first byte, 10 min to a whole answer, 30 s between chunks, a MiB kept, one new plan.
    fn default() -> Self {
        Self {
            attempts: 3,
            retry_on: RetryOn::default(),
            prefill_first_byte: Duration::from_secs(60),
            first_byte: Duration::from_secs(60),
            whole: Duration::from_secs(600),
            idle: Duration::from_secs(30),
            most_kept: 1 << 20,
            replans: 1,
            retry_after: Duration::from_secs(1),
        }
    }
}
