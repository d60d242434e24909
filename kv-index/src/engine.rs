//! The engines' own languages: how vLLM, SGLang and TensorRT-LLM hash blocks and announce them.

mod event;
mod prompt;
mod version;

pub use event::{
    EngineBatch, EngineCreated, EngineEvent, EngineHash, EngineMoved, EngineRemoved, EngineStored, EventFault,
    ExtraKey, FieldProblem, TokenIds,
};
pub use prompt::{Adapter, Embeds, Media, Prompt};
pub use version::{Version, VersionError};
