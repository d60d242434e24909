//! SGLang's hash dialect: which settings make its block hashes computable.
//!
//! A page's hash is the SHA-256 of the page before it and the page's token ids; its events carry the first 64 bits,
//! signed. A cache salt gives the chain a root; without one the first page is hashed alone.
//!
//! # Setting up the engines
//!
//! ```text
//! python -m sglang.launch_server --model-path MODEL --page-size 16 \
//!   --kv-events-config '{"publisher": "zmq", "topic": "", "endpoint": "tcp://*:5557",
//!     "replay_endpoint": "tcp://*:5657", "buffer_steps": 10000}'
//! ```
//!
//! - The publisher is `"null"` unless it is set. Data-parallel rank *r* adds *r* to both ports.
//! - The block size to hash by is `kv_events.block_size` of `/server_info`: the page size, times the ranks of
//!   decode-context parallelism.
//! - Under EAGLE a page holds pairs, each token with the next: say so by [`SglangHashing::eagle`].
//!
//! # Feeding the index
//!
//! One [`EngineFeed`](super::EngineFeed) for each data-parallel rank, which is a pod of its own. A SUB socket's messages go
//! to `receive`, a DEALER socket's replies to `receive_replay`. Ask for a replay when connecting and whenever the feed says so;
//! without a replay socket set `replay` to false, and every gap costs the pod's state.
//!
//! # Which dialect
//!
//! [`Dialect::sglang`](super::Dialect::sglang) with the release, and the event format if it is set to `dynamo`. Media
//! are hashed as token ids: put the ids that SGLang pads placeholders with, `1_000_000 + hash % 2^30`, into the tokens.
//!
//! # What cannot work
//!
//! - Releases before 0.5.6: Python's `hash()`. Salts before 0.5.18: not established.
//! - Adapters. From 0.5.23 on, and in 0.5.22's dynamo format, their `extra_key` ends with a UUID that is drawn at each
//!   load: use token mode with the events' `lora_name`. Before, all adapters announce the same hashes, and token mode
//!   cannot tell them apart either: a name that comes for another adapter is left out and counted
//!   ([`NameClash`](super::DropReason::NameClash)). A host that knows the key itself can give it by [`Prompt::extra_key`](super::Prompt::extra_key), with [`Prompt::adapter`](super::Prompt::adapter) if a LoRA
//!   name is registered for it.
//! - Token ids beyond 32 bits before 0.5.23.
//!
//! All of it was checked against what SGLang itself computes, for the release of August 2026 (0.5.18) and for 0.5.23
//! (`tests/vectors.rs`); that releases between are the same was read.

mod recompute;
mod rules;

use crate::engine::version::Version;

pub(super) use rules::SglangRules;

/// How SGLang engines are set up, as far as their hashes depend on it.
///
/// # Examples
///
/// ```
/// use kv_index::engine::sglang::SglangHashing;
/// use kv_index::engine::{Dialect, Version};
///
/// let dialect = Dialect::sglang(SglangHashing::new(Version::new(0, 5, 18)).eagle()).unwrap();
/// assert_eq!(dialect.to_string(), "SGLang 0.5.18, default format, pairs of tokens");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SglangHashing {
    /// The engines' release.
    pub version: Version,
    /// The event format of `--kv-events-config`.
    pub format: SglangFormat,
    /// Whether they speculate with EAGLE.
    pub eagle: bool,
    /// Whether they serve LoRA adapters that the host knows by name only.
    pub adapters: bool,
}

impl SglangHashing {
    /// SGLang's defaults: the default format, no EAGLE, no adapters.
    #[must_use]
    pub const fn new(version: Version) -> Self {
        Self { version, format: SglangFormat::Default, eagle: false, adapters: false }
    }

    /// The same with this event format.
    #[must_use]
    pub const fn format(self, format: SglangFormat) -> Self {
        Self { format, ..self }
    }

    /// The same with EAGLE.
    #[must_use]
    pub const fn eagle(self) -> Self {
        Self { eagle: true, ..self }
    }

    /// The same with adapters that the host knows by name only. No release's hashes can then be computed.
    #[must_use]
    pub const fn adapters(self) -> Self {
        Self { adapters: true, ..self }
    }
}

/// The event format that SGLang's `--kv-events-config` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SglangFormat {
    /// What it has without being told.
    Default,
    /// `dynamo`: hashes are also folded with the request's key and salt. From 0.5.22 on.
    Dynamo,
}
