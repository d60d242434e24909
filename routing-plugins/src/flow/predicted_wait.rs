//! Predicted wait: which pods would begin a request soon, by the cost model and the learned pace of each.

use std::sync::Arc;
use std::time::Instant;

use kv_index::{DEFAULT_POD_WORDS, Pod};
use routing_core::Fleet;
use routing_core::flow::SaturationDetector;

use super::PodsLoad;
use crate::PluginState;
use crate::cost_model::CostModel;
use crate::pace::PodPaces;
use crate::parameters::{Amount, Positive, parameters};
use crate::score::PrefillQueues;

parameters! {
    /// What [`PredictedWaitDetector`] goes by.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct PredictedWaitParameters {
        /// Seconds within which a pod begins a request if it has room; 0.25, unless given.
        pub within: Positive = const { Positive::constant(0.25) },
        /// Seconds that a decode step may take with one more request in it; no limit, unless given.
        pub step: Option<Positive> = None,
        /// How long steps take, at pace 1.
        pub cost_model: CostModel = CostModel::FUSED,
        /// Tokens that have to be computed of a request that was not sent from here and waits, as its engine reports; 1,024,
        /// unless given.
        pub waiting_tokens: Amount = const { Amount::constant(1024.0) },
        /// Whether each pod's [pace](PodPaces) counts, as it is learned; it does, unless told not to.
        pub learns: bool = true,
    }
}

/// A pod has room while it would begin a request within a time, and, where that is asked for, while a decode step stays short.
///
/// What stands before a request is the prefill of what was sent and has no first token, as far as it is not computed yet by the profile's
/// own [queue estimate](PrefillQueues), and what the engine says waits of others.
#[derive(Debug)]
pub struct PredictedWaitDetector<const W: usize = DEFAULT_POD_WORDS> {
    parameters: PredictedWaitParameters,
    load: PodsLoad<W>,
    queues: Arc<PrefillQueues<W>>,
    paces: Arc<PodPaces<W>>,
}

impl<const W: usize> PredictedWaitDetector<W> {
    /// A detector that goes by what plugins share.
    #[must_use]
    pub fn new(parameters: PredictedWaitParameters, state: &PluginState<W>) -> Self {
        let PluginState { prefill_queues, paces, .. } = state;
        Self { parameters, load: PodsLoad::of(state), queues: Arc::clone(prefill_queues), paces: Arc::clone(paces) }
    }
}

impl<const W: usize> SaturationDetector<W> for PredictedWaitDetector<W> {
    fn has_room(&self, fleet: &Fleet<W>, pod: Pod, ceiling: f32, now: Instant) -> bool {
        let PredictedWaitParameters { within, step, cost_model, waiting_tokens, learns } = self.parameters;
        let load = self.load.get(fleet, pod, now);
        if load.requests == 0 {
            return true;
        }
        let backlog = load.backlog();
        let (pace, decoding) =
            if learns { (self.paces.of(pod.id()), self.paces.decoding(pod.id())) } else { (1.0, 1.0) };
        let others = pace * cost_model.waiting_prefill(&backlog, waiting_tokens.get());
        let wait = others + cost_model.expected_wait(&backlog, pace, self.queues.of(pod, now));
        let one_more = f64::from(backlog.sequences + backlog.prefilling) + backlog.waiting + 1.0;
        let longest = |step: Positive| step.get() * f64::from(ceiling);
        let next = || decoding * (cost_model.decode_products(one_more).0 + cost_model.decode_share(&backlog));
        wait < within.get() * f64::from(ceiling) && step.is_none_or(|step| next() < longest(step))
    }
}
