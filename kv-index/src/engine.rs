//! The engines' own languages: how vLLM, SGLang and TensorRT-LLM hash blocks and announce them.

mod changes;
mod drops;
mod event;
mod groups;
mod medium;
mod native;
mod pages;
mod prompt;
mod translate;
mod version;

pub use drops::{DropReason, Dropped, Drops};
pub use event::{
    EngineBatch, EngineCreated, EngineEvent, EngineHash, EngineMoved, EngineRemoved, EngineStored, EventFault,
    ExtraKey, FieldProblem, TokenIds,
};
pub use native::{native_chain, native_seed};
pub use prompt::{Adapter, Embeds, Media, Prompt};
pub use translate::Mode;
pub use version::{Version, VersionError};
