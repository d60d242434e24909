//! What became of one request of a batch.

use std::time::Duration;

use bytes::Bytes;
use json_edit::{Object, Raw};
use routing_core::Pod;

use crate::error::RunError;

/// What became of one request of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a host reads, and makes in its tests")]
pub struct BatchResult {
    /// Its place in the batch.
    pub place: u32,
    /// What a pod answered, or why none did.
    pub outcome: Result<BatchAnswer, BatchFailure>,
    /// How often it was sent.
    pub attempts: u32,
    /// What the answer says it took.
    pub usage: BatchUsage,
    /// From its first sending to its end.
    pub took: Duration,
    /// Who was asked last; none if nobody was, or if it was read from a journal.
    pub pod: Option<Pod>,
}

impl BatchResult {
    /// Whether it is a pod's whole answer with a status of success.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|answer| (200..300).contains(&answer.status))
    }
}

/// A pod's whole answer, which may be one of an error that no other try would change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a host reads, and makes in its tests")]
pub struct BatchAnswer {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Bytes,
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[expect(clippy::exhaustive_structs, reason = "what a host reads, and makes in its tests")]
pub struct BatchFailure {
    /// A short name for the kind of failure: those of [`RunError::code`], or `too_long`, `unplanned`, `answer_too_long`.
    pub code: Box<str>,
    /// What happened, for people.
    pub message: Box<str>,
}

impl BatchFailure {
    pub(super) fn new(code: &str, message: &str) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

impl From<&RunError> for BatchFailure {
    fn from(error: &RunError) -> Self {
        Self::new(error.code(), &error.to_string())
    }
}

/// What an answer says it took, in tokens; zeros where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a host reads, and makes in its tests")]
pub struct BatchUsage {
    /// Of the prompt.
    pub prompt: u32,
    /// Of those, from the pod's cache.
    pub cached: u32,
    /// Of the answer.
    pub output: u32,
}

impl BatchUsage {
    /// Reads the `usage` of an answer in the form of the OpenAI API.
    pub(super) fn of(answer: &[u8]) -> Self {
        let Ok(Some(usage)) = Object::find(answer, "usage") else { return Self::default() };
        let Some(usage) = usage.object() else { return Self::default() };
        let count = |value: Option<Raw<'_>>| {
            let count = value.and_then(Raw::as_u64).unwrap_or(0);
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        Self {
            prompt: count(usage.get("prompt_tokens")),
            cached: count(usage.get_path(&["prompt_tokens_details", "cached_tokens"])),
            output: count(usage.get("completion_tokens")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_read_where_there_is_some() {
        let answer =
            br#"{"usage":{"prompt_tokens":9,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":8}}}"#;
        assert_eq!(BatchUsage::of(answer), BatchUsage { prompt: 9, cached: 8, output: 4 });
        for none in [&b""[..], b"{", b"{}", br#"{"usage":1}"#, br#"{"usage":{"prompt_tokens":"x"}}"#, b"data: {}\n\n"] {
            assert_eq!(BatchUsage::of(none), BatchUsage::default());
        }
    }
}
