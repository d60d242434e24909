//! Hash errors: why a prompt cannot be hashed as its engine would.

use crate::engine::engine_kind::EngineKind;
use crate::engine::named::named;
use crate::engine::version::Version;

/// Why a prompt cannot be hashed as its engine would. Its requests are routed by token mode, or by load alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HashError {
    /// This release hashes it in a way that was not established. An operator can upgrade the engine.
    #[error(
        "how {engine} {version} hashes {what} is not established, only from {since} on: use token mode, or upgrade"
    )]
    NotEstablished {
        /// The engine.
        engine: EngineKind,
        /// Its release.
        version: Version,
        /// What the prompt has.
        what: PromptFeature,
        /// The first release for which it is established.
        since: Version,
    },
    /// No release of this engine hashes it in a way that we can compute from what a prompt says.
    #[error("{engine} does not hash {what} in a form that can be computed here: use token mode")]
    NotComputable {
        /// The engine.
        engine: EngineKind,
        /// What the prompt has.
        what: PromptFeature,
    },
    /// The engine hashes the adapter's path, and the host gave only its name.
    #[error(
        "vLLM {version} hashes an adapter's path, and the prompt's adapter has none: give the path it is loaded from"
    )]
    AdapterPath {
        /// The engine's release.
        version: Version,
    },
    /// SGLang hashes the request's `extra_key`, which a name does not tell.
    #[error("SGLang tells adapters apart by `extra_key`, and the prompt has an adapter but no key: use token mode")]
    AdapterKey,
    /// TensorRT-LLM hashes the adapter's number, and the host gave only its name.
    #[error("TensorRT-LLM hashes an adapter's number, and the prompt's adapter has none: give its task id")]
    AdapterId,
    /// TensorRT-LLM's builds make different numbers of a salt, and the dialect does not say which.
    #[error("TensorRT-LLM's builds hash salts differently: say in the dialect how this one does, or use token mode")]
    SaltForm,
    /// A token id that the engine would not take. The prompt is not of this engine's tokenizer.
    #[error("token id {id} at position {position} is not within 0..={most}, which is what {engine} hashes")]
    Token {
        /// The engine.
        engine: EngineKind,
        /// The id.
        id: i128,
        /// Where in the prompt, from 0.
        position: usize,
        /// The greatest id that this engine and release hashes.
        most: u64,
    },
    /// A parent's digest that is not of this dialect.
    #[error("a parent's digest of {got} bytes was given where {expected} are needed")]
    ParentLength {
        /// Bytes given.
        got: usize,
        /// Bytes of this dialect's digests.
        expected: usize,
    },
}

named! {
    /// A feature of a prompt besides tokens.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum PromptFeature {
        /// A LoRA adapter.
        Adapter => "adapters",
        /// Images, audio and the like.
        Media => "media items",
        /// A cache salt.
        Salt => "cache salts",
        /// Embeddings given instead of tokens.
        Embeds => "prompt embeddings",
    }
}
