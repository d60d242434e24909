//! Prefill time on a loaded pod: the prompts queued before it, and the decoding beside it.
//!
//! Engines prefill in steps of a few thousand tokens, and each step decodes too: it is longer by
//! [`per_context`](CostModel::per_context) for every token in the contexts of requests that are past their first token.

use super::{CostModel, Products, StepWork, root};
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

    /// Seconds until a pod gets to a request behind what was sent from here, if its queue is expected to take so long.
    #[inline]
    pub(crate) fn expected_wait(&self, backlog: &Backlog, queue: Option<f64>) -> f64 {
        let sent = self.queued_prefill(backlog);
        match queue {
            // Time has worked the queue off, and still somebody waits: the pod is slower than the model.
            Some(queue) if queue <= 0.0 => 0.5 * sent,
            Some(queue) => queue.min(sent),
            None => sent,
        }
    }

    /// Seconds of a decode step of so many sequences with so many tokens of context together.
    pub(crate) fn decode_seconds(&self, sequences: f64, context: f64) -> f64 {
        self.seconds(&StepWork { sequences, context, ..StepWork::default() })
    }

    /// Seconds by which one more sequence, with so many tokens of context, makes a decode step of so many longer.
    pub(crate) fn sequence_seconds(&self, sequences: f64, context: f64) -> f64 {
        let products = match self.products {
            Products::Additive => 0.0,
            // The slope there, which grows with them: a difference of large numbers would not.
            Products::Roofline => {
                let (token, products) = (self.per_token.get(), self.per_token.get() * (sequences + 1.0));
                token * (products / root(self.decode_step.get(), products).max(f64::MIN_POSITIVE))
            }
        };
        products + self.per_sequence.get() + self.per_context.get() * context
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
