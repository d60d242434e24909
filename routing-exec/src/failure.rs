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
    /// No connection, for want of something of this process or its machine: file descriptors, ports, memory of sockets. It says
    /// nothing of the pod, which was not asked.
    #[error("out of local resources: {0}")]
    LocalResources(Box<str>),
}

impl Failure {
    /// Its name in metrics and logs.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect_failure",
            Self::FirstByteTimeout => "first_byte_timeout",
            Self::IdleTimeout => "idle_timeout",
            Self::Status(429 | 503) => "overloaded",
            Self::Status(401 | 403 | 404) => "refused",
            Self::Status(400..=499) => "rejected",
            Self::Status(_) => "status",
            Self::Truncated(_) => "truncated",
            Self::ErrorEvent => "error_event",
            Self::ResponseTooLarge => "response_too_large",
            Self::BreakerOpen => "breaker_open",
            Self::LocalResources(_) => "local_resources",
        }
    }

    /// Whether it counts as a failure of the pod's circuit breaker.
    ///
    /// A pod that pushes back (429, 503) is overloaded, not broken, and other 4xx are the client's unless another pod serves it. No engine redirects, and no
    /// status is beyond 599.
    #[must_use]
    pub fn is_pod_fault(&self) -> bool {
        match self {
            Self::Connect(_) | Self::FirstByteTimeout | Self::IdleTimeout | Self::Truncated(_) | Self::ErrorEvent => {
                true
            }
            Self::Status(status) => !matches!(status, 100..=299 | 400..=499 | 503),
            Self::ResponseTooLarge | Self::BreakerOpen | Self::LocalResources(_) => false,
        }
    }

    /// Whether the pod is overloaded: it answered 429 or 503.
    #[must_use]
    pub fn is_pushback(&self) -> bool {
        matches!(self, Self::Status(429 | 503))
    }

    /// Whether the pod does not serve what is asked for, or whoever asks: 4xx but for 429. Mostly every pod would say the same, and
    /// where another serves it, this one is misconfigured.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Status(400..=428 | 430..=499))
    }

    /// Whether the request may have caused it, on any pod: everything that happens after it was received.
    pub(crate) fn may_be_the_requests(&self) -> bool {
        !matches!(self, Self::Connect(_) | Self::BreakerOpen | Self::LocalResources(_))
    }

    /// Whether no pod was asked: nothing left this process.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self, Self::BreakerOpen | Self::LocalResources(_))
    }

    /// Whether the fault is this process's own.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self, Self::LocalResources(_))
    }

    /// Whether the pod cannot have processed the request: it never received it, or rejected it for load.
    #[must_use]
    pub fn is_unprocessed(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::BreakerOpen | Self::LocalResources(_) | Self::Status(429 | 503))
    }

    /// The client's status: 504 for timeouts, 503 for overload, open breakers and want of local resources, 502 otherwise.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::FirstByteTimeout | Self::IdleTimeout => 504,
            Self::BreakerOpen | Self::LocalResources(_) | Self::Status(429 | 503) => 503,
            _ => 502,
        }
    }
}

/// Retry conditions: the failures that are retried on another pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryOn {
    /// No connection.
    pub connect_failure: bool,
    /// First-byte timeouts.
    pub first_byte_timeout: bool,
    /// Streams that stalled, broke or reported an error before the client got a byte.
    pub reset: bool,
    /// 5xx but for 503, and statuses that no engine has: redirects, and beyond 599.
    pub server_error: bool,
    /// 429 and 503.
    pub overloaded: bool,
    /// 401, 403 and 404: once, on one other pod. If that serves it, the first one's breaker is charged.
    pub refused: bool,
    /// Any other 4xx but for 429: likewise. Mostly the request is wrong, and is then refused twice; but a pod that says so of every
    /// request would else draw them all, since nobody is faster.
    pub rejected: bool,
}

crate::setters::setters! { RetryOn {
    connect_failure: bool,
    first_byte_timeout: bool,
    reset: bool,
    server_error: bool,
    overloaded: bool,
    refused: bool,
    rejected: bool,
} }

impl RetryOn {
    /// Whether a failure is retried.
    #[must_use]
    pub fn matches(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Connect(_) => self.connect_failure,
            Failure::FirstByteTimeout => self.first_byte_timeout,
            Failure::IdleTimeout | Failure::Truncated(_) | Failure::ErrorEvent => self.reset,
            Failure::Status(429 | 503) => self.overloaded,
            Failure::Status(401 | 403 | 404) => self.refused,
            Failure::Status(400..=499) => self.rejected,
            Failure::Status(_) => failure.is_pod_fault() && self.server_error,
            Failure::BreakerOpen | Failure::LocalResources(_) => true,
            Failure::ResponseTooLarge => false,
        }
    }
}

impl Default for RetryOn {
    fn default() -> Self {
        let [connect_failure, first_byte_timeout, reset, server_error, overloaded, refused, rejected] = [true; 7];
        Self { connect_failure, first_byte_timeout, reset, server_error, overloaded, refused, rejected }
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
            (Failure::Status(400), false, 502, true),
            (Failure::Status(404), false, 502, true),
            (Failure::Status(307), true, 502, true),
            (Failure::Status(777), true, 502, true),
            (Failure::ResponseTooLarge, false, 502, false),
            (Failure::BreakerOpen, false, 503, true),
            (Failure::LocalResources("descriptors".into()), false, 503, true),
        ] {
            let unprocessed =
                matches!(failure, Failure::Connect(_) | Failure::BreakerOpen | Failure::LocalResources(_))
                    || [429, 503].map(Failure::Status).contains(&failure);
            assert_eq!(failure.is_unprocessed(), unprocessed, "{failure}");
            let said = (failure.is_pod_fault(), failure.status(), all.matches(&failure));
            assert_eq!(said, (is_pod_fault, status, is_retried), "{failure}");
        }
    }
}
