//! TensorRT-LLM's hash dialect: which of its block hashes can be computed.
//!
//! # Setting up the engines
//!
//! ```text
//! kv_cache_config:
//!   enable_block_reuse: true
//!   event_buffer_max_size: 65536       # 0 announces nothing
//!   tokens_per_block: 32
//! ```
//!
//! Events are drained by `/kv_cache_events` of the HTTP server; whoever asks takes them, so let one reader ask. In
//! newer builds each says by `hash_algo` in which form its hashes are. `tokens_per_block` is the block size to hash by;
//! blocks with fewer tokens are announced too, and are not whole blocks.
//!
//! # Feeding the index
//!
//! Hand each body to [`EngineFeed::receive_json`](super::EngineFeed::receive_json), of every rank's feed if there are several, with
//! `rank` set. Set `source` to [`Membership`](crate::EventSemantics::Membership): events say whether a block is there, not how
//! often. Builds that publish over ZeroMQ as vLLM does are fed as vLLM is.
//!
//! # Which dialect
//!
//! [`Dialect::trtllm`](super::Dialect::trtllm) with the form that `hash_algo` names, or `v1_block_key` where there is
//! none. An adapter is hashed by its task id: [`Adapter::id`](super::Adapter::id) must give it.
//!
//! # What is established, and how
//!
//! By reading only: nothing here was compared with hashes that TensorRT-LLM computed.
//!
//! - *v1*: its C++ and its Python agree on tokens, adapter ids and salt ids: a 64-bit seed of the block's length and
//!   its parent's hash, into which the salt's id (first block only), each token and the adapter's id are mixed.
//! - *v2*: SHA-256 of the parent's digest and the token ids in 32 bits each, from a root that is the SHA-256 of a byte
//!   that says what follows (bit 0: adapter id, bit 1: salt id) and those ids in 64 bits each. Earlier builds hash
//!   token ids in 64 bits each, and those before them root a chain in the adapter's id alone; which releases these are
//!   is not established. Compare with the engine's events before relying on it.
//!
//! # What cannot work
//!
//! - Salts, unless [`TrtllmHashing::sha256_salts`] says that the build numbers them by SHA-256. Earlier builds did so
//!   by BLAKE3, and some mix a C++ library's hash of the text, which is nobody else's to compute.
//! - Media and prompt embeddings, and prompt tables with ids of their own for tokens.
//!
//! Use token mode there.

mod recompute;
mod rules;

use std::str::FromStr;

use super::named::named;

pub(super) use rules::TrtllmRules;

/// How TensorRT-LLM engines are set up, as far as their hashes depend on it.
///
/// # Examples
///
/// ```
/// use kv_index::engine::Dialect;
/// use kv_index::engine::trtllm::{TrtllmForm, TrtllmHashing};
///
/// let hashing = TrtllmHashing::new("v2_sha256".parse().unwrap()).sha256_salts();
/// assert_eq!(hashing.form, TrtllmForm::V2Sha256);
/// assert_eq!(Dialect::trtllm(hashing).unwrap().to_string(), "TensorRT-LLM v2_sha256, salts by sha256");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrtllmHashing {
    /// The form of the hashes.
    pub form: TrtllmForm,
    /// Whether a salt's id is the first eight bytes of its SHA-256.
    pub sha256_salts: bool,
}

impl TrtllmHashing {
    /// Hashes of this form; salted prompts are refused.
    #[must_use]
    pub const fn new(form: TrtllmForm) -> Self {
        Self { form, sha256_salts: false }
    }

    /// The same for builds in which a salt's id is the first eight bytes, little endian, of its SHA-256.
    #[must_use]
    pub const fn sha256_salts(self) -> Self {
        Self { sha256_salts: true, ..self }
    }
}

named! {
    /// The form of TensorRT-LLM's hashes: what its events call `hash_algo`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum TrtllmForm {
        /// `v1_block_key`: numbers mixed into 64 bits. The default.
        V1BlockKey => "v1_block_key",
        /// `v2_sha256`, or cut to 64 bits `v2_sha256_64`: a chain of SHA-256.
        V2Sha256 => "v2_sha256",
    }
}

impl FromStr for TrtllmForm {
    type Err = UnknownForm;

    /// Reads what an event's `hash_algo` says.
    fn from_str(name: &str) -> Result<Self, UnknownForm> {
        match name {
            "v1_block_key" => Ok(Self::V1BlockKey),
            "v2_sha256" | "v2_sha256_64" => Ok(Self::V2Sha256),
            _ => Err(UnknownForm),
        }
    }
}

/// The name is of none of TensorRT-LLM's hash forms. Its release is newer than what is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a hash form of TensorRT-LLM: expected v1_block_key, v2_sha256 or v2_sha256_64")]
pub struct UnknownForm;
