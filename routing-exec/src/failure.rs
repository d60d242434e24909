//! Why an attempt failed, whose fault that is, and whether another pod may do better.

use std::fmt;

/// Why an attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// No connection: refused, reset before anything was sent, no such host.
    Connect(Box<str>),
    /// Nothing came within the bound for a first byte.
    Silent,
    /// The stream stopped, and nothing came within the bound between chunks.
    Idle,
    /// The answer's status says so.
    Status(u16),
    /// The connection broke, or the answer ended before it was complete.
    Cut(Box<str>),
    /// The answer began well, and an event of it was an error that is not the request's own.
    ErrorEvent,
    /// A leg whose answer is kept, not streamed, answered more than is kept.
    TooLong,
    /// The pod's breaker lets nothing through.
    Refused,
}

impl Failure {
    /// Whether the pod is to blame, so that its breaker is charged.
    ///
    /// A pod that pushes back (429, 503) is full, not broken, and what is wrong with a request (other 4xx) is the client's.
    #[must_use]
    pub fn is_the_pods(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Silent | Self::Idle | Self::Cut(_) | Self::ErrorEvent => true,
            Self::Status(status) => *status >= 500 && *status != 503,
            Self::TooLong | Self::Refused => false,
        }
    }

    /// Whether the pod cannot have begun with the request: it never saw it, or had no room for it.
    #[must_use]
    pub fn is_before_it_began(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Refused | Self::Status(429 | 503))
    }

    /// The status a client gets for it: 504 where the pod kept silent, 503 where it is full or held back, 502 where it failed.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Silent | Self::Idle => 504,
            Self::Refused | Self::Status(429 | 503) => 503,
            _ => 502,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(why) => write!(f, "no connection: {why}"),
            Self::Silent => f.write_str("no first byte within its bound"),
            Self::Idle => f.write_str("no further byte within its bound"),
            Self::Status(status) => write!(f, "answered {status}"),
            Self::Cut(why) => write!(f, "cut short: {why}"),
            Self::ErrorEvent => f.write_str("its stream told of an error"),
            Self::TooLong => f.write_str("answered more than is kept of a leg"),
            Self::Refused => f.write_str("its circuit is open"),
        }
    }
}

/// Which failures are worth another pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "settings that a host fills in by name")]
pub struct RetryOn {
    /// No connection.
    pub connect: bool,
    /// No first byte in time.
    pub silent: bool,
    /// A stream that stopped, or was cut, before anything went to the client.
    pub broken: bool,
    /// Statuses 500 and above.
    pub server_errors: bool,
    /// 429 and 503: the pod is full.
    pub push_back: bool,
}

impl RetryOn {
    /// Whether a failure is worth another pod. What is wrong with the request itself is wrong everywhere.
    #[must_use]
    pub fn covers(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Connect(_) => self.connect,
            Failure::Silent => self.silent,
            Failure::Idle | Failure::Cut(_) | Failure::ErrorEvent => self.broken,
            Failure::Status(429 | 503) => self.push_back,
            Failure::Status(status) => *status >= 500 && self.server_errors,
            Failure::Refused => true,
            Failure::TooLong => false,
        }
    }
}

impl Default for RetryOn {
    fn default() -> Self {
        Self { connect: true, silent: true, broken: true, server_errors: true, push_back: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_fault_a_failure_is_what_a_client_is_told_and_whether_another_pod_is_asked() {
        let cut = || Failure::Cut("reset".into());
        let all = RetryOn::default();
        for (failure, is_the_pods, status, is_worth_it) in [
            (Failure::Connect("refused".into()), true, 502, true),
            (Failure::Silent, true, 504, true),
            (Failure::Idle, true, 504, true),
            (cut(), true, 502, true),
            (Failure::ErrorEvent, true, 502, true),
            (Failure::Status(500), true, 502, true),
            (Failure::Status(503), false, 503, true),
            (Failure::Status(429), false, 503, true),
            (Failure::Status(400), false, 502, false),
            (Failure::TooLong, false, 502, false),
            (Failure::Refused, false, 503, true),
        ] {
            let unbegun = matches!(failure, Failure::Connect(_) | Failure::Refused)
                || [429, 503].map(Failure::Status).contains(&failure);
            assert_eq!(failure.is_before_it_began(), unbegun, "{failure}");
            let said = (failure.is_the_pods(), failure.status(), all.covers(&failure));
            assert_eq!(said, (is_the_pods, status, is_worth_it), "{failure}");
        }
    }
}
