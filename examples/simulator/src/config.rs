//! Simulation parameters: fleet, event delay and loss, KV transfer costs.

use pointsman_engine_sim::scheduler::EngineConfig;
use routing_core::Role;
use routing_plugins::CostModel;

/// The parameters of a simulation.
#[derive(Clone, Debug)]
pub(crate) struct SimConfig {
    /// The pods, and what each one does.
    pub(crate) pods: Vec<(EngineConfig, Role)>,
    /// How long steps take.
    pub(crate) costs: CostModel,
    /// µs until an event of a pod's cache reaches the index.
    pub(crate) event_delay_us: u64,
    /// Share of events that never do.
    pub(crate) event_loss: f64,
    /// µs between two reports of a pod's own figures.
    pub(crate) report_every_us: u64,
    /// µs to move the KV of a token from a prefill pod to a decode pod.
    pub(crate) transfer_us_per_token: f64,
    /// µs that such a move takes at least.
    pub(crate) transfer_us: u64,
    /// Seed of the pseudorandom generators.
    pub(crate) seed: u64,
}

impl SimConfig {
    /// So many pods alike that prefill and decode, each with room for so many tokens in blocks of this size.
    pub(crate) fn mixed(pods: usize, tokens: usize, block: usize) -> Self {
        let engine = EngineConfig { block_tokens: block, blocks: tokens / block, ..EngineConfig::default() };
        Self {
            pods: vec![(engine, Role::Both); pods],
            costs: CostModel::default(),
            event_delay_us: 1_000,
            event_loss: 0.0,
            report_every_us: 1_000_000,
            // 128 KiB of a Llama-8B over 400 Gb/s.
            transfer_us_per_token: 2.6,
            transfer_us: 2_000,
            seed: 1,
        }
    }

    /// The same with the first so many pods prefilling only, and the others decoding.
    pub(crate) fn disaggregated(mut self, prefill: usize) -> Self {
        for (at, (_, role)) in self.pods.iter_mut().enumerate() {
            *role = if at < prefill { Role::Prefill } else { Role::Decode };
        }
        self
    }
}
