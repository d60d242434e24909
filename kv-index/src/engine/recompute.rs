//! What an engine's hashes should be, recomputed from the tokens and keys that it announced with them.
//!
//! The rule that must never break: what an event does not say is never guessed. A verdict of disagreement is only as
//! good as that.

use crate::engine::block_digest::BlockDigest;
use crate::engine::dialect::{Dialect, Spoken};
use crate::engine::event::{EngineHash, EngineStored, TokenIds};
use crate::engine::rules::ChainState;

/// Why it cannot be told from an event whether a dialect is the engine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum CannotTell {
    /// It has no token ids.
    #[error("the event has no token ids")]
    NoTokens,
    /// It has token ids that were not kept, beyond 32 bits.
    #[error("the event has token ids beyond 32 bits")]
    WideTokens,
    /// It has single tokens where the dialect hashes pairs.
    #[error("the event has single tokens, and the dialect hashes pairs")]
    NotPairs,
    /// It has a parent of which the digest is not known.
    #[error("the digest of the event's parent is not known")]
    UnknownParent,
    /// Its hashes are not those of all its tokens: partial blocks, or a group that keeps few.
    #[error("the event's hashes are not those of all its tokens")]
    Sparse,
    /// It does not say, or not clearly, what was hashed besides tokens.
    #[error("the event does not say what was hashed besides tokens")]
    ExtraKeys,
    /// The engine hashes an adapter's path, and events do not carry it.
    #[error("the engine hashes an adapter's path, which events do not carry")]
    AdapterPath,
    /// The engine hashes an adapter's key, and events do not carry it.
    #[error("the engine hashes an adapter's key, which events do not carry")]
    AdapterKey,
    /// It has something that this release hashes in a way that was not established.
    #[error("the event has something that this release hashes in a way not established")]
    NotEstablished,
}

impl Dialect {
    /// The hashes that an engine of this dialect announces for `stored`, and where the chain then stands.
    ///
    /// `before` is where it stood after the parent; a chain that starts from the root needs none.
    pub(crate) fn recompute(
        &self,
        stored: &EngineStored<'_>,
        before: Option<&ChainState>,
    ) -> Result<(Vec<EngineHash>, ChainState), CannotTell> {
        let (digests, state) = self.follow(stored, before)?;
        Ok((digests.iter().map(|digest| self.name(digest, &state)).collect(), state))
    }

    /// The same with where the chain stands after each block: a later event may go on from any of them.
    pub(crate) fn recompute_each(
        &self,
        stored: &EngineStored<'_>,
        before: Option<&ChainState>,
    ) -> Result<Vec<(EngineHash, ChainState)>, CannotTell> {
        let (digests, state) = self.follow(stored, before)?;
        let after = |digest: &BlockDigest| (self.name(digest, &state), ChainState { digest: *digest, ..state.clone() });
        Ok(digests.iter().map(after).collect())
    }

    fn follow(&self, stored: &EngineStored<'_>, before: Option<&ChainState>) -> Recomputed {
        if stored.tokens.is_empty() || stored.block_size == 0 {
            return Err(CannotTell::NoTokens);
        }
        if let TokenIds::Wide(_) = stored.tokens {
            return Err(CannotTell::WideTokens);
        }
        if (stored.hashes.len() as u64).checked_mul(u64::from(stored.block_size)) != Some(stored.tokens.len() as u64) {
            return Err(CannotTell::Sparse);
        }
        match self.spoken() {
            #[cfg(feature = "vllm")]
            Spoken::Vllm(rules) => vllm::recompute(rules, stored, before),
            #[cfg(feature = "sglang")]
            Spoken::Sglang(rules) => sglang::recompute(rules, stored, before),
            #[cfg(feature = "trtllm")]
            Spoken::Trtllm(rules) => trtllm::recompute(rules, stored, before),
        }
    }

    fn name(&self, digest: &BlockDigest, state: &ChainState) -> EngineHash {
        EngineHash::new(self.announced(digest, state.namespace.as_ref()))
    }
}

/// Every block's digest, and where the chain then stands.
type Recomputed = Result<(Vec<BlockDigest>, ChainState), CannotTell>;

/// The root where the event has no parent; where it has one, where the chain stood after it.
fn begin(
    stored: &EngineStored<'_>,
    before: Option<&ChainState>,
    root: impl FnOnce() -> ChainState,
) -> Result<ChainState, CannotTell> {
    match (stored.parent, before) {
        (None, _) => Ok(root()),
        (Some(_), Some(before)) => Ok(before.clone()),
        (Some(_), None) => Err(CannotTell::UnknownParent),
    }
}

#[cfg(feature = "vllm")]
mod vllm;

#[cfg(feature = "sglang")]
mod sglang;

#[cfg(feature = "trtllm")]
mod trtllm;

#[cfg(test)]
mod tests;
