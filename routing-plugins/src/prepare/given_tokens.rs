//! Token ids that the request brings.
//!
//! Nothing is made up for a request without tokens: it is refused, or routed without.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use routing_core::{Declare, PluginError, PrepareContext, Preparer, Write};

use crate::tokens::PromptTokens;

/// What becomes of a request whose prompt has no tokens: it brought none, or none can be made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OnTokenizeFailure {
    /// It is routed as one with an empty prompt, so by load alone, and counted
    /// ([`PluginState::tokenize_failures`](crate::PluginState)). Its engine says what is wrong with it, if something is.
    #[default]
    Empty,
    /// The decision ends with the reason.
    Fail,
}

/// What a preparer of tokens takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct TokensParameters {
    /// What becomes of a request whose prompt has no tokens; it is routed without them unless given.
    pub on_error: OnTokenizeFailure,
}

crate::parameters::setters! { TokensParameters {
    on_error: OnTokenizeFailure,
} }

/// Writes [`PromptTokens`] from [`Request::tokens`](routing_core::Request), for gateways that tokenize themselves.
#[derive(Debug)]
pub struct GivenTokensPreparer {
    tokens: Write<PromptTokens>,
    tokenize_failures: Option<Arc<AtomicU64>>,
    hashes_suffice: bool,
}

impl GivenTokensPreparer {
    /// Declares what this preparer writes. A request without tokens is refused.
    pub fn declare(d: &mut Declare<'_>) -> Self {
        Self { tokens: d.writes(), tokenize_failures: None, hashes_suffice: false }
    }

    /// The same, but requests without tokens are counted here, if somewhere, and routed as ones with an empty prompt.
    #[must_use]
    pub fn or_empty(self, tokenize_failures: Option<Arc<AtomicU64>>) -> Self {
        Self { tokenize_failures, ..self }
    }

    /// The same, but a request that brings [its hashes](routing_core::Request::hashes) needs no tokens: it is neither
    /// refused nor counted.
    #[must_use]
    pub fn or_hashes(self, suffice: bool) -> Self {
        Self { hashes_suffice: suffice, ..self }
    }
}

impl<const W: usize> Preparer<W> for GivenTokensPreparer {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let request = context.request();
        if request.tokens.is_some() {
            context.write(self.tokens)?.1.set_given();
            return Ok(());
        }
        if !(self.hashes_suffice && request.hashes.is_some()) {
            let tokenize_failures =
                self.tokenize_failures.as_ref().ok_or_else(|| PluginError::failed(NoTokensError))?;
            // Relaxed: a count that publishes nothing.
            tokenize_failures.fetch_add(1, Ordering::Relaxed);
        }
        context.write(self.tokens)?.1.make();
        Ok(())
    }
}

/// The request has no tokens. The host said that it tokenizes itself, and did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request has no tokens, and this profile makes none of its text")]
pub(super) struct NoTokensError;
