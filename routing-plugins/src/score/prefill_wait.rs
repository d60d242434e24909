//! Expected wait for the prompts queued on pods: what was sent there, what time has worked off of it, and what others sent.

use kv_index::PodId;
use routing_core::Fleet;

use super::prefill_queue::QueuesAt;
use crate::cost_model::{CostModel, sent_or_kept};
use crate::load::{BacklogBlock, LANES};

/// Seconds until pods get to a request, at one instant.
#[derive(Debug)]
pub(super) struct PrefillWaits<'d, const W: usize> {
    /// Of prompts that were sent from here: seconds for each token, each pair, and each token beside each that decodes.
    per_token: f64,
    per_pair: f64,
    beside: f64,
    /// Of a request of others: its tokens' seconds, and those for each token that decodes beside it.
    other: f64,
    other_beside: f64,
    fleet: &'d Fleet<W>,
    queues: QueuesAt<'d>,
}

impl<'d, const W: usize> PrefillWaits<'d, W> {
    /// By a model, where a request of others has so many tokens to compute.
    pub(super) fn new(model: &CostModel, waiting_tokens: f64, fleet: &'d Fleet<W>, queues: QueuesAt<'d>) -> Self {
        let (per_token, per_pair) = (model.per_token.get(), model.per_pair.get());
        let beside = model.per_context.get() / model.step_tokens.get();
        Self {
            per_token,
            per_pair,
            beside,
            other: waiting_tokens * (per_token + per_pair * (waiting_tokens * 0.5)),
            other_beside: waiting_tokens * beside,
            fleet,
            queues,
        }
    }

    /// Seconds until a pod of a block gets to a request, by its pace.
    #[inline]
    pub(super) fn of(&self, backlog: &BacklogBlock, (row, lane): (usize, usize), pace: f64) -> f64 {
        let (queue, decoding) = (backlog.queue(lane), backlog.decoding[lane]);
        let each = self.per_token + self.per_pair * queue.before + self.beside * decoding;
        let sent = pace * (queue.queued * each);
        let others = pace * (queue.elsewhere * (self.other + self.other_beside * decoding));
        let pod = self.fleet.handle(PodId::new((row * LANES + lane) as u16));
        others + sent_or_kept(sent, pod.and_then(|pod| self.queues.of(pod)))
    }
}
