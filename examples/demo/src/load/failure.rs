//! How a request can end without its whole answer.
//!
//! A failure is *clean* if the client was told: by a status, or by an error event in the stream. Anything else leaves a
//! client that believes what it should not, and no fault of a pod excuses it.

use std::time::Duration;

/// Why a client has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
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
    #[error("the answer was cut after {0} tokens")]
    Cut(usize),
    /// What came is no answer.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// A whole answer, but to something else.
    #[error("another answer than the prompt's: {got} tokens for {expected}")]
    Wrong {
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
    /// Whether the client was told that something went wrong.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        matches!(self, Self::Status(_) | Self::ErrorEvent)
    }

    /// A name to count by.
    #[must_use]
    pub fn kind(&self) -> String {
        match self {
            Self::Status(status) => format!("status {status}"),
            Self::ErrorEvent => "error event".to_owned(),
            Self::Connection(_) => "no connection".to_owned(),
            Self::Cut(_) => "cut without a word".to_owned(),
            Self::Malformed(_) => "malformed".to_owned(),
            Self::Wrong { .. } => "wrong answer".to_owned(),
            Self::Timeout(_) => "timeout".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_client_is_told_is_clean() {
        assert!(Failure::Status(503).is_clean() && Failure::ErrorEvent.is_clean());
        let silent = [
            Failure::Cut(3),
            Failure::Malformed("x"),
            Failure::Wrong { got: 1, expected: 2 },
            Failure::Timeout(Duration::from_secs(1)),
            Failure::Connection("refused".to_owned()),
        ];
        assert!(silent.iter().all(|failure| !failure.is_clean()));
    }
}
