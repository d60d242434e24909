//! How one set of engines hashes: the engine, its release, its algorithm and its seed as one value.
//!
//! The rule that must never break: a [`Dialect`] that exists can be computed. What cannot be, such as a seed that
//! every process draws for itself, is refused where the dialect is made, with what to do instead.

mod error;
mod variants;

use std::fmt;

use crate::engine::block_digest::BlockDigest;
use crate::engine::hash_error::HashError;
use crate::engine::name::Engine;
use crate::engine::prompt::Prompt;
use crate::engine::rules::{ChainState, Rules, Stretch};
#[cfg(feature = "sglang")]
use crate::engine::sglang::{SglangHashing, SglangRules};
#[cfg(feature = "trtllm")]
use crate::engine::trtllm::{TrtllmHashing, TrtllmRules};
use crate::engine::version::Version;
#[cfg(feature = "vllm")]
use crate::engine::vllm::{VllmHashing, VllmRules};

pub use error::DialectError;

/// How a set of engines hashes blocks. Every engine that a prompt may go to must be of the same dialect, or have its
/// own index.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "vllm")] {
/// use kv_index::engine::vllm::{VllmAlgorithm, VllmHashing};
/// use kv_index::engine::{Dialect, Version};
///
/// let hashing = VllmHashing::new(Version::new(0, 31, 0)).algorithm(VllmAlgorithm::Sha256Cbor).seed("42");
/// assert_eq!(Dialect::vllm(hashing).unwrap().to_string(), "vLLM 0.31.0 sha256_cbor, seed \"42\"");
///
/// let refused = Dialect::vllm(VllmHashing::new(Version::new(0, 28, 0))).unwrap_err();
/// assert!(refused.to_string().contains("set PYTHONHASHSEED on every engine"));
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialect(Spoken);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    #[cfg(feature = "vllm")]
    Vllm(VllmRules),
    #[cfg(feature = "sglang")]
    Sglang(SglangRules),
    #[cfg(feature = "trtllm")]
    Trtllm(TrtllmRules),
}

/// Evaluates an expression with the rules of whichever engine it is.
macro_rules! spoken {
    ($dialect:expr, $rules:ident => $result:expr) => {
        match &$dialect.0 {
            #[cfg(feature = "vllm")]
            Spoken::Vllm($rules) => $result,
            #[cfg(feature = "sglang")]
            Spoken::Sglang($rules) => $result,
            #[cfg(feature = "trtllm")]
            Spoken::Trtllm($rules) => $result,
        }
    };
}

impl Dialect {
    /// The dialect of vLLM engines that are set up like this.
    ///
    /// # Errors
    ///
    /// If they start from random seeds, are too old or too new, or have no such algorithm.
    #[cfg(feature = "vllm")]
    pub fn vllm(hashing: VllmHashing) -> Result<Self, DialectError> {
        VllmRules::new(hashing).map(|rules| Self(Spoken::Vllm(rules)))
    }

    /// The dialect of SGLang engines that are set up like this.
    ///
    /// # Errors
    ///
    /// If they are too old or too new, have no such event format, or serve adapters.
    #[cfg(feature = "sglang")]
    pub fn sglang(hashing: SglangHashing) -> Result<Self, DialectError> {
        SglangRules::new(hashing).map(|rules| Self(Spoken::Sglang(rules)))
    }

    /// The dialect of TensorRT-LLM engines that are set up like this.
    ///
    /// # Errors
    ///
    /// None today: what their releases have in common is all that is established. See [the module](super::trtllm).
    #[cfg(feature = "trtllm")]
    pub fn trtllm(hashing: TrtllmHashing) -> Result<Self, DialectError> {
        Ok(Self(Spoken::Trtllm(TrtllmRules::new(hashing))))
    }

    /// Whose dialect it is.
    #[must_use]
    pub fn engine(&self) -> Engine {
        match &self.0 {
            #[cfg(feature = "vllm")]
            Spoken::Vllm(_) => Engine::Vllm,
            #[cfg(feature = "sglang")]
            Spoken::Sglang(_) => Engine::Sglang,
            #[cfg(feature = "trtllm")]
            Spoken::Trtllm(_) => Engine::Trtllm,
        }
    }

    /// The release it was made for; none where releases are not told apart.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match &self.0 {
            #[cfg(feature = "vllm")]
            Spoken::Vllm(rules) => Some(rules.version()),
            #[cfg(feature = "sglang")]
            Spoken::Sglang(rules) => Some(rules.version()),
            #[cfg(feature = "trtllm")]
            Spoken::Trtllm(_) => None,
        }
    }

    /// What the chain of `prompt` starts from: vLLM's `NONE_HASH`, SGLang's salt root, TensorRT-LLM's scope. None
    /// where the first block is hashed alone.
    #[must_use]
    pub fn root<T>(&self, prompt: &Prompt<'_, T>) -> Option<BlockDigest> {
        let root = spoken!(self, rules => rules.root(prompt));
        (root != BlockDigest::EMPTY).then_some(root)
    }

    /// What SGLang folds into the announced hashes of `prompt` to keep adapters and tenants apart; none elsewhere.
    #[must_use]
    pub fn namespace<T>(&self, prompt: &Prompt<'_, T>) -> Option<BlockDigest> {
        spoken!(self, rules => rules.namespace(prompt)).map(BlockDigest::from)
    }

    /// Whether such engines may hash something that their events do not carry: SGLang's `extra_key` in the dynamo format,
    /// TensorRT-LLM's adapters.
    pub(super) fn hides_keys(&self) -> bool {
        match &self.0 {
            #[cfg(feature = "vllm")]
            Spoken::Vllm(_) => false,
            #[cfg(feature = "sglang")]
            Spoken::Sglang(rules) => rules.hashing().format == crate::engine::sglang::SglangFormat::Dynamo,
            #[cfg(feature = "trtllm")]
            Spoken::Trtllm(_) => true,
        }
    }

    pub(super) fn spoken(&self) -> &Spoken {
        &self.0
    }

    pub(super) fn root_bytes<T>(&self, prompt: &Prompt<'_, T>, bytes: &mut Vec<u8>) {
        spoken!(self, rules => rules.root_bytes(prompt, bytes));
    }

    pub(super) fn units(&self, tokens: usize) -> usize {
        spoken!(self, rules => rules.units(tokens))
    }

    /// Makes every refusal, and says where the chain of `prompt` starts.
    pub(super) fn start<T>(
        &self,
        prompt: &Prompt<'_, T>,
        size: usize,
        parent: Option<&BlockDigest>,
    ) -> Result<ChainState, HashError>
    where
        T: Copy + Into<i128>,
    {
        let blocks = self.units(prompt.tokens.len()) / size;
        spoken!(self, rules => rules.check(prompt, size, blocks))?;
        let expected = spoken!(self, rules => rules.digest_length());
        let namespace = spoken!(self, rules => rules.namespace(prompt));
        match parent {
            None => Ok(ChainState::new(spoken!(self, rules => rules.root(prompt)), namespace)),
            Some(parent) if parent.as_bytes().len() == expected => Ok(ChainState::after(*parent, namespace)),
            Some(parent) => Err(HashError::ParentLength { got: parent.as_bytes().len(), expected }),
        }
    }

    pub(super) fn extend<T>(
        &self,
        stretch: &Stretch<'_, T>,
        state: &mut ChainState,
        bytes: &mut Vec<u8>,
        each: impl FnMut(&[u8], &BlockDigest),
    ) where
        T: Copy + Into<i128>,
    {
        spoken!(self, rules => rules.extend(stretch, state, bytes, each));
    }

    #[inline]
    pub(super) fn announced(&self, digest: &BlockDigest, namespace: Option<&[u8; 32]>) -> u64 {
        spoken!(self, rules => rules.announced(digest, namespace))
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.engine())?;
        spoken!(self, rules => fmt::Display::fmt(rules, f))
    }
}
