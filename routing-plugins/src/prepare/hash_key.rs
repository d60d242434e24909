//! Hash key of a request, for consistent hashing.

use std::num::NonZeroUsize;

use routing_core::{Declare, PluginError, PrepareContext, Preparer, TryRead, Write};

use super::hash_key_slot::HashKey;
use super::key::KeySource;
use crate::tokens::PromptTokens;

/// What [`HashKeyPreparer`] takes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct HashKeyParameters {
    /// Where to look, in this order; unless given, the header `x-session-id`, the body's `session_id` and `user`, and the
    /// first 32 tokens or 128 bytes of the prompt. Longer beginnings tell more prompts apart, and each turn of a conversation
    /// that is shorter still has a key of its own.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "super::key::read_sources"))]
    pub from: Vec<KeySource>,
}

impl Default for HashKeyParameters {
    fn default() -> Self {
        let number = |number| NonZeroUsize::new(number).unwrap_or(NonZeroUsize::MIN);
        let from = vec![
            KeySource::Header("x-session-id".to_owned()),
            KeySource::Body("session_id".to_owned()),
            KeySource::Body("user".to_owned()),
            KeySource::Tokens(number(32)),
            KeySource::Text(number(128)),
        ];
        Self { from }
    }
}

/// Writes [`HashKey`]: the first key that is found. A prompt shorter than the beginning that counts is keyed by all of it. A request without any is placed by its seed, so anywhere.
#[derive(Debug)]
pub struct HashKeyPreparer {
    from: Vec<KeySource>,
    tokens: TryRead<PromptTokens>,
    key: Write<HashKey>,
}

impl HashKeyPreparer {
    /// Declares that it writes the key.
    pub fn declare(declare: &mut Declare<'_>, parameters: HashKeyParameters) -> Self {
        Self { from: parameters.from, tokens: declare.tries(), key: declare.writes() }
    }
}

impl<const W: usize> Preparer<W> for HashKeyPreparer {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let request = context.request();
        let (reads, key) = context.write(self.key)?;
        let tokens = reads.try_read(self.tokens)?.map(|tokens| tokens.of(request));
        *key = self.from.iter().find_map(|source| source.find(request, tokens)).unwrap_or(request.seed);
        Ok(())
    }
}
