//! Hash dialect: engine, release, algorithm and seed as one validated value.
//!
//! The rule that must never break: a [`Dialect`] that exists can be computed. What cannot be, such as a seed that
//! every process draws for itself, is refused where the dialect is made, with what to do instead.

#![cfg_attr(
    not(any(feature = "vllm", feature = "sglang", feature = "trtllm")),
    allow(
        unreachable_code,
        unused_imports,
        unused_variables,
        reason = "without engines there is no dialect to ask anything"
    )
)]

mod error;

use std::fmt;

use crate::engine::block_digest::BlockDigest;
use crate::engine::engine_kind::EngineKind;
use crate::engine::event::EngineStored;
use crate::engine::hash_error::HashError;
use crate::engine::prompt::{Prompt, TokenId};
use crate::engine::recompute::Recomputed;
use crate::engine::rules::{ChainState, Rules, Setting, Stretch};
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
pub struct Dialect(DialectKind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum DialectKind {
    #[cfg(feature = "vllm")]
    Vllm(VllmRules),
    #[cfg(feature = "sglang")]
    Sglang(SglangRules),
    #[cfg(feature = "trtllm")]
    Trtllm(TrtllmRules),
}

/// Evaluates an expression with the rules of whichever engine it is. Without engines there is no dialect to match.
macro_rules! with_rules {
    ($dialect:expr, $rules:ident => $result:expr) => {
        match $dialect.0 {
            #[cfg(feature = "vllm")]
            DialectKind::Vllm(ref $rules) => $result,
            #[cfg(feature = "sglang")]
            DialectKind::Sglang(ref $rules) => $result,
            #[cfg(feature = "trtllm")]
            DialectKind::Trtllm(ref $rules) => $result,
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
        VllmRules::new(hashing).map(|rules| Self(DialectKind::Vllm(rules)))
    }

    /// The dialect of SGLang engines that are set up like this.
    ///
    /// # Errors
    ///
    /// If they are too old or too new, have no such event format, or serve adapters.
    #[cfg(feature = "sglang")]
    pub fn sglang(hashing: SglangHashing) -> Result<Self, DialectError> {
        SglangRules::new(hashing).map(|rules| Self(DialectKind::Sglang(rules)))
    }

    /// The dialect of TensorRT-LLM engines that are set up like this.
    ///
    /// # Errors
    ///
    /// None today: what their releases have in common is all that is established. See [the module](super::trtllm).
    #[cfg(feature = "trtllm")]
    pub fn trtllm(hashing: TrtllmHashing) -> Result<Self, DialectError> {
        Ok(Self(DialectKind::Trtllm(TrtllmRules::new(hashing))))
    }

    /// Whose dialect it is.
    #[must_use]
    pub fn engine(&self) -> EngineKind {
        with_rules!(self, rules => engine_of(rules))
    }

    /// The release it was made for; none where releases are not told apart.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        with_rules!(self, rules => rules.version())
    }

    /// What the chain of `prompt` starts from: vLLM's `NONE_HASH`, SGLang's salt root, TensorRT-LLM's scope. None
    /// where the first block is hashed alone.
    #[must_use]
    pub fn root<T>(&self, prompt: &Prompt<'_, T>) -> Option<BlockDigest> {
        let root = with_rules!(self, rules => rules.root(prompt));
        (root != BlockDigest::EMPTY).then_some(root)
    }

    /// What SGLang folds into the announced hashes of `prompt` to keep adapters and tenants apart; none elsewhere.
    #[must_use]
    pub fn namespace<T>(&self, prompt: &Prompt<'_, T>) -> Option<BlockDigest> {
        let namespace: Option<[u8; 32]> = with_rules!(self, rules => rules.namespace(prompt));
        namespace.map(BlockDigest::from)
    }

    pub(super) fn hides_keys(&self) -> bool {
        with_rules!(self, rules => rules.hides_keys())
    }

    /// Dialects that differ in one setting: what an engine may speak instead.
    pub(super) fn alternatives(&self, setting: Setting) -> Vec<Self> {
        let others: Vec<Self> = with_rules!(self, rules => rules.alternatives(setting));
        others.into_iter().filter(|other| other != self).collect()
    }

    pub(super) fn recompute_digests(&self, stored: &EngineStored<'_>, before: Option<&ChainState>) -> Recomputed {
        with_rules!(self, rules => rules.recompute(stored, before))
    }

    pub(super) fn root_bytes<T>(&self, prompt: &Prompt<'_, T>, bytes: &mut Vec<u8>) {
        with_rules!(self, rules => rules.root_bytes(prompt, bytes));
    }

    pub(super) fn units(&self, tokens: usize) -> usize {
        with_rules!(self, rules => rules.units(tokens))
    }

    /// Makes every refusal, and says where the chain of `prompt` starts.
    pub(super) fn start<T: TokenId>(
        &self,
        prompt: &Prompt<'_, T>,
        size: usize,
        parent: Option<&BlockDigest>,
    ) -> Result<ChainState, HashError> {
        with_rules!(self, rules => rules.start(prompt, size, parent))
    }

    pub(super) fn extend<T: TokenId>(
        &self,
        stretch: &Stretch<'_, T>,
        state: &mut ChainState,
        bytes: &mut Vec<u8>,
        each: impl FnMut(&[u8], &BlockDigest),
    ) {
        with_rules!(self, rules => rules.extend(stretch, state, bytes, each));
    }

    #[inline]
    pub(super) fn announced(&self, digest: &BlockDigest, namespace: Option<&[u8; 32]>) -> u64 {
        with_rules!(self, rules => rules.announced(digest, namespace))
    }
}

fn engine_of<R: Rules>(_: &R) -> EngineKind {
    R::ENGINE
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.engine())?;
        with_rules!(self, rules => fmt::Display::fmt(rules, f))
    }
}
