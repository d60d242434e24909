//! Attempt failures: their cause, breaker attribution, status for the client, and retry conditions.

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// No connection: refused, reset before anything was sent, no such host.
    #[error("connect failed: {0}")]
    Connect(Box<str>),
    /// No byte of the response within the first-byte timeout.
    #[error("first byte timed out")]
    FirstByteTimeout,
    /// No further byte within the idle timeout.
    #[error("stream idle for too long")]
    IdleTimeout,
    /// An error status.
    #[error("responded {0}")]
    Status(u16),
    /// The connection broke, or the response ended before it was complete.
    #[error("response truncated: {0}")]
    Truncated(Box<str>),
    /// An error event within a stream, not caused by the request itself.
    #[error("error event in the stream")]
    ErrorEvent,
    /// The response of a leg that is buffered exceeds the buffer.
    #[error("response exceeds the buffer")]
    ResponseTooLarge,
    /// The pod's circuit breaker is open.
    #[error("circuit breaker open")]
    BreakerOpen,
}

impl Failure {
    /// Whether it counts as a failure of the pod's circuit breaker.
    ///
    /// A pod that sheds load (429, 503) is overloaded, not broken, and other 4xx are the client's.
    #[must_use]
    pub fn is_pod_fault(&self) -> bool {
        match self {
            Self::Connect(_) | Self::FirstByteTimeout | Self::IdleTimeout | Self::Truncated(_) | Self::ErrorEvent => {
                true
            }
            Self::Status(status) => *status >= 500 && *status != 503,
            Self::ResponseTooLarge | Self::BreakerOpen => false,
        }
    }

    /// Whether the pod cannot have processed the request: it never received it, or rejected it for load.
    #[must_use]
    pub fn is_unprocessed(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::BreakerOpen | Self::Status(429 | 503))
    }

    /// The client's status: 504 for timeouts, 503 for overload and open breakers, 502 otherwise.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::FirstByteTimeout | Self::IdleTimeout => 504,
            Self::BreakerOpen | Self::Status(429 | 503) => 503,
            _ => 502,
        }
    }
}

/// Retry conditions: the failures that are retried on another pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "settings that a host fills in by name")]
pub struct RetryOn {
    /// No connection.
    pub connect_failure: bool,
    /// First-byte timeouts.
    pub first_byte_timeout: bool,
    /// Streams that stalled, broke or reported an error before the client got a byte.
    pub reset: bool,
    /// 5xx but for 503.
    pub server_error: bool,
    /// 429 and 503.
    pub overloaded: bool,
}

impl RetryOn {
    /// Whether a failure is retried. Errors of the request itself are not: no other pod would differ.
    #[must_use]
    pub fn matches(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Connect(_) => self.connect_failure,
            Failure::FirstByteTimeout => self.first_byte_timeout,
            Failure::IdleTimeout | Failure::Truncated(_) | Failure::ErrorEvent => self.reset,
            Failure::Status(429 | 503) => self.overloaded,
            Failure::Status(status) => *status >= 500 && self.server_error,
            Failure::BreakerOpen => true,
            Failure::ResponseTooLarge => false,
        }
    }
}

impl Default for RetryOn {
    fn default() -> Self {
        Self { connect_failure: true, first_byte_timeout: true, reset: true, server_error: true, overloaded: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribution_status_and_retry_of_each_failure() {
        let truncated = || Failure::Truncated("reset".into());
        let all = RetryOn::default();
        for (failure, is_pod_fault, status, is_retried) in [
            (Failure::Connect("refused".into()), true, 502, true),
            (Failure::FirstByteTimeout, true, 504, true),
            (Failure::IdleTimeout, true, 504, true),
            (truncated(), true, 502, true),
            (Failure::ErrorEvent, true, 502, true),
            (Failure::Status(500), true, 502, true),
            (Failure::Status(503), false, 503, true),
            (Failure::Status(429), false, 503, true),
            (Failure::Status(400), false, 502, false),
            (Failure::ResponseTooLarge, false, 502, false),
            (Failure::BreakerOpen, false, 503, true),
        ] {
            let unprocessed = matches!(failure, Failure::Connect(_) | Failure::BreakerOpen)
                || [429, 503].map(Failure::Status).contains(&failure);
            assert_eq!(failure.is_unprocessed(), unprocessed, "{failure}");
            let said = (failure.is_pod_fault(), failure.status(), all.matches(&failure));
            assert_eq!(said, (is_pod_fault, status, is_retried), "{failure}");
        }
    }
}
