//! How long a prefill takes on a pod that decodes beside it.

use super::prefill_curve::PrefillCurve;
use crate::load::PodLoad;
use crate::parameters::{Amount, Positive};

/// How fast pods prefill, and how much decoding slows them.
///
/// Engines prefill in steps of a few thousand tokens, and each step decodes too: it is longer by
/// [`decode`](Self::decode) for every token in the contexts of requests that are past their first token.
///
/// The default of `decode` is from the same measurement as the curve: 9 decode steps of 1 to 128 sequences with 1,024 to
/// 8,192 tokens each, by least squares of the relative error, 6% off on average.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct PrefillPace {
    /// How long prefills take; measured, unless given.
    pub prefill: PrefillCurve,
    /// Seconds by which a step is longer for each token of context that it decodes beside the prefill; 3.3e-7, unless given.
    /// With 0, decoding costs nothing.
    pub decode: Amount,
    /// Tokens that an engine prefills in one step; 8,192, unless given.
    pub step_tokens: Positive,
}

impl Default for PrefillPace {
    fn default() -> Self {
        Self {
            prefill: PrefillCurve::default(),
            decode: const { Amount::constant(3.3e-7) },
            step_tokens: const { Positive::new(8_192.0).expect("above 0") },
        }
    }
}

impl PrefillPace {
    /// Seconds of a prefill of so many new tokens after so many held ones, on a pod with this load.
    #[inline]
    pub(crate) fn own(&self, load: &PodLoad, new: f64, held: f64) -> f64 {
        self.prefill.seconds(new, held) + new / self.step_tokens.get() * self.beside(load)
    }

    /// Seconds to work off all prompts that were sent to a pod and have no first token, if none of it is done yet.
    ///
    /// Without the curve's fixed part: steps are shared. How far into their prompts the new tokens are is told by averages:
    /// each of the requests has as many of them as another, and a prompt as long as that of any request in flight.
    #[inline]
    pub(crate) fn queued(&self, load: &PodLoad) -> f64 {
        let queued = load.in_flight.uncached_tokens as f64;
        if queued <= 0.0 {
            return 0.0;
        }
        let each = queued / f64::from(load.in_flight.prefilling.max(1));
        let prompt = load.in_flight.prompt_tokens as f64 / f64::from(load.in_flight.requests.max(1));
        let before = (prompt - each * 0.5).max(each * 0.5);
        self.prefill.work(queued, before) + queued / self.step_tokens.get() * self.beside(load)
    }

    /// Seconds by which decoding makes a step longer: what decodes is a share of all tokens, by the count of requests.
    #[inline]
    pub(crate) fn beside(&self, load: &PodLoad) -> f64 {
        match load.requests.checked_sub(load.in_flight.prefilling) {
            None | Some(0) => 0.0,
            Some(decoding) => {
                self.decode.get() * (load.tokens as f64 * (f64::from(decoding) / f64::from(load.requests)))
            }
        }
    }
}
