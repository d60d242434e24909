//! Hash verification: an engine's block hashes recomputed from the tokens and keys that its events carry.
//!
//! The rule that must never break: what an event does not say is never guessed. A mismatch is only as good as that.

use crate::engine::block_digest::BlockDigest;
use crate::engine::dialect::Dialect;
use crate::engine::event::{EngineHash, EngineStored, TokenIds};
use crate::engine::rules::ChainState;

/// Why it cannot be told from an event whether a dialect is the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unverifiable {
    /// It has no token ids.
    NoTokens,
    /// It has token ids that were not kept, beyond 32 bits.
    WideTokens,
    /// It has single tokens where the dialect hashes pairs.
    NotPairs,
    /// It has a parent of which the digest is not known.
    UnknownParent,
    /// Its hashes are not those of all its tokens: partial blocks, or a group that keeps few.
    Sparse,
    /// It does not say, or not clearly, what was hashed besides tokens.
    ExtraKeys,
    /// The engine hashes an adapter's path, and events do not carry it.
    AdapterPath,
    /// The engine hashes an adapter's key, and events do not carry it.
    AdapterKey,
    /// It has something that this release hashes in a way that was not established.
    NotEstablished,
}

impl Dialect {
    /// The hashes that an engine of this dialect announces for `stored`, each with where the chain then stands: a later
    /// event may go on from any of them.
    ///
    /// `before` is where it stood after the parent; a chain that starts from the root needs none.
    pub(super) fn recompute(
        &self,
        stored: &EngineStored<'_>,
        before: Option<&ChainState>,
    ) -> Result<Vec<(EngineHash, ChainState)>, Unverifiable> {
        let (digests, state) = self.follow(stored, before)?;
        let name = |digest: &BlockDigest| EngineHash::new(self.announced(digest, state.namespace.as_ref()));
        let after = |digest: &BlockDigest| (name(digest), ChainState { digest: *digest, ..state.clone() });
        Ok(digests.iter().map(after).collect())
    }

    fn follow(&self, stored: &EngineStored<'_>, before: Option<&ChainState>) -> Recomputed {
        if stored.tokens.is_empty() || stored.block_size == 0 {
            return Err(Unverifiable::NoTokens);
        }
        if let TokenIds::Wide(_) = stored.tokens {
            return Err(Unverifiable::WideTokens);
        }
        if (stored.hashes.len() as u64).checked_mul(u64::from(stored.block_size)) != Some(stored.tokens.len() as u64) {
            return Err(Unverifiable::Sparse);
        }
        self.recompute_digests(stored, before)
    }
}

/// Every block's digest, and where the chain then stands.
pub(super) type Recomputed = Result<(Vec<BlockDigest>, ChainState), Unverifiable>;

/// The root where the event has no parent; where it has one, where the chain stood after it.
pub(super) fn begin(
    stored: &EngineStored<'_>,
    before: Option<&ChainState>,
    root: impl FnOnce() -> ChainState,
) -> Result<ChainState, Unverifiable> {
    match (stored.parent, before) {
        (None, _) => Ok(root()),
        (Some(_), Some(before)) => Ok(before.clone()),
        (Some(_), None) => Err(Unverifiable::UnknownParent),
    }
}

#[cfg(test)]
mod tests;
