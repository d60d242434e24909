//! Hash key of a request, for consistent hashing.

use std::num::NonZeroUsize;

use routing_core::{Declare, PluginError, PrepareContext, Preparer, Slot, TryRead, Write};

use super::key::KeySource;
use crate::parameters::parameters;
use crate::tokens::PromptTokens;

/// What a consistent hash places a request by.
#[derive(Debug)]
pub struct HashKey;

impl Slot for HashKey {
    type Value = u64;
    const NAME: &'static str = "hash.key";
}

parameters! {
    /// What [`HashKeyPreparer`] takes.
    #[derive(Clone, Debug)]
    pub struct HashKeyParameters {
        /// Where to look, in this order; unless given, the header `x-session-id`, the body's `session_id` and `user`, and the
        /// first 32 tokens or 128 bytes of the prompt. Longer beginnings tell more prompts apart, and each turn of a conversation
        /// that is shorter still has a key of its own.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "super::key::read_sources"))]
        pub from: Vec<KeySource> = vec![
            KeySource::Header("x-session-id".to_owned()),
            KeySource::Body("session_id".to_owned()),
            KeySource::Body("user".to_owned()),
            KeySource::Tokens(const { NonZeroUsize::new(32).expect("not 0") }),
            KeySource::Text(const { NonZeroUsize::new(128).expect("not 0") }),
        ],
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
