//! Hashing rules of a dialect: a root, and a step from one block's digest to the next.
//!
//! The rule that must never break: [`Rules::check`] makes every refusal, so that hashing itself cannot fail, however
//! late it happens.

use std::ops::Range;

use crate::engine::block_digest::BlockDigest;
use crate::engine::dialect::Dialect;
use crate::engine::engine_kind::EngineKind;
use crate::engine::hash_error::{HashError, PromptFeature};
use crate::engine::prompt::{Prompt, TokenId};
use crate::engine::version::Version;

/// One engine's hashing, as one release of it does it. Everything a dialect adds besides its name is here.
pub(super) trait Rules: Sized {
    /// Whose rules they are.
    const ENGINE: EngineKind;

    /// The release they are made for; none where releases are not told apart.
    fn version(&self) -> Option<Version>;

    /// Whether such engines may hash something that their events do not carry.
    fn hides_keys(&self) -> bool {
        false
    }

    /// The same rules with other values of one setting: what a misconfigured engine may be using instead.
    fn alternatives(&self, setting: Setting) -> Vec<Dialect>;

    /// Refuses what cannot be hashed as this engine would. `blocks` whole blocks of `size` will be hashed.
    fn check<T: TokenId>(&self, prompt: &Prompt<'_, T>, size: usize, blocks: usize) -> Result<(), HashError>;

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

    /// Makes every refusal, and says where the chain of `prompt` starts: at its root, or after a parent's digest.
    fn start<T: TokenId>(
        &self,
        prompt: &Prompt<'_, T>,
        size: usize,
        parent: Option<&BlockDigest>,
    ) -> Result<ChainState, HashError> {
        self.check(prompt, size, self.units(prompt.tokens.len()) / size)?;
        let (expected, namespace) = (self.digest_length(), self.namespace(prompt));
        match parent {
            None => Ok(ChainState::new(self.root(prompt), namespace)),
            Some(parent) if parent.as_bytes().len() == expected => Ok(ChainState::after(*parent, namespace)),
            Some(parent) => Err(HashError::ParentLength { got: parent.as_bytes().len(), expected }),
        }
    }

    /// Hashes the blocks of a stretch. `each` gets what was serialized, if anything was, and the digest.
    fn extend<T: TokenId>(
        &self,
        stretch: &Stretch<'_, T>,
        state: &mut ChainState,
        bytes: &mut Vec<u8>,
        each: impl FnMut(&[u8], &BlockDigest),
    );

    /// The 64 bits that events carry for a digest.
    fn announced(&self, digest: &BlockDigest, namespace: Option<&[u8; 32]>) -> u64;
}

/// What operators set, and may set differently than the dialect says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    /// The engine's release.
    Release,
    /// The hash algorithm, or another choice of what is hashed.
    Algorithm,
    /// The seed of chains.
    Seed,
}

/// Refuses prompts with media items or embeddings.
pub(super) fn check_features<T>(engine: EngineKind, prompt: &Prompt<'_, T>) -> Result<(), HashError> {
    let what = match prompt {
        Prompt { media: [_, ..], .. } => PromptFeature::Media,
        Prompt { embeds: Some(_), .. } => PromptFeature::Embeds,
        _ => return Ok(()),
    };
    Err(HashError::NotComputable { engine, what })
}

/// Refuses token ids that are negative or above `most`.
pub(super) fn check_tokens<T: TokenId>(engine: EngineKind, tokens: &[T], most: u64) -> Result<(), HashError> {
    for (position, &id) in tokens.iter().enumerate() {
        let id: i128 = id.into();
        if !(0..=i128::from(most)).contains(&id) {
            return Err(HashError::Token { engine, id, position, most });
        }
    }
    Ok(())
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
    pub(super) rooted: bool,
    /// The first media item that may still lie ahead.
    pub(super) media: usize,
}

impl ChainState {
    /// At the root of a chain.
    pub(super) fn new(digest: BlockDigest, namespace: Option<[u8; 32]>) -> Self {
        Self { digest, namespace, rooted: true, media: 0 }
    }

    /// After a block.
    pub(super) fn after(digest: BlockDigest, namespace: Option<[u8; 32]>) -> Self {
        Self { rooted: false, ..Self::new(digest, namespace) }
    }
}
