//! Request failures as a client sees them.
//!
//! A failure is *reported* if the client got an error status or an error event in the stream. Any other leaves a client with an
//! answer that is wrong or truncated, which no fault of a pod excuses.

use std::time::Duration;

/// Why a client has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Failure {
    /// An error status.
    #[error("status {0}")]
    Status(u16),
    /// An error event, after some of the answer perhaps.
    #[error("an error event in the stream")]
    ErrorEvent,
    /// No connection, or it broke before the answer's head.
    #[error("no answer: {0}")]
    Connection(String),
    /// The answer ended without its end.
    #[error("the answer was truncated after {0} tokens")]
    Truncated(usize),
    /// What came is no answer.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// A whole answer, but to something else.
    #[error("another answer than the prompt's: {got} tokens for {expected}")]
    Mismatch {
        /// Tokens that came.
        got: usize,
        /// Tokens that should have come.
        expected: usize,
    },
    /// Nothing came for too long.
    #[error("no end within {0:?}")]
    Timeout(Duration),
}

impl Failure {
    /// Whether the client got an error.
    pub(crate) const fn is_reported(&self) -> bool {
        matches!(self, Self::Status(_) | Self::ErrorEvent)
    }

    /// A name to count by.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Status(status) => format!("status {status}"),
            Self::ErrorEvent => "error event".to_owned(),
            Self::Connection(_) => "no connection".to_owned(),
            Self::Truncated(_) => "truncated without an error".to_owned(),
            Self::Malformed(_) => "malformed".to_owned(),
            Self::Mismatch { .. } => "wrong answer".to_owned(),
            Self::Timeout(_) => "timeout".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_the_client_gets_are_reported() {
        assert!(Failure::Status(503).is_reported() && Failure::ErrorEvent.is_reported());
        let silent = [
            Failure::Truncated(3),
            Failure::Malformed("x"),
            Failure::Mismatch { got: 1, expected: 2 },
            Failure::Timeout(Duration::from_secs(1)),
            Failure::Connection("refused".to_owned()),
        ];
        assert!(silent.iter().all(|failure| !failure.is_reported()));
    }
}
