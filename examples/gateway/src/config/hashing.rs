//! Engine hashes: blocks called as the engines call them, where all pods hash alike.

use kv_index::engine::vllm::{VllmAlgorithm, VllmHashing};
use kv_index::engine::{Dialect, DialectError, Version};
use serde::{Deserialize, Deserializer, de};

/// How vLLM hashes blocks. All of it must be as the pods were started with: hashes of another kind match nothing.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EngineHashes {
    /// The pods' version of vLLM: `0.32.0`.
    #[serde(deserialize_with = "parsed")]
    pub vllm: Version,
    /// `--prefix-caching-hash-algo`.
    #[serde(deserialize_with = "parsed")]
    pub algorithm: VllmAlgorithm,
    /// `PYTHONHASHSEED`; the algorithms that need none hash without one.
    #[serde(default)]
    pub seed: Option<String>,
}

impl EngineHashes {
    /// The engines' dialect.
    ///
    /// # Errors
    ///
    /// When the version does not have the algorithm, or it cannot be computed outside of the engine.
    pub fn dialect(&self) -> Result<Dialect, DialectError> {
        let hashing = VllmHashing::new(self.vllm).algorithm(self.algorithm);
        Dialect::vllm(match &self.seed {
            Some(seed) => hashing.seed(seed.as_str()),
            None => hashing,
        })
    }
}

fn parsed<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: std::str::FromStr<Err: std::fmt::Display>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}
