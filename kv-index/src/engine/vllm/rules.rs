//! vLLM's block hashing by release: refusals, `NONE_HASH`, block step.

use std::fmt;

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_128;

use crate::engine::block_digest::BlockDigest;
use crate::engine::dialect::{Dialect, DialectError};
use crate::engine::engine_kind::EngineKind;
use crate::engine::hash_error::{HashError, PromptFeature};
use crate::engine::prompt::{Prompt, TokenId};
use crate::engine::rules::{ChainState, Rules, Setting, Stretch};
use crate::engine::version::Version;
use crate::engine::vllm::cbor::Cbor;
use crate::engine::vllm::encode::{self, Encode, KeyForm};
use crate::engine::vllm::keys::{AdapterKey, Keys};
use crate::engine::vllm::pickle::Pickle;
use crate::engine::vllm::{VllmAlgorithm, VllmHashing};

/// vLLM engines whose hashes can be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct VllmRules {
    hashing: VllmHashing,
    form: KeyForm,
    none_hash: BlockDigest,
}

impl VllmRules {
    pub(in crate::engine) fn new(hashing: VllmHashing) -> Result<Self, DialectError> {
        let VllmHashing { version, algorithm, ref seed, shared_identifiers } = hashing;
        if version < SHA256_BY_DEFAULT {
            return Err(DialectError::PythonHash { engine: EngineKind::Vllm, version, since: SHA256_BY_DEFAULT });
        }
        if version > NEWEST && !version.same_series(NEWEST) {
            return Err(DialectError::TooNew { engine: EngineKind::Vllm, version, newest: NEWEST });
        }
        if algorithm.is_xxhash() && version < XXHASH {
            return Err(DialectError::NoSuchAlgorithm { version, algorithm: algorithm.name(), since: XXHASH });
        }
        if seed.is_none() && (version < FIXED_SEED || algorithm.is_xxhash()) {
            return Err(DialectError::RandomSeed { version, algorithm: algorithm.name() });
        }
        let form = KeyForm { tagged: version >= TAGGED_KEYS, shared_identifiers };
        let mut rules = Self { hashing, form, none_hash: BlockDigest::EMPTY };
        let mut bytes = Vec::new();
        rules.seed_bytes(&mut bytes);
        rules.none_hash = rules.hash(&bytes);
        Ok(rules)
    }

    /// Whether an adapter's path is hashed with its name.
    pub(in crate::engine) fn hashes_paths(&self) -> bool {
        self.form.tagged
    }

    /// The hash of one block. What was serialized is then in `bytes`.
    #[inline]
    pub(in crate::engine) fn step<T: TokenId>(
        &self,
        parent: &BlockDigest,
        tokens: &[T],
        keys: &Keys<'_>,
        bytes: &mut Vec<u8>,
    ) -> BlockDigest {
        if self.hashing.algorithm.pickles() {
            let mut pickle = Pickle::new(bytes);
            encode::block(&mut pickle, self.form, parent.as_bytes(), tokens, keys);
            pickle.finish();
        } else {
            encode::block(&mut Cbor::new(bytes), self.form, parent.as_bytes(), tokens, keys);
        }
        self.hash(bytes)
    }

    /// The first release from which something is established, for what the prompt has; see the module's docs.
    pub(in crate::engine) fn since(what: PromptFeature) -> Version {
        match what {
            PromptFeature::Adapter => ADAPTER_NAMES,
            PromptFeature::Media => MEDIA_OFFSETS,
            PromptFeature::Embeds => EMBEDS,
            PromptFeature::Salt => SHA256_BY_DEFAULT,
        }
    }

    #[inline]
    fn hash(&self, bytes: &[u8]) -> BlockDigest {
        if self.hashing.algorithm.is_xxhash() {
            let digest = xxh3_128(bytes).to_be_bytes();
            BlockDigest::new(&digest).unwrap_or(BlockDigest::EMPTY)
        } else {
            BlockDigest::sha256(bytes)
        }
    }

    fn seed_bytes(&self, bytes: &mut Vec<u8>) {
        let seed = self.hashing.seed.as_deref().unwrap_or(DEFAULT_SEED);
        if self.hashing.algorithm.pickles() {
            let mut pickle = Pickle::new(bytes);
            pickle.text(seed);
            pickle.finish();
        } else {
            Cbor::new(bytes).text(seed);
        }
    }

    fn established(&self, what: PromptFeature, has: bool) -> Result<(), HashError> {
        let (version, since) = (self.hashing.version, Self::since(what));
        if has && version < since {
            return Err(HashError::NotEstablished { engine: EngineKind::Vllm, version, what, since });
        }
        Ok(())
    }
}

impl Rules for VllmRules {
    const ENGINE: EngineKind = EngineKind::Vllm;

    fn version(&self) -> Option<Version> {
        Some(self.hashing.version)
    }

    fn alternatives(&self, setting: Setting) -> Vec<Dialect> {
        let hashing = || self.hashing.clone();
        let others: Vec<VllmHashing> = match setting {
            Setting::Release => FORMATS.map(|version| VllmHashing { version, ..hashing() }).into(),
            Setting::Seed => usual_seeds().map(|seed| VllmHashing { seed, ..hashing() }).collect(),
            Setting::Algorithm => {
                let algorithms = VllmAlgorithm::ALL.into_iter().filter(|other| *other != self.hashing.algorithm);
                let seeds = || std::iter::once(self.hashing.seed.clone()).chain(usual_seeds());
                let pairs = seeds().flat_map(|seed| algorithms.clone().map(move |algorithm| (seed.clone(), algorithm)));
                pairs.map(|(seed, algorithm)| VllmHashing { algorithm, seed, ..hashing() }).collect()
            }
        };
        others.into_iter().filter_map(|hashing| Dialect::vllm(hashing).ok()).collect()
    }

    fn check<T: TokenId>(&self, prompt: &Prompt<'_, T>, _size: usize, _blocks: usize) -> Result<(), HashError> {
        self.established(PromptFeature::Adapter, prompt.adapter.is_some())?;
        self.established(PromptFeature::Media, !prompt.media.is_empty())?;
        self.established(PromptFeature::Embeds, prompt.embeds.is_some())?;
        if self.hashes_paths() && prompt.adapter.is_some_and(|adapter| adapter.path.is_none()) {
            return Err(HashError::AdapterPath { version: self.hashing.version });
        }
        Ok(())
    }

    fn root<T>(&self, _prompt: &Prompt<'_, T>) -> BlockDigest {
        self.none_hash
    }

    fn root_bytes<T>(&self, _prompt: &Prompt<'_, T>, bytes: &mut Vec<u8>) {
        self.seed_bytes(bytes);
    }

    fn digest_length(&self) -> usize {
        self.none_hash.as_bytes().len()
    }

    fn extend<T: TokenId>(
        &self,
        stretch: &Stretch<'_, T>,
        state: &mut ChainState,
        bytes: &mut Vec<u8>,
        mut each: impl FnMut(&[u8], &BlockDigest),
    ) {
        let &Stretch { prompt, size, ref blocks } = stretch;
        let adapter = prompt.adapter.map(|a| AdapterKey { name: a.name, path: a.path.unwrap_or_default() });
        let salt = prompt.cache_salt();
        let prefilled = prompt.prompt_tokens / size;
        let mut keys = Keys { adapter, ..Keys::default() };
        let tokens = &prompt.tokens[blocks.start * size..blocks.end * size];
        for (at, tokens) in blocks.clone().zip(tokens.chunks_exact(size)) {
            let first = at == 0 && state.rooted;
            let (start, end) = (at * size, (at + 1) * size);
            if !prompt.media.is_empty() {
                // Before 0.31, a block that generated tokens complete looks at the last item only.
                if !self.form.tagged && at >= prefilled && !first {
                    state.media = prompt.media.len() - 1;
                }
                keys.walk(prompt.media, &mut state.media, start, end);
            }
            keys.salt = if first { salt } else { None };
            keys.embeds = prompt.embeds.map(|embeds| Sha256::digest(embeds.rows(start..end)).into());
            state.digest = self.step(&state.digest, tokens, &keys, bytes);
            each(bytes, &state.digest);
        }
    }

    #[inline]
    fn announced(&self, digest: &BlockDigest, _namespace: Option<&[u8; 32]>) -> u64 {
        digest.last_word()
    }
}

impl fmt::Display for VllmRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}, ", self.hashing.version, self.hashing.algorithm)?;
        match &self.hashing.seed {
            Some(seed) => write!(f, "seed {seed:?}"),
            None => write!(f, "no seed set"),
        }
    }
}

/// None, and what guides tell operators to set.
fn usual_seeds() -> impl Iterator<Item = Option<Box<str>>> {
    [None, Some("0"), Some("1"), Some("42"), Some("random"), Some("")].into_iter().map(|seed| seed.map(Box::from))
}

/// The seed of releases that have a fixed one.
const DEFAULT_SEED: &str = "vllm-none-hash";

const SHA256_BY_DEFAULT: Version = Version::new(0, 10, 2);
const ADAPTER_NAMES: Version = Version::new(0, 11, 2);
const XXHASH: Version = Version::new(0, 14, 0);
const MEDIA_OFFSETS: Version = Version::new(0, 19, 1);
const FIXED_SEED: Version = Version::new(0, 29, 0);
/// Prompt embeddings were checked in the release of August 2026, and in none before.
const EMBEDS: Version = Version::new(0, 29, 0);
const TAGGED_KEYS: Version = Version::new(0, 31, 0);
/// A release of each key format: without tags, and with.
const FORMATS: [Version; 2] = [Version::new(0, 30, 0), NEWEST];
/// The newest series of which hashes are established.
const NEWEST: Version = Version::new(0, 32, 0);

#[cfg(test)]
mod tests;
