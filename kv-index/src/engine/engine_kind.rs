//! Engines by name.

use super::named::named;

named! {
    /// An engine whose hashes and events are known here.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[non_exhaustive]
    pub enum EngineKind {
        /// vLLM, version 1 of its core.
        Vllm => "vLLM",
        /// SGLang.
        Sglang => "SGLang",
        /// TensorRT-LLM.
        Trtllm => "TensorRT-LLM",
    }
}
