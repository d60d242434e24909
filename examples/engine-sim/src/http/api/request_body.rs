//! Parameters of a completion request, besides the prompt.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::error::ApiError;
use super::kv_transfer::TransferParams;
use crate::http::completion::OutputLimits;

/// A request, read.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Body {
    pub(super) model: Option<String>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    pub(super) cache_salt: Option<String>,
    pub(super) kv_transfer_params: Option<TransferParams>,
    messages: Option<IgnoredAny>,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    min_tokens: Option<usize>,
    ignore_eos: Option<bool>,
    n: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(super) struct StreamOptions {
    pub(super) include_usage: Option<bool>,
}

impl Body {
    /// Reads a body for a pod that serves `model`.
    pub(super) fn read(bytes: &[u8], model: &str) -> Result<Self, ApiError> {
        let body: Self = serde_json::from_slice(bytes)
            .map_err(|error| ApiError::bad_request(format!("the body cannot be read: {error}")))?;
        if let Some(other) = body.model.as_deref().filter(|&other| other != model) {
            return Err(ApiError::not_found(format!("the model `{other}` does not exist")));
        }
        if body.n.is_some_and(|n| n != 1) {
            return Err(ApiError::bad_request("`n` other than 1 is not supported"));
        }
        if body.stream_options.is_some() && body.stream != Some(true) {
            return Err(ApiError::bad_request("stream options can only be defined when `stream=True`"));
        }
        Ok(body)
    }

    pub(super) fn has_messages(&self) -> bool {
        self.messages.is_some()
    }

    /// How long the answer may be. The newer name of the limit wins.
    pub(super) fn limits(&self) -> Result<OutputLimits, ApiError> {
        let most = self.max_completion_tokens.or(self.max_tokens);
        let least = self.min_tokens.unwrap_or(0);
        if most == Some(0) {
            return Err(ApiError::bad_request("max_tokens must be at least 1, got 0"));
        }
        if let Some(most) = most.filter(|&most| most < least) {
            return Err(ApiError::bad_request(format!("min_tokens must be at most max_tokens={most}, got {least}")));
        }
        Ok(OutputLimits { most, least, ignore_end: self.ignore_eos.unwrap_or(false) })
    }
}
