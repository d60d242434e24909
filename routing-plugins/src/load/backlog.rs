//! Prefill backlog: what stands before a new prompt's first token on a pod, in tokens.
//!
//! It is worked out where a load changes, so that a decision reads a few numbers of a pod, and divides nothing.

use super::{InFlight, PodLoad};

/// What a pod computes before, and beside, a prompt that is sent to it now.
///
/// Tokens, whatever a pod takes for them: a [`CostModel`](crate::CostModel) makes seconds of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "figures of a load, side by side for many pods")]
pub struct Backlog {
    /// Tokens in the contexts of requests that decode: a share of all tokens on the pod, by the count of requests.
    pub decoding: f64,
    /// Tokens that have to be computed of prompts in flight from here that have no first token; 0 if all have one.
    pub queued: f64,
    /// Tokens before one of those, in its prompt, on average: each of the requests is taken to have as many of them as
    /// another, and a prompt as long as that of any request in flight. 0 if nothing is queued.
    pub before: f64,
    /// Requests that wait for their first token and were not sent from here, as the pod's engine reported.
    pub waiting: f64,
    /// Requests that decode.
    pub sequences: f32,
    /// Requests in flight from here that have no first token.
    pub prefilling: f32,
}

impl Backlog {
    /// Of what is in flight from here, all requests and their tokens, and how many of others' wait.
    #[inline]
    pub(super) fn of(own: &InFlight, requests: u32, tokens: u64, waiting: u32) -> Self {
        let (idle, waiting) = (own.prefilling.saturating_add(waiting), f64::from(waiting));
        let sequences = requests.saturating_sub(idle);
        let decoding = match sequences {
            0 => 0.0,
            // All of them: what follows would be the same.
            all if all == requests => tokens as f64,
            some => tokens as f64 * (f64::from(some) / f64::from(requests)),
        };
        let (sequences, prefilling) = (sequences as f32, own.prefilling as f32);
        let idle = Self { decoding, waiting, sequences, prefilling, ..Self::default() };
        if own.prefilling == 0 || own.uncached_tokens == 0 {
            return idle;
        }
        let queued = own.uncached_tokens as f64;
        let each = queued / f64::from(own.prefilling);
        let prompt = own.prompt_tokens as f64 / f64::from(own.requests.max(1));
        Self { queued, before: (prompt - each * 0.5).max(each * 0.5), ..idle }
    }
}

impl PodLoad {
    /// What stands before a new prompt's first token.
    #[must_use]
    #[inline]
    pub fn backlog(&self) -> Backlog {
        Backlog::of(&self.in_flight, self.requests, self.tokens, self.waiting_elsewhere)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(requests: u32, tokens: u64, own: InFlight) -> PodLoad {
        PodLoad { requests, tokens, in_flight: own, ..PodLoad::default() }
    }

    #[test]
    fn what_decodes_is_a_share_of_all_tokens() {
        let own = |prefilling| InFlight { requests: 4, prefilling, ..InFlight::default() };
        let decoding = |prefilling| load(4, 1_000, own(prefilling)).backlog().decoding;
        assert_eq!([0, 1, 3, 4, 5].map(decoding), [1_000.0, 750.0, 250.0, 0.0, 0.0]);
        assert_eq!(PodLoad::default().backlog(), Backlog::default());
    }

    #[test]
    fn who_waits_of_others_does_not_decode() {
        let own = InFlight { requests: 2, prefilling: 1, ..InFlight::default() };
        let backlog = PodLoad { waiting_elsewhere: 5, ..load(10, 1_000, own) }.backlog();
        assert_eq!((backlog.decoding, backlog.waiting, backlog.queued), (400.0, 5.0, 0.0));
        assert_eq!((backlog.sequences, backlog.prefilling), (4.0, 1.0));
    }

    #[test]
    fn nothing_is_queued_where_all_have_their_first_token() {
        let own = |prefilling, uncached_tokens| {
            let own = InFlight { requests: 4, prefilling, uncached_tokens, ..InFlight::default() };
            InFlight { prompt_tokens: 4_000, ..own }
        };
        let of = |prefilling, uncached| load(4, 0, own(prefilling, uncached)).backlog();
        assert_eq!((of(0, 500).queued, of(2, 0).queued, of(2, 500).queued), (0.0, 0.0, 500.0));
        // 250 each at the end of 1,000; and no fewer than half of themselves.
        assert_eq!((of(2, 500).before, of(1, 3_000).before), (875.0, 1_500.0));
    }
}
