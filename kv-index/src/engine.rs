//! The engines' own languages: how vLLM, SGLang and TensorRT-LLM hash blocks and announce them.

mod block_digest;
mod changes;
mod decode;
mod dialect;
mod drops;
mod event;
mod frames;
mod groups;
mod hash_error;
mod hasher;
#[cfg(feature = "trtllm")]
mod json;
#[cfg(any(test, fuzzing))]
pub mod laws;
mod medium;
mod msgpack;
mod name;
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
mod version;
#[cfg(feature = "vllm")]
pub mod vllm;

pub use block_digest::BlockDigest;
pub use decode::{DecodeError, DecodeProblem, decode_batch};
pub use dialect::{Dialect, DialectError};
pub use drops::{DropReason, Dropped, Drops};
pub use event::{
    EngineBatch, EngineCreated, EngineEvent, EngineHash, EngineMoved, EngineRemoved, EngineStored, EventFault,
    ExtraKey, FieldProblem, TokenIds,
};
pub use frames::{FrameError, Message, ReplayForm, ReplayReply, parse_replay_request, replay_request};
pub use hash_error::{HashError, Ingredient};
pub use hasher::{ChainBuffer, DialectChain, DialectHasher, Serialized};
#[cfg(feature = "trtllm")]
pub use json::{JsonError, JsonProblem, TrtllmEvent, TrtllmEvents, TrtllmFault, decode_trtllm};
pub use name::Engine;
pub use native::{native_chain, native_seed};
pub use prompt::{Adapter, Embeds, Media, Prompt};
pub use recompute::CannotTell;
pub use translate::Mode;
pub use version::{Version, VersionError};
