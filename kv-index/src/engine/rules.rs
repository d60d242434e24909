//! What every engine's hashing comes down to: a root, and a step from one block's digest to the next.
//!
//! The rule that must never break: [`Rules::check`] makes every refusal, so that hashing itself cannot fail, however
//! late it happens.

use std::ops::Range;

use crate::engine::block_digest::BlockDigest;
use crate::engine::hash_error::HashError;
use crate::engine::prompt::Prompt;

/// One engine's hashing, as one release of it does it.
pub(super) trait Rules {
    /// Refuses what cannot be hashed as this engine would. `blocks` whole blocks of `size` will be hashed.
    fn check<T>(&self, prompt: &Prompt<'_, T>, size: usize, blocks: usize) -> Result<(), HashError>
    where
        T: Copy + Into<i128>;

    /// What a chain starts from; nothing where the engine starts from nothing.
    fn root<T>(&self, prompt: &Prompt<'_, T>) -> BlockDigest;

    /// Fills `bytes` with what was hashed for the root.
    fn root_bytes<T>(&self, prompt: &Prompt<'_, T>, bytes: &mut Vec<u8>);

    /// Bytes of a digest.
    fn digest_length(&self) -> usize;

    /// What is cut into blocks: tokens, or pairs of them.
    fn units(&self, tokens: usize) -> usize {
        tokens
    }

    /// What is folded into the announced form of every hash, besides the digest.
    fn namespace<T>(&self, _prompt: &Prompt<'_, T>) -> Option<[u8; 32]> {
        None
    }

    /// Hashes the blocks of a stretch. `each` gets what was serialized, if anything was, and the digest.
    fn extend<T>(
        &self,
        stretch: &Stretch<'_, T>,
        state: &mut ChainState,
        bytes: &mut Vec<u8>,
        each: impl FnMut(&[u8], &BlockDigest),
    ) where
        T: Copy + Into<i128>;

    /// The 64 bits that events carry for a digest.
    fn announced(&self, digest: &BlockDigest, namespace: Option<&[u8; 32]>) -> u64;
}

/// Blocks of a prompt that are to be hashed.
#[derive(Debug)]
pub(super) struct Stretch<'a, T> {
    pub(super) prompt: &'a Prompt<'a, T>,
    /// Units of a block.
    pub(super) size: usize,
    /// Which blocks, counted from the first of `prompt`.
    pub(super) blocks: Range<usize>,
}

/// Where a chain stands: everything that the next block's hash needs besides the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChainState {
    /// The last block's digest, or the root.
    pub(super) digest: BlockDigest,
    /// What the announced form of every hash is folded with.
    pub(super) namespace: Option<[u8; 32]>,
    /// Whether the prompt begins the chain, or follows a block that is not in it.
    #[cfg(feature = "vllm")]
    pub(super) rooted: bool,
    /// The first media item that may still lie ahead.
    #[cfg(feature = "vllm")]
    pub(super) media: usize,
}

impl ChainState {
    /// At the root of a chain.
    pub(super) fn new(digest: BlockDigest, namespace: Option<[u8; 32]>) -> Self {
        Self {
            digest,
            namespace,
            #[cfg(feature = "vllm")]
            rooted: true,
            #[cfg(feature = "vllm")]
            media: 0,
        }
    }

    /// After a block.
    pub(super) fn after(digest: BlockDigest, namespace: Option<[u8; 32]>) -> Self {
        Self {
            #[cfg(feature = "vllm")]
            rooted: false,
            ..Self::new(digest, namespace)
        }
    }
}
