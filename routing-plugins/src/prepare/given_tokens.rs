//! Takes the tokens that a gateway made itself.
//!
//! A request without tokens is refused: nothing is made up for it.

use routing_core::{Declare, PluginError, Preparer, Preparing, Write};

use crate::tokens::PromptTokens;

/// Writes [`PromptTokens`] from [`Request::tokens`](routing_core::Request), for gateways that tokenize themselves.
#[derive(Debug)]
pub struct GivenTokensPreparer {
    tokens: Write<PromptTokens>,
}

impl GivenTokensPreparer {
    /// Declares what this preparer writes.
    pub fn declare(d: &mut Declare<'_>) -> Self {
        Self { tokens: d.writes() }
    }
}

impl<const W: usize> Preparer<W> for GivenTokensPreparer {
    fn prepare(&self, context: &mut Preparing<'_, W>) -> Result<(), PluginError> {
        if context.request().tokens.is_none() {
            return Err(PluginError::failed(NoTokensError));
        }
        context.write(self.tokens)?.1.set_given();
        Ok(())
    }
}

/// The request has no tokens. The host said that it tokenizes itself, and did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request has no tokens, and this profile makes none of its text")]
pub(super) struct NoTokensError;
