//! Dispatch policy: timeouts, retries and buffering.

use std::time::Duration;

use routing_core::Role;

use crate::failure::RetryOn;

/// Timeouts, retries and buffering of a dispatch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchPolicy {
    /// Pods that are sent a request for a step, the first one included; at least one.
    pub max_attempts: u32,
    /// Failures that are retried on another pod.
    pub retry_on: RetryOn,
    /// Time to first byte of a prefill or encode pod.
    pub prefill_first_byte_timeout: Duration,
    /// Time to first byte of any other pod's stream.
    pub first_byte_timeout: Duration,
    /// Time of one attempt to any other pod's response that is not streamed, which includes all of its generation.
    pub per_try_timeout: Duration,
    /// Time of a request in all: every attempt, pause, new plan, and the stream to its end. No pod is charged where it passes. Where
    /// nobody reads the response, it takes [`Deadlines`](crate::Deadlines) to notice, as routers have them.
    pub request_timeout: Duration,
    /// Time between two chunks of a stream.
    pub idle_timeout: Duration,
    /// Buffered bytes of a response that is not streamed to the client: one that the next leg needs, which fails beyond that,
    /// or the beginning of one that can be had of another pod, which is passed to the client beyond that: the first event of a
    /// stream until it is whole, an answer of a known length, one of a decode pod that may decline.
    pub max_buffered_bytes: usize,
    /// New plans of a dispatch.
    pub max_replans: u32,
    /// Whether a pod whose circuit breaker is open is sent a request for which no other pod is left. Where all breakers are open,
    /// the fault is hardly the pods', and somebody has to find out when it is over.
    pub fail_open: bool,
    /// Whether a stream that ends without its API's last event is truncated: `data: [DONE]` for completions, `message_stop` for
    /// Anthropic's Messages, one that tells the response's end for OpenAI's Responses. Engines that speak these send it.
    pub require_done: bool,
    /// The `Retry-After` of a 503.
    pub retry_after: Duration,
}

crate::setters::setters! { DispatchPolicy {
    max_attempts: u32,
    retry_on: RetryOn,
    prefill_first_byte_timeout: Duration,
    first_byte_timeout: Duration,
    per_try_timeout: Duration,
    request_timeout: Duration,
    idle_timeout: Duration,
    max_buffered_bytes: usize,
    max_replans: u32,
    fail_open: bool,
    require_done: bool,
    retry_after: Duration,
} }

impl DispatchPolicy {
    pub(crate) fn timeout(&self, role: Role, streams: bool) -> Duration {
        match role {
            Role::Prefill | Role::Encode => self.prefill_first_byte_timeout,
            _ if streams => self.first_byte_timeout,
            _ => self.per_try_timeout,
        }
    }
}

impl Default for DispatchPolicy {
    /// Three pods a step, 60 s to a first byte, 10 min to a whole response of one pod, 30 s between chunks, 30 min for all of a request,
    /// 1 MiB buffered, one replan; open breakers are gone past for want of another pod, and streams end with `[DONE]`.
    fn default() -> Self {
        Self {
            max_attempts: 3,
            retry_on: RetryOn::default(),
            prefill_first_byte_timeout: Duration::from_secs(60),
            first_byte_timeout: Duration::from_secs(60),
            per_try_timeout: Duration::from_secs(600),
            // Longer than one attempt, so that a silent pod leaves time for another, and than what a model thinks and writes at length.
            request_timeout: Duration::from_secs(1800),
            idle_timeout: Duration::from_secs(30),
            max_buffered_bytes: 1 << 20,
            max_replans: 1,
            fail_open: true,
            require_done: true,
            retry_after: Duration::from_secs(1),
        }
    }
}
