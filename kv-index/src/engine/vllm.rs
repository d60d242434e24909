//! vLLM's hash dialect: which settings make its block hashes computable.
//!
//! A block's hash is `H(parent, tokens, extra keys)`, serialized by Python's pickle or as CBOR, and hashed by SHA-256
//! or XXH3. The first block's parent, `NONE_HASH`, is the hash of a seed.
//!
//! # Setting up the engines
//!
//! On every engine of the fleet, the same:
//!
//! ```text
//! PYTHONHASHSEED=0                     # needed before 0.29, and by xxhash and xxhash_cbor in any release
//! vllm serve MODEL --enable-prefix-caching --block-size 16 \
//!   --prefix-caching-hash-algo sha256_cbor \
//!   --kv-events-config '{"enable_kv_cache_events": true, "publisher": "zmq", "topic": "",
//!     "endpoint": "tcp://*:5557", "replay_endpoint": "tcp://*:5657", "buffer_steps": 10000}'
//! ```
//!
//! - Data-parallel rank *r* adds *r* to both ports; leave room between them.
//! - Any of the four algorithms will do. `sha256`, the default, and `xxhash` serialize by pickle, whose bytes depend on
//!   which strings are one object (see [`VllmHashing::shared_identifiers`]); the CBOR ones do not.
//! - `VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES` may be 1 (the default) or 0: both name the same 64 bits here.
//! - The block size to hash by is the *hash block size*: for models with several cache groups the greatest common
//!   divisor of the groups' block sizes, or `--prefix-match-unit`. A group with larger blocks shows every *k*-th hash:
//!   [`coarser`] views them so. Decode-context parallelism multiplies the block size.
//! - Keep the request option `kv_cache_report_mode=full` out: it announces blocks again of which there is no new copy.
//!
//! # Feeding the index
//!
//! One [`EngineFeed`](super::EngineFeed) for each data-parallel rank, which is a pod of its own. A SUB socket's messages go
//! to `receive`, a DEALER socket's replies to `receive_replay`. Ask for a replay when connecting and whenever the feed says so;
//! without a replay socket set `replay` to false, and every gap costs the pod's state.
//!
//! # Which dialect
//!
//! [`Dialect::vllm`](super::Dialect::vllm) with the release, the algorithm, and the value of `PYTHONHASHSEED` (any
//! text, verbatim) if it is set. Releases differ: up to 0.30 extra keys are untagged and an adapter is its name; from
//! 0.31 they are tagged and an adapter is its name and path, which [`Adapter::path`](super::Adapter::path) must then
//! give.
//!
//! # What cannot work
//!
//! - An unset seed before 0.29, or with xxhash: every process draws its own. Releases before 0.10.2: Python's `hash()`.
//! - Adapters before 0.11.2, media before 0.19.1 and prompt embeddings before 0.29: their keys are not established.
//!
//! Use token mode there: it needs the events' token ids only. Media before 0.19.1 match in neither mode: events do not
//! say where an item begins, and before 0.17 not even which it is. Such blocks are kept apart from all others.
//!
//! Text, salts, adapters, media and embeddings were checked against what vLLM itself computes, for the release of
//! August 2026 (0.29) and for 0.32.0 (`tests/vectors.rs`); that releases between and before are the same was read.

mod cbor;
mod encode;
mod keys;
mod pickle;
mod recompute;
mod rules;

use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;

use crate::engine::version::Version;

pub(super) use rules::VllmRules;

/// How vLLM engines are set up, as far as their hashes depend on it.
///
/// # Examples
///
/// ```
/// use kv_index::engine::Version;
/// use kv_index::engine::vllm::{VllmAlgorithm, VllmHashing};
///
/// let hashing = VllmHashing::new(Version::new(0, 32, 0)).algorithm(VllmAlgorithm::Xxhash).seed("0");
/// assert_eq!(hashing.seed.as_deref(), Some("0"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VllmHashing {
    /// The engines' release.
    pub version: Version,
    /// `--prefix-caching-hash-algo`.
    pub algorithm: VllmAlgorithm,
    /// `PYTHONHASHSEED`, verbatim; none if it is unset.
    pub seed: Option<Box<str>>,
    /// Whether media items of equal identifier share one string object in the engine.
    pub shared_identifiers: bool,
}

impl VllmHashing {
    /// vLLM's defaults: SHA-256 of pickles, and no seed set.
    #[must_use]
    pub const fn new(version: Version) -> Self {
        Self { version, algorithm: VllmAlgorithm::Sha256, seed: None, shared_identifiers: false }
    }

    /// The same with this algorithm.
    #[must_use]
    pub fn algorithm(self, algorithm: VllmAlgorithm) -> Self {
        Self { algorithm, ..self }
    }

    /// The same with `PYTHONHASHSEED` set to this text.
    #[must_use]
    pub fn seed(self, seed: impl Into<Box<str>>) -> Self {
        Self { seed: Some(seed.into()), ..self }
    }

    /// The same for engines in which media items of equal identifier share one string object.
    ///
    /// Pickle writes an object that it meets again as a reference to the first, so that a block with the same image
    /// twice hashes differently if the identifier is one object. Requests that reach the engine's core from its front
    /// end have an object for each item: leave this off for served models. It changes nothing for CBOR.
    #[must_use]
    pub fn shared_identifiers(self) -> Self {
        Self { shared_identifiers: true, ..self }
    }
}

/// vLLM's `--prefix-caching-hash-algo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum VllmAlgorithm {
    /// SHA-256 of a pickle: the default.
    Sha256,
    /// SHA-256 of canonical CBOR.
    Sha256Cbor,
    /// XXH3 in 128 bits of a pickle, from 0.14 on.
    Xxhash,
    /// XXH3 in 128 bits of canonical CBOR, from 0.14 on.
    XxhashCbor,
}

impl VllmAlgorithm {
    /// Every algorithm.
    pub const ALL: [Self; 4] = [Self::Sha256, Self::Sha256Cbor, Self::Xxhash, Self::XxhashCbor];

    /// vLLM's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "sha256",
            Self::Sha256Cbor => "sha256_cbor",
            Self::Xxhash => "xxhash",
            Self::XxhashCbor => "xxhash_cbor",
        }
    }

    /// Whether it is one of XXH3's.
    pub(super) const fn is_xxhash(self) -> bool {
        matches!(self, Self::Xxhash | Self::XxhashCbor)
    }

    /// Whether it serializes by pickle.
    const fn pickles(self) -> bool {
        matches!(self, Self::Sha256 | Self::Xxhash)
    }
}

impl fmt::Display for VllmAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for VllmAlgorithm {
    type Err = UnknownAlgorithm;

    /// Reads the value of `--prefix-caching-hash-algo`.
    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name).ok_or(UnknownAlgorithm)
    }
}

/// The name is none of vLLM's hash algorithms. An operator mistyped it, or it is newer than what is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a hash algorithm of vLLM: expected sha256, sha256_cbor, xxhash or xxhash_cbor")]
pub struct UnknownAlgorithm;

/// Hashes of fine blocks as a cache group with `times` as large blocks shows them: the last fine hash inside each.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use kv_index::engine::vllm::coarser;
///
/// let twice = NonZeroUsize::new(2).unwrap();
/// assert_eq!(coarser(&[1, 2, 3, 4, 5], twice).collect::<Vec<_>>(), [2, 4]);
/// ```
pub fn coarser<T: Copy>(fine: &[T], times: NonZeroUsize) -> impl Iterator<Item = T> + '_ {
    fine.iter().copied().skip(times.get() - 1).step_by(times.get())
}
