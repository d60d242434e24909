//! TensorRT-LLM's block hashing: refusals, and root and step of both forms.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::engine::block_digest::BlockDigest;
use crate::engine::dialect::Dialect;
use crate::engine::engine_kind::EngineKind;
use crate::engine::hash_error::HashError;
use crate::engine::prompt::{Prompt, TokenId};
use crate::engine::rules::{ChainState, Rules, Setting, Stretch, check_features, check_tokens};
use crate::engine::trtllm::{TrtllmForm, TrtllmHashing};
use crate::engine::version::Version;

/// TensorRT-LLM engines whose hashes can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct TrtllmRules(TrtllmHashing);

/// What tells caches apart besides tokens.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Scope {
    pub(in crate::engine) adapter: Option<u64>,
    pub(in crate::engine) salt: Option<u64>,
}

impl TrtllmRules {
    pub(in crate::engine) fn new(hashing: TrtllmHashing) -> Self {
        Self(hashing)
    }

    pub(in crate::engine) fn form(&self) -> TrtllmForm {
        self.0.form
    }

    /// The number that stands for a salt, if this build's way is known.
    pub(in crate::engine) fn salt_id(&self, salt: &str) -> Option<u64> {
        let digest: [u8; 32] = Sha256::digest(salt).into();
        let id = digest.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        self.0.sha256_salts.then_some(id)
    }

    /// What a chain of this scope starts from.
    pub(in crate::engine) fn scope_root(&self, scope: Scope) -> BlockDigest {
        if self.0.form == TrtllmForm::V1BlockKey {
            return BlockDigest::EMPTY;
        }
        let mut hash = Sha256::new();
        scope_bytes(scope, |bytes| hash.update(bytes));
        BlockDigest::from(<[u8; 32]>::from(hash.finalize()))
    }

    /// The hash of one block. What was serialized is then in `bytes`.
    #[inline]
    pub(in crate::engine) fn step<T: TokenId>(
        &self,
        parent: &BlockDigest,
        tokens: &[T],
        scope: Scope,
        bytes: &mut Vec<u8>,
    ) -> BlockDigest {
        bytes.clear();
        match self.0.form {
            TrtllmForm::V1BlockKey => number(block_key(parent.first_word(), tokens, scope)),
            TrtllmForm::V2Sha256 => {
                bytes.extend_from_slice(parent.as_bytes());
                let start = bytes.len();
                bytes.resize(start + 4 * tokens.len(), 0);
                for (slot, &token) in bytes[start..].chunks_exact_mut(4).zip(tokens) {
                    slot.copy_from_slice(&(token.into() as u32).to_le_bytes());
                }
                BlockDigest::sha256(bytes)
            }
        }
    }

    fn scope<T>(&self, prompt: &Prompt<'_, T>) -> Scope {
        Scope {
            adapter: prompt.adapter.and_then(|adapter| adapter.id),
            salt: prompt.cache_salt().and_then(|salt| self.salt_id(salt)),
        }
    }
}

impl Rules for TrtllmRules {
    const ENGINE: EngineKind = EngineKind::Trtllm;

    fn version(&self) -> Option<Version> {
        None
    }

    /// Events do not name the adapter.
    fn hides_keys(&self) -> bool {
        true
    }

    fn alternatives(&self, setting: Setting) -> Vec<Dialect> {
        let forms: &[TrtllmForm] = match setting {
            Setting::Algorithm => &[TrtllmForm::V1BlockKey, TrtllmForm::V2Sha256],
            Setting::Release | Setting::Seed => &[],
        };
        forms.iter().filter_map(|&form| Dialect::trtllm(TrtllmHashing { form, ..self.0 }).ok()).collect()
    }

    fn check<T: TokenId>(&self, prompt: &Prompt<'_, T>, size: usize, blocks: usize) -> Result<(), HashError> {
        check_features(Self::ENGINE, prompt)?;
        if prompt.adapter.is_some_and(|adapter| adapter.id.is_none()) {
            return Err(HashError::AdapterId);
        }
        if prompt.cache_salt().is_some() && !self.0.sha256_salts {
            return Err(HashError::SaltForm);
        }
        check_tokens(Self::ENGINE, &prompt.tokens[..blocks * size], MOST)
    }

    fn root<T>(&self, prompt: &Prompt<'_, T>) -> BlockDigest {
        self.scope_root(self.scope(prompt))
    }

    fn root_bytes<T>(&self, prompt: &Prompt<'_, T>, bytes: &mut Vec<u8>) {
        bytes.clear();
        if self.0.form == TrtllmForm::V2Sha256 {
            scope_bytes(self.scope(prompt), |part| bytes.extend_from_slice(part));
        }
    }

    fn digest_length(&self) -> usize {
        match self.0.form {
            TrtllmForm::V1BlockKey => 8,
            TrtllmForm::V2Sha256 => 32,
        }
    }

    fn extend<T: TokenId>(
        &self,
        stretch: &Stretch<'_, T>,
        state: &mut ChainState,
        bytes: &mut Vec<u8>,
        mut each: impl FnMut(&[u8], &BlockDigest),
    ) {
        let &Stretch { prompt, size, ref blocks } = stretch;
        let scope = self.scope(prompt);
        for tokens in prompt.tokens[blocks.start * size..blocks.end * size].chunks_exact(size) {
            state.digest = self.step(&state.digest, tokens, scope, bytes);
            each(bytes, &state.digest);
        }
    }

    #[inline]
    fn announced(&self, digest: &BlockDigest, _namespace: Option<&[u8; 32]>) -> u64 {
        digest.first_word()
    }
}

impl fmt::Display for TrtllmRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.form)?;
        if self.0.sha256_salts { f.write_str(", salts by sha256") } else { Ok(()) }
    }
}

/// What the second form's root is the hash of: which ids there are, and the ids.
fn scope_bytes(scope: Scope, mut put: impl FnMut(&[u8])) {
    put(&[u8::from(scope.adapter.is_some()) | u8::from(scope.salt.is_some()) << 1]);
    for id in [scope.adapter, scope.salt].into_iter().flatten() {
        put(&id.to_le_bytes());
    }
}

/// The first form's hash of a block.
#[inline]
fn block_key<T: TokenId>(parent: u64, tokens: &[T], scope: Scope) -> u64 {
    let mut seed = tokens.len() as u64 ^ parent.wrapping_mul(MIX_A);
    // The engine takes a parent of 0 for none, so that the salt is in the first block only.
    if let (0, Some(salt)) = (parent, scope.salt) {
        seed = mix_long(seed, salt);
    }
    seed = tokens.iter().fold(seed, |seed, &token| mix_token(seed, token.into() as u32));
    scope.adapter.map_or(seed, |adapter| mix_long(seed, adapter))
}

#[inline]
fn mix_token(seed: u64, token: u32) -> u64 {
    let mut value = (token >> 16 ^ token).wrapping_mul(MIX_TOKEN);
    value = (value >> 16 ^ value).wrapping_mul(MIX_TOKEN);
    value ^= value >> 16;
    // This sum is of 32 bits in the engine, and wraps there.
    combine(seed, u64::from(value.wrapping_add(GOLDEN)))
}

fn mix_long(seed: u64, value: u64) -> u64 {
    let mut value = (value ^ value >> 30).wrapping_mul(MIX_A);
    value = (value ^ value >> 27).wrapping_mul(MIX_B);
    value ^= value >> 31;
    combine(seed, value.wrapping_add(u64::from(GOLDEN)))
}

#[inline]
fn combine(seed: u64, value: u64) -> u64 {
    seed ^ value.wrapping_add(seed << 6).wrapping_add(seed >> 2)
}

/// A hash of the first form, as a digest.
pub(in crate::engine) fn number(hash: u64) -> BlockDigest {
    BlockDigest::new(&hash.to_be_bytes()).unwrap_or(BlockDigest::EMPTY)
}

/// The greatest token id: the engine's are signed, of 32 bits.
const MOST: u64 = i32::MAX as u64;
const MIX_A: u64 = 0xBF58_476D_1CE4_E5B9;
const MIX_B: u64 = 0x94D0_49BB_1331_11EB;
const MIX_TOKEN: u32 = 0x045D_9F3B;
const GOLDEN: u32 = 0x9E37_79B9;

#[cfg(test)]
mod tests;
