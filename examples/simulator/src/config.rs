//! Simulation parameters: fleet, event delay and loss, KV transfer costs.

use pointsman_engine_sim::scheduler::EngineConfig;
use routing_core::Role;
use routing_plugins::CostModel;
use routing_plugins::flow::FlowDocument;

use crate::flow_control::Classes;

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
    /// µs after which the oldest pod is replaced by a cold one; never if none.
    pub(crate) churn_us: Option<u64>,
    /// Gateways that share the traffic, each with what it sent itself and what engines tell.
    pub(crate) gateways: usize,
    /// µs between two summaries of what a gateway has in flight, which it tells the others; its decisions it tells at once. They are
    /// told nothing if none.
    pub(crate) share_every_us: Option<u64>,
    /// What makes an answer good.
    pub(crate) slo: Slo,
    /// Who requests are of.
    pub(crate) classes: Classes,
    /// What has requests wait before they are routed; nothing if none.
    pub(crate) flow: Option<FlowDocument>,
    /// Whether routers are told when each program will be back.
    pub(crate) foresight: bool,
    /// Seed of the pseudorandom generators.
    pub(crate) seed: u64,
}

/// A service-level objective: what a user would call fast enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slo {
    /// µs to the first token; twice the prefill of the same prompt on a cold, idle pod, where that is more.
    pub(crate) ttft_us: u64,
    /// µs for each token after it.
    pub(crate) per_token_us: u64,
}

impl Slo {
    /// Whether an answer is good: its time to the first token, that of its prompt on a cold, idle pod, and µs for each token after.
    pub(crate) fn is_met(self, ttft: u64, cold: u64, per_token: Option<u64>) -> bool {
        ttft <= self.ttft_us.max(2 * cold) && per_token.is_none_or(|us| us <= self.per_token_us)
    }
}

impl SimConfig {
    /// So many pods alike that prefill and decode, each with room for so many tokens in blocks of this size.
    pub(crate) fn mixed(pods: usize, tokens: usize, block: usize) -> Self {
        let engine = EngineConfig { block_tokens: block, blocks: tokens / block, ..EngineConfig::default() };
        Self {
            pods: vec![(engine, Role::Both); pods],
            costs: CostModel::FUSED,
            event_delay_us: 1_000,
            event_loss: 0.0,
            report_every_us: 1_000_000,
            // 128 KiB of a Llama-8B over 400 Gb/s.
            transfer_us_per_token: 2.6,
            transfer_us: 2_000,
            churn_us: None,
            gateways: 1,
            share_every_us: None,
            slo: Slo { ttft_us: 1_000_000, per_token_us: 50_000 },
            classes: Classes::default(),
            flow: None,
            foresight: false,
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
