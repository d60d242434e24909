//! Dispatch policy: timeouts, retries and buffering.

use std::time::Duration;

use routing_core::Role;

use crate::failure::RetryOn;

/// Timeouts, retries and buffering of a dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "settings that a host fills in by name")]
pub struct DispatchPolicy {
    /// Pods that are sent a request for a step, the first one included; at least one.
    pub max_attempts: u32,
    /// Failures that are retried on another pod.
    pub retry_on: RetryOn,
    /// Time to first byte of a prefill pod.
    pub prefill_first_byte_timeout: Duration,
    /// Time to first byte of any other pod's stream.
    pub first_byte_timeout: Duration,
    /// Time to any other pod's response that is not streamed, which includes all of its generation.
    pub request_timeout: Duration,
    /// Time between two chunks of a stream.
    pub idle_timeout: Duration,
    /// Buffered bytes of a response that is not streamed to the client: one that the next leg needs, which fails beyond that,
    /// or one of a decode pod that may decline, which is passed to the client beyond that.
    pub max_buffered_bytes: usize,
    /// New plans of a dispatch.
    pub max_replans: u32,
    /// The `Retry-After` of a 503.
    pub retry_after: Duration,
}

impl DispatchPolicy {
    pub(crate) fn timeout(&self, role: Role, streams: bool) -> Duration {
        match role {
            Role::Prefill => self.prefill_first_byte_timeout,
            _ if streams => self.first_byte_timeout,
            _ => self.request_timeout,
        }
    }
}

impl Default for DispatchPolicy {
    /// Three pods a step, 60 s to a first byte, 10 min to a whole response, 30 s between chunks, 1 MiB buffered, one replan.
    fn default() -> Self {
        Self {
            max_attempts: 3,
            retry_on: RetryOn::default(),
            prefill_first_byte_timeout: Duration::from_secs(60),
            first_byte_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(600),
            idle_timeout: Duration::from_secs(30),
            max_buffered_bytes: 1 << 20,
            max_replans: 1,
            retry_after: Duration::from_secs(1),
        }
    }
}
