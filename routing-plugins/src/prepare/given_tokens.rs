//! Takes the tokens that the gateway made itself.

use routing_core::{Declare, PluginError, Preparer, Preparing, Write};

use crate::tokens::PromptTokens;

/// Writes [`PromptTokens`] from [`Request::tokens`](routing_core::Request::tokens), without copying them.
///
/// For gateways that tokenize before they route. A request without tokens is refused: scored as if it were empty, it would
/// go anywhere.
#[derive(Debug)]
pub struct GivenTokensPreparer {
    tokens: Write<PromptTokens>,
}

impl GivenTokensPreparer {
    /// Declares that it writes tokens.
    pub fn declare(declare: &mut Declare<'_>) -> Self {
        Self { tokens: declare.writes() }
    }
}

impl<const W: usize> Preparer<W> for GivenTokensPreparer {
    fn prepare(&self, context: &mut Preparing<'_, W>) -> Result<(), PluginError> {
        if context.request().tokens.is_none() {
            return Err(PluginError::failed("the request has no tokens: give them, or tokenize its text"));
        }
        context.write(self.tokens)?.1.set_given();
        Ok(())
    }
}
