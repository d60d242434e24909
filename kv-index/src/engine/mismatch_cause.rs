//! Hash-mismatch diagnosis: the likeliest setting that differs between an engine and its dialect.
//!
//! A hash says nothing of how it was made, so the likely mistakes are tried: whichever dialect would have given the
//! announced hash is what the engine really speaks.

use std::fmt;

use super::dialect::Dialect;
use super::event::{EngineHash, EngineStored};
use super::rules::Setting;

/// What most likely differs between the engine and the dialect it is taken to speak.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MismatchCause {
    /// `PYTHONHASHSEED`: the engine has another one than the dialect, or none and draws its own.
    Seed {
        /// The dialect that would have given the announced hash, if one of the usual seeds does.
        actual: Option<Dialect>,
    },
    /// The hash algorithm, or for SGLang what is hashed: single tokens or pairs.
    Algorithm {
        /// The dialect that would have given the announced hash.
        actual: Dialect,
    },
    /// The release: what besides the tokens is hashed, and how.
    Version {
        /// The dialect that would have given the announced hash, if one of the other releases' does.
        actual: Option<Dialect>,
    },
    /// The engine hashes in smaller blocks than it caches (`--prefix-match-unit`, or several cache groups).
    BlockSize {
        /// Tokens it hashes at a time.
        hashed: u32,
        /// Tokens in the blocks it announces.
        announced: u32,
    },
    /// None of the mistakes that were tried gives the announced hash.
    Unknown,
}

impl MismatchCause {
    /// Whether a dialect is known that gives what was announced, so that nothing else can be the matter.
    pub(super) fn is_proven(&self) -> bool {
        match self {
            Self::Seed { actual } | Self::Version { actual } => actual.is_some(),
            Self::Algorithm { .. } | Self::BlockSize { .. } => true,
            Self::Unknown => false,
        }
    }
}

impl fmt::Display for MismatchCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seed { actual: Some(actual) } => write!(f, "another PYTHONHASHSEED: the engine speaks {actual}"),
            Self::Seed { actual: None } => {
                f.write_str("another PYTHONHASHSEED, or none: set it to one value on every engine, or use token mode")
            }
            Self::Algorithm { actual } => write!(f, "another algorithm: the engine speaks {actual}"),
            Self::Version { actual: Some(actual) } => write!(f, "another release: the engine speaks {actual}"),
            Self::Version { actual: None } => {
                f.write_str("another release: prompts of tokens alone agree, those with more do not")
            }
            Self::BlockSize { hashed, announced } => {
                write!(f, "another block size: the engine hashes {hashed} tokens at a time and announces {announced}")
            }
            Self::Unknown => f.write_str("no usual mistake explains it; token mode works whatever the engine hashes"),
        }
    }
}

/// Finds what explains the first hash of a store that begins a chain.
///
/// `plain_agrees` says that stores of tokens alone have been found to agree.
pub(super) fn find(dialect: &Dialect, stored: &EngineStored<'_>, plain_agrees: bool) -> MismatchCause {
    let (Some(&announced), Some(first)) = (stored.hashes.first(), first_block(stored)) else {
        return MismatchCause::Unknown;
    };
    let gives = |dialect: &Dialect, stored: &EngineStored<'_>| {
        dialect.recompute(stored, None).is_ok_and(|each| each.last().is_some_and(|(hash, _)| *hash == announced))
    };
    if let Some(finer) = finer(&first).find(|finer| gives(dialect, finer)) {
        return MismatchCause::BlockSize { hashed: finer.block_size, announced: stored.block_size };
    }
    let matching = |dialects: Vec<Dialect>| dialects.into_iter().find(|other| gives(other, &first));
    if let Some(actual) = matching(dialect.alternatives(Setting::Release)) {
        return MismatchCause::Version { actual: Some(actual) };
    }
    if let Some(actual) = matching(dialect.alternatives(Setting::Algorithm)) {
        return MismatchCause::Algorithm { actual };
    }
    if plain_agrees {
        return MismatchCause::Version { actual: None };
    }
    let seeds = dialect.alternatives(Setting::Seed);
    if seeds.is_empty() { MismatchCause::Unknown } else { MismatchCause::Seed { actual: matching(seeds) } }
}

/// A store's first block alone.
fn first_block<'e>(stored: &EngineStored<'e>) -> Option<EngineStored<'e>> {
    let size = stored.block_size as usize;
    if stored.parent.is_some() {
        return None;
    }
    let mut first = stored.clone();
    first.hashes.truncate(1);
    first.extra_keys.truncate(1);
    first.tokens.truncate(size);
    (first.tokens.len() == size).then_some(first)
}

/// The same tokens in blocks of a half, a quarter and so on; only where no key belongs to a block.
fn finer<'e>(stored: &EngineStored<'e>) -> impl Iterator<Item = EngineStored<'e>> {
    let (size, keyed) = (stored.block_size, stored.extra_keys.iter().any(|keys| !keys.is_empty()));
    let stored = stored.clone();
    let sizes = (1..size.max(1).ilog2() + 1).map(move |halvings| size >> halvings);
    sizes.filter(move |finer| !keyed && *finer > 0 && size % finer == 0).map(move |finer| EngineStored {
        block_size: finer,
        hashes: vec![EngineHash::new(0); (size / finer) as usize],
        extra_keys: vec![Vec::new(); (size / finer) as usize],
        ..stored.clone()
    })
}
