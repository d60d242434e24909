//! Configuration of a modelled engine: memory, scheduling limits, speed.

/// Memory, limits and speed of an engine.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct EngineConfig {
    /// Tokens in a block.
    pub block_tokens: usize,
    /// Blocks of GPU memory.
    pub blocks: usize,
    /// Blocks of host memory; 0 for none.
    pub host_blocks: usize,
    /// µs to fetch the KV of a token from host memory.
    pub host_us_per_token: f64,
    /// Most tokens of one step, vLLM's `max_num_batched_tokens`.
    pub step_tokens: usize,
    /// Most requests that run at once, vLLM's `max_num_seqs`.
    pub max_running: usize,
    /// How many times faster than the cost model it is.
    pub speed: f64,
    /// How many times faster than that its decoding is: another kind of device reads memory faster and computes slower.
    pub decode_speed: f64,
    /// Whether background requests wait for all others, as under vLLM's `--scheduling-policy priority`. What runs is not
    /// preempted for them, but first where memory runs out.
    pub priority_scheduling: bool,
    /// When a block is reported as removed.
    pub removed_events: RemovedEvents,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            block_tokens: 512,
            blocks: 1953,
            host_blocks: 0,
            // 128 KiB of a Llama-8B over PCIe 5.0 at 50 GB/s.
            host_us_per_token: 2.6,
            step_tokens: 8192,
            max_running: 256,
            speed: 1.0,
            decode_speed: 1.0,
            priority_scheduling: false,
            removed_events: RemovedEvents::LastCopy,
        }
    }
}

/// When a block is reported as removed from GPU memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the two ways of engines")]
pub enum RemovedEvents {
    /// With every copy, as vLLM does.
    EveryCopy,
    /// With the last copy.
    LastCopy,
}
