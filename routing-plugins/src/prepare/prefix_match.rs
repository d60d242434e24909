//! Prefix match: one index search for all plugins.

use std::sync::Arc;

use kv_index::{DEFAULT_POD_WORDS, Index};
use routing_core::{Declare, PluginError, PrefixMatches, PrepareContext, Preparer, Read, Slot, TryRead, Write};

use super::block_hash::{HashBuffer, PromptChain};
use crate::tokens::PromptTokens;

/// The prompt's hashes, as far as the search asked for them.
#[derive(Debug)]
pub(crate) struct HashedPrefix;

impl Slot for HashedPrefix {
    type Value = HashBuffer;
    const NAME: &'static str = "prompt.hashed";
    const INCIDENTAL: bool = true;

    fn clear(value: &mut HashBuffer) {
        value.clear();
    }
}

/// Writes [`PrefixMatches`]: how many leading blocks of the prompt each pod holds.
///
/// What is speculated and past its deadline is cleared away before the search, up to 4,096 blocks of it each time; where
/// nothing is, that takes no lock.
#[derive(Debug)]
pub struct PrefixMatchPreparer<const W: usize = DEFAULT_POD_WORDS> {
    index: Arc<Index<W>>,
    tokens: TryRead<PromptTokens>,
    chain: Read<PromptChain>,
    hashed: Write<HashedPrefix>,
    held: Write<PrefixMatches<W>>,
}

impl<const W: usize> PrefixMatchPreparer<W> {
    /// Declares that it reads the prompt and writes who holds it.
    pub fn declare(declare: &mut Declare<'_>, index: Arc<Index<W>>) -> Self {
        // Of text there are no tokens; a recipe that needs them has declared so itself.
        let (tokens, chain) = (declare.tries(), declare.reads());
        Self { index, tokens, chain, hashed: declare.writes(), held: declare.writes() }
    }
}

impl<const W: usize> Preparer<W> for PrefixMatchPreparer<W> {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let request = context.request();
        self.index.expire(request.now, EXPIRED_AT_ONCE);
        // Two slots are written: one is lent from its place for the while, with its memory.
        let mut hashed = std::mem::take(context.write(self.hashed)?.1);
        let (reads, held) = context.write(self.held)?;
        let tokens = reads.try_read(self.tokens)?.map_or(&[][..], |tokens| tokens.of(request));
        let searched = reads.read(self.chain)?.search(&self.index, request, tokens, &mut hashed, held);
        *context.write(self.hashed)?.1 = hashed;
        searched
    }
}

/// Blocks whose time is up that one decision clears away: more than most enter, and the work of under a millisecond.
const EXPIRED_AT_ONCE: usize = 4096;
