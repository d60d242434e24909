//! SGLang's hashing by release: what is refused, the salt's root, the step from page to page, and namespaces.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::engine::block_digest::BlockDigest;
use crate::engine::dialect::DialectError;
use crate::engine::hash_error::{HashError, Ingredient};
use crate::engine::name::Engine;
use crate::engine::prompt::Prompt;
use crate::engine::rules::{ChainState, Rules, Stretch};
use crate::engine::sglang::{SglangFormat, SglangHashing};
use crate::engine::version::Version;

/// SGLang engines whose hashes can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct SglangRules(SglangHashing);

impl SglangRules {
    pub(in crate::engine) fn hashing(&self) -> &SglangHashing {
        &self.0
    }

    pub(in crate::engine) fn new(hashing: SglangHashing) -> Result<Self, DialectError> {
        let version = hashing.version;
        if version < SHA256 {
            return Err(DialectError::PythonHash { engine: Engine::Sglang, version, since: SHA256 });
        }
        if version > NEWEST {
            return Err(DialectError::TooNew { engine: Engine::Sglang, version, newest: NEWEST });
        }
        if hashing.format == SglangFormat::Dynamo && version < NAMESPACES {
            return Err(DialectError::NoSuchFormat { version, since: NAMESPACES });
        }
        match hashing.adapters {
            true if Self(hashing).folds_adapters() => Err(DialectError::AdapterUuid { version }),
            true => Err(DialectError::AdaptersAlike { version, since: ADAPTER_NAMESPACES }),
            false => Ok(Self(hashing)),
        }
    }

    pub(in crate::engine) fn version(&self) -> Version {
        self.0.version
    }

    /// Whether a page holds pairs of tokens.
    pub(in crate::engine) fn eagle(&self) -> bool {
        self.0.eagle
    }

    /// Whether adapters' keys, which events do not carry, are folded into what events carry.
    pub(in crate::engine) fn folds_adapters(&self) -> bool {
        self.0.version >= ADAPTER_NAMESPACES || self.0.format == SglangFormat::Dynamo
    }

    /// The hash of one page of units, each of one id or more. What was serialized is then in `bytes`.
    #[inline]
    pub(in crate::engine) fn step<T, const IDS: usize>(
        &self,
        parent: &BlockDigest,
        units: impl ExactSizeIterator<Item = [T; IDS]> + Clone,
        bytes: &mut Vec<u8>,
    ) -> BlockDigest
    where
        T: Copy + Into<i128>,
    {
        bytes.clear();
        bytes.extend_from_slice(parent.as_bytes());
        let ids = |unit: [T; IDS]| unit.map(Into::<i128>::into);
        if units.clone().flat_map(ids).any(|id| id > NARROW) {
            bytes.push(WIDE_PAGE);
            units.flat_map(ids).for_each(|id| bytes.extend_from_slice(&(id as u64).to_le_bytes()));
        } else {
            let start = bytes.len();
            bytes.resize(start + 4 * IDS * units.len(), 0);
            for (slots, unit) in bytes[start..].chunks_exact_mut(4 * IDS).zip(units) {
                for (slot, id) in slots.chunks_exact_mut(4).zip(ids(unit)) {
                    slot.copy_from_slice(&(id as u32).to_le_bytes());
                }
            }
        }
        sha256(bytes)
    }

    fn most(&self) -> u64 {
        if self.0.version >= WIDE_TOKENS { u64::MAX } else { NARROW as u64 }
    }

    fn refuse(what: Ingredient, has: bool) -> Result<(), HashError> {
        if has { Err(HashError::NotComputable { engine: Engine::Sglang, what }) } else { Ok(()) }
    }
}

impl Rules for SglangRules {
    fn check<T>(&self, prompt: &Prompt<'_, T>, size: usize, blocks: usize) -> Result<(), HashError>
    where
        T: Copy + Into<i128>,
    {
        Self::refuse(Ingredient::Media, !prompt.media.is_empty())?;
        Self::refuse(Ingredient::Embeds, prompt.embeds.is_some())?;
        if prompt.adapter.is_some() && prompt.extra_key.is_none() {
            return Err(HashError::AdapterKey);
        }
        let (engine, version) = (Engine::Sglang, self.0.version);
        if salt(prompt).is_some() && version < SALTS {
            return Err(HashError::NotEstablished { engine, version, what: Ingredient::Salt, since: SALTS });
        }
        let most = self.most();
        let hashed = blocks * size + usize::from(self.0.eagle && blocks > 0);
        for (position, &id) in prompt.tokens[..hashed].iter().enumerate() {
            let id: i128 = id.into();
            if !(0..=i128::from(most)).contains(&id) {
                return Err(HashError::Token { engine, id, position, most });
            }
        }
        Ok(())
    }

    fn root<T>(&self, prompt: &Prompt<'_, T>) -> BlockDigest {
        salt(prompt).map_or(BlockDigest::EMPTY, |salt| {
            let digest = Sha256::new_with_prefix(SALT_LABEL).chain_update(salt).finalize();
            BlockDigest::from(<[u8; 32]>::from(digest))
        })
    }

    fn root_bytes<T>(&self, prompt: &Prompt<'_, T>, bytes: &mut Vec<u8>) {
        bytes.clear();
        if let Some(salt) = salt(prompt) {
            bytes.extend_from_slice(SALT_LABEL);
            bytes.extend_from_slice(salt.as_bytes());
        }
    }

    fn digest_length(&self) -> usize {
        32
    }

    fn units(&self, tokens: usize) -> usize {
        if self.0.eagle { tokens.saturating_sub(1) } else { tokens }
    }

    fn namespace<T>(&self, prompt: &Prompt<'_, T>) -> Option<[u8; 32]> {
        let key = prompt.extra_key.filter(|key| !key.is_empty());
        let (key, salt) = match self.0.format {
            SglangFormat::Dynamo => (key, salt(prompt)),
            SglangFormat::Default if self.0.version < ADAPTER_NAMESPACES => (None, None),
            SglangFormat::Default => (key.filter(|_| prompt.adapter.is_some()), None),
        };
        if key.is_none() && salt.is_none() {
            return None;
        }
        let mut hash = Sha256::new_with_prefix(NAMESPACE_LABEL);
        for part in [key, salt] {
            match part {
                None => hash.update([0]),
                Some(text) => {
                    hash.update([1]);
                    hash.update((text.len() as u64).to_le_bytes());
                    hash.update(text);
                }
            }
        }
        Some(hash.finalize().into())
    }

    fn extend<T>(
        &self,
        stretch: &Stretch<'_, T>,
        state: &mut ChainState,
        bytes: &mut Vec<u8>,
        mut each: impl FnMut(&[u8], &BlockDigest),
    ) where
        T: Copy + Into<i128>,
    {
        let &Stretch { prompt, size, ref blocks } = stretch;
        for at in blocks.clone() {
            let page = at * size..(at + 1) * size;
            state.digest = if self.0.eagle {
                let pairs = prompt.tokens[page.start..=page.end].windows(2).map(|pair| [pair[0], pair[1]]);
                self.step(&state.digest, pairs, bytes)
            } else {
                self.step(&state.digest, prompt.tokens[page].iter().map(|&token| [token]), bytes)
            };
            each(bytes, &state.digest);
        }
    }

    #[inline]
    fn announced(&self, digest: &BlockDigest, namespace: Option<&[u8; 32]>) -> u64 {
        let word = digest.first_word();
        match namespace {
            None => word,
            Some(namespace) => {
                let folded = Sha256::new_with_prefix(namespace).chain_update(word.to_be_bytes()).finalize();
                BlockDigest::from(<[u8; 32]>::from(folded)).first_word()
            }
        }
    }
}

impl fmt::Display for SglangRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let format = match self.0.format {
            SglangFormat::Default => "default",
            SglangFormat::Dynamo => "dynamo",
        };
        write!(f, "{}, {format} format", self.0.version)?;
        if self.0.eagle { f.write_str(", pairs of tokens") } else { Ok(()) }
    }
}

fn salt<'a, T>(prompt: &Prompt<'a, T>) -> Option<&'a str> {
    prompt.salt.filter(|salt| !salt.is_empty())
}

#[inline]
fn sha256(bytes: &[u8]) -> BlockDigest {
    BlockDigest::from(<[u8; 32]>::from(Sha256::digest(bytes)))
}

const SALT_LABEL: &[u8] = b"sglang-cache-salt-v1\0";
const NAMESPACE_LABEL: &[u8] = b"sglang-kv-event-namespace-v1";
/// The greatest id that a page of plain tokens has.
const NARROW: i128 = u32::MAX as i128;
/// Begins a page that has a greater one: all its ids are then of 64 bits.
const WIDE_PAGE: u8 = 0xff;

const SHA256: Version = Version::new(0, 5, 6);
const SALTS: Version = Version::new(0, 5, 18);
const NAMESPACES: Version = Version::new(0, 5, 22);
const ADAPTER_NAMESPACES: Version = Version::new(0, 5, 23);
const WIDE_TOKENS: Version = Version::new(0, 5, 23);
const NEWEST: Version = Version::new(0, 5, 23);

#[cfg(test)]
mod tests;
