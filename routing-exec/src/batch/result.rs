//! Batch results: the response or the failure of one request, and its token usage.

use std::time::Duration;

use bytes::Bytes;
use json_edit::{Object, Raw};
use routing_core::Pod;

use crate::error::DispatchError;

/// The result of one request of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a host reads, and makes in its tests")]
pub struct BatchResult {
    /// Its index in the batch.
    pub index: u32,
    /// A pod's response, or why there is none.
    pub outcome: Result<BatchResponse, BatchFailure>,
    /// How often it was sent.
    pub attempts: u32,
    /// The response's token usage.
    pub usage: BatchUsage,
    /// From its first attempt to its end.
    pub duration: Duration,
    /// The pod of its last attempt; `None` if there was none, or if it was read from a journal.
    pub pod: Option<Pod>,
}

impl BatchResult {
    /// Whether it is a response with a 2xx status.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|response| (200..300).contains(&response.status))
    }
}

/// A pod's complete response, which may be an error that no other attempt would change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a host reads, and makes in its tests")]
pub struct BatchResponse {
    /// Its status.
    pub status: u16,
    /// Its body.
    pub body: Bytes,
}

/// Why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[expect(clippy::exhaustive_structs, reason = "what a host reads, and makes in its tests")]
pub struct BatchFailure {
    /// The kind of failure: a [`DispatchError::code`], or `too_long`, `unplanned`, `response_too_large`.
    pub code: Box<str>,
    /// A message for people.
    pub message: Box<str>,
}

impl BatchFailure {
    pub(super) fn new(code: &str, message: &str) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

impl From<&DispatchError> for BatchFailure {
    fn from(error: &DispatchError) -> Self {
        Self::new(error.code(), &error.to_string())
    }
}

/// A response's token usage; zeros where it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a host reads, and makes in its tests")]
pub struct BatchUsage {
    /// Prompt tokens.
    pub prompt: u32,
    /// Prompt tokens from the pod's cache.
    pub cached: u32,
    /// Output tokens.
    pub output: u32,
}

impl BatchUsage {
    /// Parses the `usage` of a response in the form of the OpenAI API.
    pub(super) fn of(response: &[u8]) -> Self {
        let Ok(Some(usage)) = Object::find(response, "usage") else { return Self::default() };
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
