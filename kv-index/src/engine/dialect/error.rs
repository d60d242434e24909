//! Dialect errors: settings under which an engine's hashes cannot be computed elsewhere, and the fix.

use crate::engine::engine_kind::EngineKind;
use crate::engine::version::Version;

/// Why an engine, as it is set up, hashes in a way that nobody else can compute.
///
/// An operator can act on each: by the engine's settings, by upgrading it, or by *token mode*, in which the events'
/// token ids are hashed natively and the engine's own hashes only name blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DialectError {
    /// Chains start from a seed that each process draws for itself.
    #[error(
        "vLLM {version} starts {algorithm} chains from a random seed while PYTHONHASHSEED is unset: \
         set PYTHONHASHSEED on every engine, or use token mode"
    )]
    RandomSeed {
        /// The engine's release.
        version: Version,
        /// The algorithm, by vLLM's name for it.
        algorithm: &'static str,
    },
    /// Blocks are hashed by Python's own `hash()`, which differs from process to process.
    #[error("{engine} {version} hashes by Python's own hash(): upgrade to {since} or newer, or use token mode")]
    PythonHash {
        /// The engine.
        engine: EngineKind,
        /// Its release.
        version: Version,
        /// The first release that does not.
        since: Version,
    },
    /// The release has no such algorithm.
    #[error("vLLM {version} has no {algorithm}, which came with {since}: read --prefix-caching-hash-algo again")]
    NoSuchAlgorithm {
        /// The engine's release.
        version: Version,
        /// The algorithm, by vLLM's name for it.
        algorithm: &'static str,
        /// The first release that has it.
        since: Version,
    },
    /// The release has no such event format.
    #[error("SGLang {version} has no event format \"dynamo\", which came with {since}: use the default format")]
    NoSuchFormat {
        /// The engine's release.
        version: Version,
        /// The first release that has it.
        since: Version,
    },
    /// The release is newer than what was established, and hashes have changed between releases before.
    #[error(
        "{engine} {version} is newer than {newest}, the newest whose hashes are established: \
         name {newest} only if they are known not to have changed since, or use token mode"
    )]
    TooNew {
        /// The engine.
        engine: EngineKind,
        /// The release it says it is.
        version: Version,
        /// The newest release, or the first of the newest series, that is established.
        newest: Version,
    },
    /// Adapters are hashed with an id that is drawn each time one is loaded.
    #[error(
        "SGLang {version} hashes adapters with a UUID drawn at each load: \
         use token mode, with the adapter's name from the events"
    )]
    AdapterUuid {
        /// The engine's release.
        version: Version,
    },
    /// All adapters announce the same hashes, so that one's cache would be taken for another's.
    #[error(
        "SGLang {version} announces the same hashes for all adapters: upgrade to {since} or newer and use token mode"
    )]
    AdaptersAlike {
        /// The engine's release.
        version: Version,
        /// The first release that tells them apart.
        since: Version,
    },
}
