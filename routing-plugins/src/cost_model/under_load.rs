//! Prefill time on a loaded pod: the prompts queued before it, and the decoding beside it.
//!
//! Engines prefill in steps of a few thousand tokens, and each step decodes too: it is longer by
//! [`per_context`](CostModel::per_context) for every token in the contexts of requests that are past their first token.

use super::{CostModel, Products, root};
use crate::load::Backlog;

impl CostModel {
    /// Seconds of a prefill of so many new tokens after so many cached ones, on a pod with this backlog.
    #[inline]
    pub(crate) fn prefill_under_load(&self, backlog: &Backlog, new: f64, cached: f64) -> f64 {
        self.prefill_seconds(new, cached) + new / self.step_tokens.get() * self.decode_share(backlog)
    }

    /// Seconds to work off all prompts that were sent to a pod and have no first token, if none of it is done yet.
    ///
    /// Without the fixed part: steps are shared.
    #[inline]
    pub(crate) fn queued_prefill(&self, backlog: &Backlog) -> f64 {
        let Backlog { queued, before, .. } = *backlog;
        self.prefill_work(queued, before) + queued / self.step_tokens.get() * self.decode_share(backlog)
    }

    /// Seconds until a pod of this pace gets to a request behind what was sent from here, if its queue is expected to take so long.
    #[inline]
    pub(crate) fn expected_wait(&self, backlog: &Backlog, pace: f64, queue: Option<f64>) -> f64 {
        sent_or_kept(pace * self.queued_prefill(backlog), queue)
    }

    /// Seconds of the decode step that a request finds under way, on average: half of one.
    pub(crate) fn step_under_way(&self, backlog: &Backlog) -> f64 {
        if backlog.sequences == 0.0 {
            return 0.0;
        }
        0.5 * (self.decode_products(backlog.sequences.into()).0 + self.decode_share(backlog))
    }

    /// A decode step of so many sequences: its seconds but for their contexts, and those by which one more makes it longer.
    #[inline]
    pub(crate) fn decode_products(&self, sequences: f64) -> (f64, f64) {
        let token = self.product_seconds();
        let tokens = token * sequences;
        let products = root(self.decode_step.get(), tokens);
        // The slope there, which grows with them: a difference of large numbers would not.
        let slope = token * (tokens / products.max(f64::MIN_POSITIVE));
        (products + self.per_sequence.get() * sequences, slope + self.per_sequence.get())
    }

    /// Seconds of a decode step's products for each sequence, were its fixed part not read meanwhile.
    #[inline]
    pub(crate) fn product_seconds(&self) -> f64 {
        match self.products {
            Products::Additive => 0.0,
            Products::Roofline => self.per_token.get(),
        }
    }

    /// Seconds to work off what others sent to a pod and waits there, if each has so many tokens to compute.
    #[inline]
    pub(crate) fn waiting_prefill(&self, backlog: &Backlog, tokens: f64) -> f64 {
        let queued = backlog.waiting * tokens;
        self.prefill_work(queued, tokens * 0.5) + queued / self.step_tokens.get() * self.decode_share(backlog)
    }

    /// Seconds by which decoding makes a step longer.
    #[inline]
    pub(crate) fn decode_share(&self, backlog: &Backlog) -> f64 {
        self.per_context.get() * backlog.decoding
    }
}

/// Seconds until a pod is done with what was sent from here, if all of that takes so long, and its queue is expected to.
#[inline]
pub(crate) fn sent_or_kept(sent: f64, queue: Option<f64>) -> f64 {
    match queue {
        // Time has worked the queue off, and still somebody waits: the pod is slower than the model.
        Some(queue) if queue <= 0.0 => 0.5 * sent,
        Some(queue) => queue.min(sent),
        None => sent,
    }
}
