//! SGLang's block hashing by release: refusals, salt root, page step, event namespaces.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::engine::block_digest::BlockDigest;
use crate::engine::dialect::{Dialect, DialectError};
use crate::engine::engine_kind::EngineKind;
use crate::engine::hash_error::{HashError, PromptFeature};
use crate::engine::prompt::{Prompt, TokenId};
use crate::engine::rules::{ChainState, Rules, Setting, Stretch, check_features, check_tokens};
use crate::engine::sglang::{SglangFormat, SglangHashing};
use crate::engine::version::Version;

/// SGLang engines whose hashes can be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) struct SglangRules(SglangHashing);

impl SglangRules {
    pub(in crate::engine) fn new(hashing: SglangHashing) -> Result<Self, DialectError> {
        let version = hashing.version;
        if version < SHA256 {
            return Err(DialectError::PythonHash { engine: EngineKind::Sglang, version, since: SHA256 });
        }
        if version > NEWEST {
            return Err(DialectError::TooNew { engine: EngineKind::Sglang, version, newest: NEWEST });
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
    pub(in crate::engine) fn step<T: TokenId, const IDS: usize>(
        &self,
        parent: &BlockDigest,
        units: impl ExactSizeIterator<Item = [T; IDS]> + Clone,
        bytes: &mut Vec<u8>,
    ) -> BlockDigest {
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
        BlockDigest::sha256(bytes)
    }

    fn most(&self) -> u64 {
        if self.0.version >= WIDE_TOKENS { u64::MAX } else { NARROW as u64 }
    }
}

impl Rules for SglangRules {
    const ENGINE: EngineKind = EngineKind::Sglang;

    fn version(&self) -> Option<Version> {
        Some(self.0.version)
    }

    /// The dynamo format hashes a request's `extra_key`.
    fn hides_keys(&self) -> bool {
        self.0.format == SglangFormat::Dynamo
    }

    fn alternatives(&self, setting: Setting) -> Vec<Dialect> {
        let others = match setting {
            Setting::Release => FORMATS.map(|(version, format)| SglangHashing { version, format, ..self.0 }).into(),
            Setting::Algorithm => vec![SglangHashing { eagle: !self.0.eagle, ..self.0 }],
            Setting::Seed => Vec::new(),
        };
        others.into_iter().filter_map(|hashing| Dialect::sglang(hashing).ok()).collect()
    }

    fn check<T: TokenId>(&self, prompt: &Prompt<'_, T>, size: usize, blocks: usize) -> Result<(), HashError> {
        let (engine, version) = (Self::ENGINE, self.0.version);
        check_features(engine, prompt)?;
        if prompt.adapter.is_some() && prompt.extra_key.is_none() {
            return Err(HashError::AdapterKey);
        }
        if prompt.cache_salt().is_some() && version < SALTS {
            return Err(HashError::NotEstablished { engine, version, what: PromptFeature::Salt, since: SALTS });
        }
        let hashed = blocks * size + usize::from(self.0.eagle && blocks > 0);
        check_tokens(engine, &prompt.tokens[..hashed], self.most())
    }

    fn root<T>(&self, prompt: &Prompt<'_, T>) -> BlockDigest {
        prompt.cache_salt().map_or(BlockDigest::EMPTY, |salt| {
            let digest = Sha256::new_with_prefix(SALT_LABEL).chain_update(salt).finalize();
            BlockDigest::from(<[u8; 32]>::from(digest))
        })
    }

    fn root_bytes<T>(&self, prompt: &Prompt<'_, T>, bytes: &mut Vec<u8>) {
        bytes.clear();
        if let Some(salt) = prompt.cache_salt() {
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
            SglangFormat::Dynamo => (key, prompt.cache_salt()),
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

    fn extend<T: TokenId>(
        &self,
        stretch: &Stretch<'_, T>,
        state: &mut ChainState,
        bytes: &mut Vec<u8>,
        mut each: impl FnMut(&[u8], &BlockDigest),
    ) {
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
/// A release of each way of hashing: before adapters had hashes of their own, and after, in both formats.
const FORMATS: [(Version, SglangFormat); 3] =
    [(SALTS, SglangFormat::Default), (NEWEST, SglangFormat::Default), (NEWEST, SglangFormat::Dynamo)];

#[cfg(test)]
mod tests;
