//! Engine adapters: KV-cache events and block hashing of vLLM, SGLang and TensorRT-LLM.
//!
//! If the router and an engine disagree on one byte of a hash, every lookup misses and nothing says so. This module
//! hashes as the engines do, byte for byte, and verifies that they do. Sans-IO: no sockets, no clock.
//!
//! # From a socket to the index
//!
//! An [`EngineFeed`] takes the frames that an engine's publisher sent: [`decode_batch`] reads the payload of every listed
//! release; the batch is sequenced, so that duplicates count once, gaps are replayed and restarts are detected; what
//! does not concern prefixes is dropped and counted by [`DropReason`]; what remains is applied to the index.
//!
//! A [`Follower`] goes with a publisher through lost messages, replays, restarts and broken connections: it is told what happens
//! on the sockets, and says what to do. `pointsman::zmq` has the sockets.
//!
//! # Hash modes
//!
//! - **Token mode**, the default ([`EngineFeedConfig::tokens`]): blocks are filed under our own hash of the tokens
//!   that events carry. Works whatever the engine hashes, random seeds included. Requests are hashed by a
//!   [`ChainHasher`](crate::ChainHasher) with [`native_seed`], or by [`native_chain`] if they have media. Costs a map
//!   of the engine's names for each pod.
//! - **Engine hashes** ([`EngineFeedConfig::engine_hashes`]): blocks keep the names their engine gives them, and requests are
//!   hashed in the engine's [`Dialect`]. Works without tokens in events, where the dialect can be computed.
//!
//! Sampled verification against a dialect ([`VerifyConfig`]) works in either mode.
//!
//! The feature `engine` has events and token mode; the features `vllm`, `sglang` and `trtllm` add each engine's dialect, in
//! a module that documents how to set up that engine and what cannot work.
//!
//! # Example
//!
//! ```
//! use kv_index::engine::{EngineFeed, EngineFeedConfig, native_seed};
//! use kv_index::{BlockSize, ChainHasher, ChainSeed, Config, Index, Matches};
//!
//! let index: Index = Index::new(Config::default());
//! let pod = index.join("pod-a")?;
//! let (model, size) = (ChainSeed::new("llama-8b"), BlockSize::new(2).unwrap());
//! let feed = EngineFeed::new(&index, pod, EngineFeedConfig::tokens(model, size))?;
//!
//! // What vLLM 0.10.2 publishes for two blocks of two tokens, the root of a prompt.
//! let payload = b"\x93\xcb\x41\xda\x2a\x3a\x18\x08\x00\x00\x91\x97\xabBlockStored\x92\x0b\x16\xc0\x94\x01\x02\x03\x04\x02\xc0\xa3GPU\x00";
//! feed.receive(&[&b"kv-events"[..], &0_u64.to_be_bytes(), payload])?;
//!
//! let hasher = ChainHasher::new(native_seed(model, None, None), size);
//! let mut matches = Matches::default();
//! index.search(&hasher.hash(&[1, 2, 3, 4, 5, 6]), &mut matches);
//! assert_eq!(matches.depth(pod.id()), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(
    not(all(feature = "vllm", feature = "sglang", feature = "trtllm")),
    allow(dead_code, reason = "each engine's hashing uses its part; with all of them everything is used")
)]

mod block_digest;
mod changes;
mod decode;
mod dialect;
mod drop_reason;
mod engine_kind;
mod event;
mod feed;
mod follower;
mod frames;
mod groups;
mod hash_error;
mod hasher;
mod incarnations;
#[cfg(feature = "trtllm")]
mod json;
#[cfg(any(test, fuzzing))]
pub mod laws;
mod medium;
mod mismatch_cause;
mod msgpack;
mod named;
mod native;
mod pages;
mod prompt;
mod recompute;
mod rules;
#[cfg(feature = "sglang")]
pub mod sglang;
mod translate;
#[cfg(feature = "trtllm")]
pub mod trtllm;
mod verify;
mod version;
#[cfg(feature = "vllm")]
pub mod vllm;

pub use block_digest::BlockDigest;
pub use decode::{DecodeError, DecodeProblem, decode_batch};
pub use dialect::{Dialect, DialectError};
pub use drop_reason::{DropCount, DropCounts, DropReason};
pub use engine_kind::EngineKind;
pub use event::{
    EngineBatch, EngineCreated, EngineEvent, EngineHash, EngineMoved, EngineRemoved, EngineStored, EventFault,
    ExtraKey, FieldProblem, TokenIds,
};
pub use feed::{EngineFeed, EngineFeedConfig, ReceiveError, Received, Replayed};
pub use follower::{Disconnect, Follower, FollowerAction, FollowerConfig, FollowerState, FollowerStatus};
pub use frames::{FrameError, Message, ReplayForm, ReplayReply, parse_replay_request, replay_request};
pub use hash_error::{HashError, PromptFeature};
pub use hasher::{ChainBuffer, DialectChain, DialectHasher, HashPreimages};
#[cfg(feature = "trtllm")]
pub use json::{JsonError, JsonProblem, TrtllmEvent, TrtllmEvents, TrtllmFault, decode_trtllm};
pub use mismatch_cause::MismatchCause;
pub use native::{native_chain, native_seed};
pub use prompt::{Adapter, Embeds, Media, Prompt, TokenId};
pub use translate::HashMode;
pub use verify::{HashMismatch, VerifyConfig, VerifyStats};
pub use version::{Version, VersionError};
