//! Block hashing in an engine's dialect, eager and lazy.
//!
//! The rule that must never break: in pieces, at once or lazily the hashes are the same
//! (`hasher::tests::lazily_or_at_once_every_dialect_hashes_the_same`).

use std::fmt;

use crate::blocks::{BlockHash, BlockSize, ChainSource};
use crate::engine::block_digest::BlockDigest;
use crate::engine::dialect::Dialect;
use crate::engine::hash_error::HashError;
use crate::engine::prompt::{Prompt, TokenId};
use crate::engine::rules::{ChainState, Stretch};

/// Hashes prompts as the engines of one dialect and block size do.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "vllm")] {
/// use kv_index::BlockSize;
/// use kv_index::engine::vllm::VllmHashing;
/// use kv_index::engine::{Dialect, DialectHasher, Prompt, Version};
///
/// let dialect = Dialect::vllm(VllmHashing::new(Version::new(0, 29, 0))).unwrap();
/// let hasher = DialectHasher::new(dialect, BlockSize::new(4).unwrap());
/// let hashes = hasher.hash(&Prompt::new(&[1_u32, 2, 3, 4, 5])).unwrap();
/// assert_eq!(hashes.len(), 1);
/// assert_eq!(hashes[0].get(), 1_882_140_585_328_457_242, "what vLLM announces for these tokens");
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialectHasher {
    dialect: Dialect,
    size: BlockSize,
}

impl DialectHasher {
    /// A hasher of blocks of `size`: vLLM's hash block size, SGLang's page size, TensorRT-LLM's tokens per block.
    #[must_use]
    pub const fn new(dialect: Dialect, size: BlockSize) -> Self {
        Self { dialect, size }
    }

    /// The dialect.
    #[must_use]
    pub const fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// Tokens in a block.
    #[must_use]
    pub const fn block_size(&self) -> BlockSize {
        self.size
    }

    /// The hashes of every whole block, in the 64 bits that the engine's events carry.
    ///
    /// # Errors
    ///
    /// If the prompt has something that this dialect does not hash, or not computably.
    pub fn hash<T: TokenId>(&self, prompt: &Prompt<'_, T>) -> Result<Vec<BlockHash>, HashError> {
        let state = self.dialect.start(prompt, self.size.tokens(), None)?;
        let namespace = state.namespace;
        let mut hashes = Vec::with_capacity(self.blocks(prompt));
        self.all(prompt, state, |_, digest| {
            hashes.push(BlockHash::new(self.dialect.announced(digest, namespace.as_ref())));
        });
        Ok(hashes)
    }

    /// The same hashes in full, as the engine has them inside.
    ///
    /// # Errors
    ///
    /// As for [`hash`](Self::hash).
    pub fn digests<T: TokenId>(&self, prompt: &Prompt<'_, T>) -> Result<Vec<BlockDigest>, HashError> {
        self.digests_from(prompt, None)
    }

    /// The digests of blocks that follow another whose digest is known. The prompt, with the places of its media and
    /// embeddings, begins where that block ends; a media item that began before cannot be told.
    ///
    /// # Errors
    ///
    /// As for [`hash`](Self::hash), and if `parent` is not of this dialect.
    pub fn digests_after<T: TokenId>(
        &self,
        parent: &BlockDigest,
        prompt: &Prompt<'_, T>,
    ) -> Result<Vec<BlockDigest>, HashError> {
        self.digests_from(prompt, Some(parent))
    }

    /// What is hashed, byte for byte: to find where a mismatch with an engine begins.
    ///
    /// # Errors
    ///
    /// As for [`hash`](Self::hash).
    pub fn preimages<T: TokenId>(&self, prompt: &Prompt<'_, T>) -> Result<HashPreimages, HashError> {
        let state = self.dialect.start(prompt, self.size.tokens(), None)?;
        let mut serialized = HashPreimages::default();
        self.dialect.root_bytes(prompt, &mut serialized.root);
        self.all(prompt, state, |bytes, _| serialized.blocks.push(bytes.to_vec()));
        Ok(serialized)
    }

    /// Borrows `prompt` as a chain that is hashed only as deep as it is asked for.
    ///
    /// `buffer` is cleared and then holds what was hashed; reuse it and nothing is allocated.
    ///
    /// # Errors
    ///
    /// As for [`hash`](Self::hash): every refusal is made here, so that reaching deeper cannot fail.
    pub fn lazy<'a>(
        &'a self,
        prompt: &'a Prompt<'a, u32>,
        buffer: &'a mut ChainBuffer,
    ) -> Result<DialectChain<'a>, HashError> {
        let state = self.dialect.start(prompt, self.size.tokens(), None)?;
        buffer.hashes.clear();
        Ok(DialectChain { hasher: self, prompt, buffer, state, blocks: self.blocks(prompt) })
    }

    fn digests_from<T: TokenId>(
        &self,
        prompt: &Prompt<'_, T>,
        parent: Option<&BlockDigest>,
    ) -> Result<Vec<BlockDigest>, HashError> {
        let state = self.dialect.start(prompt, self.size.tokens(), parent)?;
        let mut digests = Vec::with_capacity(self.blocks(prompt));
        self.all(prompt, state, |_, digest| digests.push(*digest));
        Ok(digests)
    }

    fn all<T: TokenId>(&self, prompt: &Prompt<'_, T>, mut state: ChainState, each: impl FnMut(&[u8], &BlockDigest)) {
        let stretch = Stretch { prompt, size: self.size.tokens(), blocks: 0..self.blocks(prompt) };
        self.dialect.extend(&stretch, &mut state, &mut Vec::new(), each);
    }

    fn blocks<T>(&self, prompt: &Prompt<'_, T>) -> usize {
        self.size.whole_blocks(self.dialect.units(prompt.tokens.len()))
    }
}

/// What an engine hashes for a prompt, byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashPreimages {
    /// What the root is the hash of; empty where the chain starts from nothing.
    pub root: Vec<u8>,
    /// What each block's hash is the hash of; empty ones in TensorRT-LLM's first form, which mixes numbers instead.
    pub blocks: Vec<Vec<u8>>,
}

/// Buffers that lazy chains reuse.
#[derive(Clone, Debug, Default)]
pub struct ChainBuffer {
    hashes: Vec<BlockHash>,
    bytes: Vec<u8>,
}

impl ChainBuffer {
    /// What the last lazy chain hashed so far.
    #[must_use]
    pub fn hashes(&self) -> &[BlockHash] {
        &self.hashes
    }

    /// Forgets the hashes, and keeps the memory.
    pub fn clear(&mut self) {
        self.hashes.clear();
    }
}

/// A prompt whose blocks are hashed on demand in an engine's dialect, front to back.
pub struct DialectChain<'a> {
    hasher: &'a DialectHasher,
    prompt: &'a Prompt<'a, u32>,
    buffer: &'a mut ChainBuffer,
    state: ChainState,
    blocks: usize,
}

impl ChainSource for DialectChain<'_> {
    fn len(&self) -> usize {
        self.blocks
    }

    fn hashes(&self) -> &[BlockHash] {
        &self.buffer.hashes
    }

    fn hash_up_to(&mut self, blocks: usize) -> &[BlockHash] {
        let blocks = blocks.min(self.blocks);
        let ChainBuffer { hashes, bytes } = &mut *self.buffer;
        if blocks > hashes.len() {
            let DialectHasher { dialect, size } = self.hasher;
            let reached = hashes.len()..blocks;
            let stretch = Stretch { prompt: self.prompt, size: size.tokens(), blocks: reached };
            let namespace = self.state.namespace;
            dialect.extend(&stretch, &mut self.state, bytes, |_, digest| {
                hashes.push(BlockHash::new(dialect.announced(digest, namespace.as_ref())));
            });
        }
        &self.buffer.hashes[..blocks]
    }
}

impl fmt::Debug for DialectChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hashed, dialect) = (self.buffer.hashes.len(), &self.hasher.dialect);
        write!(f, "DialectChain({hashed} of {} blocks hashed, {dialect})", self.blocks)
    }
}

#[cfg(test)]
mod tests;
