//! Prefill time on a loaded pod: the prompts queued before it, and the decoding beside it.
//!
//! Engines prefill in steps of a few thousand tokens, and each step decodes too: it is longer by
//! [`per_context`](CostModel::per_context) for every token in the contexts of requests that are past their first token.

use super::CostModel;
use crate::load::PodLoad;

impl CostModel {
    /// Seconds of a prefill of so many new tokens after so many cached ones, on a pod with this load.
    #[inline]
    pub(crate) fn prefill_under_load(&self, load: &PodLoad, new: f64, cached: f64) -> f64 {
        self.prefill_seconds(new, cached) + new / self.step_tokens.get() * self.decode_share(load)
    }

    /// Seconds to work off all prompts that were sent to a pod and have no first token, if none of it is done yet.
    ///
    /// Without the fixed part: steps are shared. How far into their prompts the new tokens are is estimated by averages:
    /// each of the requests has as many of them as another, and a prompt as long as that of any request in flight.
    #[inline]
    pub(crate) fn queued_prefill(&self, load: &PodLoad) -> f64 {
        let queued = load.in_flight.uncached_tokens as f64;
        if queued <= 0.0 {
            return 0.0;
        }
        let each = queued / f64::from(load.in_flight.prefilling.max(1));
        let prompt = load.in_flight.prompt_tokens as f64 / f64::from(load.in_flight.requests.max(1));
        let before = (prompt - each * 0.5).max(each * 0.5);
        self.prefill_work(queued, before) + queued / self.step_tokens.get() * self.decode_share(load)
    }

    /// Seconds by which decoding makes a step longer: what decodes is a share of all tokens, by the count of requests.
    #[inline]
    pub(crate) fn decode_share(&self, load: &PodLoad) -> f64 {
        match load.requests.checked_sub(load.in_flight.prefilling) {
            None | Some(0) => 0.0,
            Some(decoding) => {
                self.per_context.get() * (load.tokens as f64 * (f64::from(decoding) / f64::from(load.requests)))
            }
        }
    }
}
