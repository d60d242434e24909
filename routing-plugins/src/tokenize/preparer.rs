//! Makes the tokens of a request by its model's tokenizer.
//!
//! Tokens that the request brings along are taken as they are.

use std::collections::HashMap;
use std::error::Error;
use std::hash::BuildHasher;
use std::sync::Arc;

use routing_core::{Declare, PluginError, Preparer, Preparing, Write};

use super::PromptError;
use crate::tokens::PromptTokens;

/// Writes [`PromptTokens`]: the request's own, or made of its body by its model.
#[derive(Debug)]
pub struct TokenizePreparer {
    tokenizers: Arc<dyn Tokenizers>,
    tokens: Write<PromptTokens>,
}

impl TokenizePreparer {
    /// Declares what this preparer writes.
    pub fn declare(d: &mut Declare<'_>, tokenizers: Arc<dyn Tokenizers>) -> Self {
        Self { tokenizers, tokens: d.writes() }
    }
}

impl<const W: usize> Preparer<W> for TokenizePreparer {
    fn prepare(&self, context: &mut Preparing<'_, W>) -> Result<(), PluginError> {
        let request = context.request();
        let (_, list) = context.write(self.tokens)?;
        if request.tokens.is_some() {
            list.set_given();
            return Ok(());
        }
        let failed = |error: PromptError| PluginError::failed(Chain(&error));
        let unknown = || PromptError::UnknownModel(request.model.into());
        let tokenizer = self.tokenizers.tokenizer(request.model).ok_or_else(unknown).map_err(failed)?;
        tokenizer.tokenize(request.body, list.make()).map_err(failed)
    }
}

/// The tokenizers of the models that a gateway serves.
pub trait Tokenizers: Send + Sync + std::fmt::Debug {
    /// The tokenizer of a model, by the name that requests use.
    fn tokenizer(&self, model: &str) -> Option<Arc<dyn PromptTokenizer>>;
}

/// Models by name; adapters and aliases need entries of their own.
impl<S: BuildHasher + Send + Sync> Tokenizers for HashMap<Box<str>, Arc<dyn PromptTokenizer>, S> {
    fn tokenizer(&self, model: &str) -> Option<Arc<dyn PromptTokenizer>> {
        self.get(model).cloned()
    }
}

/// Makes the prompt's tokens of a request's body, for one model.
pub trait PromptTokenizer: Send + Sync + std::fmt::Debug {
    /// Appends the tokens of the prompt.
    ///
    /// # Errors
    ///
    /// When the body has no prompt, or one that this model has no tokens for. The body is a client's: anything may be
    /// in it, and nothing in it makes this panic.
    fn tokenize(&self, body: &[u8], out: &mut Vec<u32>) -> Result<(), PromptError>;
}

/// An error with all its causes, for a plugin's failure is one text.
struct Chain<'e>(&'e dyn Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
