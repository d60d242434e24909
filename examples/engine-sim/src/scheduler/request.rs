//! Requests as a scheduler takes them, and what becomes of them: admission, tokens, cache events.

use kv_index::{BlockHash, Tier};

/// Block hashes of requests: of whole blocks only, and as far as they are known.
pub trait BlockChains {
    /// The chain of a request. Blocks beyond its end are never shared.
    fn chain(&self, request: u32) -> &[BlockHash];
}

/// A request as an engine gets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a host fills in by name")]
pub struct EngineRequest {
    /// The caller's number of it, and of its chain.
    pub id: u32,
    /// Tokens of the prompt: at least one.
    pub prompt: u32,
    /// Tokens of the output: at least one.
    pub output: u32,
    /// Leading tokens of the prompt whose KV another engine computed and sent.
    pub received: u32,
    /// Whether its blocks stay in use when it is done, until [`Scheduler::release`](super::Scheduler::release).
    pub keep_blocks: bool,
    /// Whether it is of a batch that fills the gaps.
    pub background: bool,
}

/// What a step sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what a step can bring")]
pub enum Sampled {
    /// The first token.
    First(EngineRequest),
    /// The last token. Comes after the first one, be it the same.
    Done(EngineRequest),
}

/// A change of the cache, for an index.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "what a pool can do")]
pub enum BlockEvent {
    /// Blocks of a request's chain are in GPU memory, one copy each.
    Stored {
        /// Whose.
        request: u32,
        /// The first.
        from: u32,
        /// Behind the last.
        to: u32,
    },
    /// Blocks came to host memory, in no order.
    Offloaded(Vec<BlockHash>),
    /// Blocks, or copies of them, left.
    Removed(Vec<BlockHash>, Tier),
}

/// A request that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a fact, complete by nature")]
pub struct Admitted {
    /// Which.
    pub request: EngineRequest,
    /// Leading blocks of its prompt that were cached here.
    pub cached_blocks: u32,
}
