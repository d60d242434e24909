//! Batch admission control: when a pod that serves online traffic may begin batch work.
//!
//! Engines run what they are given together, step by step, so whatever a batch does on a pod lengthens the steps that people
//! wait for. How much is known: a step takes as long as it takes to read the model's weights, and longer by what it has to
//! compute of prompts and by the contexts it has to read. The first is paid anyway; so a few answers with short contexts
//! decode almost for free beside others, and a piece of a prompt costs what it is long. [`BatchAdmission`] is those bounds.
//!
//! The rule that must never break: what is in flight never makes room. More requests, tokens or pods on the one side of a
//! question never turn a no into a yes (`more_load_never_makes_room`).

use super::{InFlight, PodLoad, Work};
use crate::cost_model::{CostModel, Products};

/// Whether a pod may begin a request of a batch now.
///
/// It is asked before each request that is sent; a request that was begun is not called back. So what people wait for at
/// most is what was begun before they came: decode steps a little longer, and one piece of a prompt.
///
/// [`by_costs`](Self::by_costs) has the bounds that follow from a device's costs; `docs/routing-quality.md` shows what they do, and
/// where they are too much. The defaults are cautious ones, for pods whose decode step alone takes about 20 ms.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use std::time::{Duration, Instant};
///
/// use kv_index::{Config, Index};
/// use routing_core::Load;
/// use routing_plugins::load::{BatchAdmission, BatchCrowd, LoadTracker, Work};
///
/// let index: Index = Index::new(Config::default());
/// let (pod, rule) = (index.join("a")?, BatchAdmission::default());
/// // One tracker counts all, for decisions too; another what is of the batch.
/// let (all, batch) = (Arc::new(<LoadTracker>::default()), Arc::new(<LoadTracker>::default()));
/// let crowd = BatchCrowd { pods: 16, busy: 0 };
/// let now = Instant::now();
/// let admits = || {
///     let load = all.load_of(pod, Load::default(), now, Duration::from_secs(5));
///     rule.admits(&load, &batch.in_flight(pod.id()), Work::of(400).output(100), crowd)
/// };
/// assert!(admits(), "nobody is there");
/// let mut online = all.begin(pod, Work::of(2_000).output(100));
/// assert!(!admits(), "somebody waits for a first token");
/// online.first_token();
/// assert!(admits(), "an answer more lengthens the steps by little");
/// # Ok::<(), kv_index::JoinError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BatchAdmission {
    /// Requests on the pod, this one included.
    pub most_requests: u32,
    /// Tokens of all prompts and answers on the pod, this one's included: the contexts that a step reads.
    pub most_tokens: u64,
    /// Tokens of the prompt that the pod has to compute first. A prompt with more is to be sent in pieces: its beginning
    /// alone, with an answer of one token, then more of it.
    pub most_prefill: u64,
    /// Requests of the batch that prefill at once.
    pub most_prefilling: u32,
    /// How much of the pod's KV cache may be in use, 0..=1, as its engine reported: beyond it, people's next prompts would
    /// wait for room.
    pub most_kv_used: f32,
    /// The share of all pods that may have work of the batch at the same time, 0..=1; at least one pod. The others stay free
    /// for those who come, and decisions that count requests find them.
    pub most_pods: f32,
}

crate::parameters::setters! { BatchAdmission {
    most_requests: u32,
    most_tokens: u64,
    most_prefill: u64,
    most_prefilling: u32,
    most_kv_used: f32,
    most_pods: f32,
} }

impl Default for BatchAdmission {
    /// Eight requests and 24,000 tokens on a pod, one prompt of at most 1,024 tokens at a time, half of the KV cache, half of
    /// the pods.
    fn default() -> Self {
        Self {
            most_requests: 8,
            most_tokens: 24_000,
            most_prefill: 1_024,
            most_prefilling: 1,
            most_kv_used: 0.5,
            most_pods: 0.5,
        }
    }
}

/// Prompts go in pieces of whole blocks, so a bound below this would let nothing in.
const LARGEST_BLOCK: u64 = 512;

/// How many pods there are, and how many of them have work of the batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "two figures that a host fills in by name")]
pub struct BatchCrowd {
    /// Pods that serve people and may have work of the batch.
    pub pods: usize,
    /// Those of them that have some.
    pub busy: usize,
}

impl BatchAdmission {
    /// The rule for pods of such costs, measured or learned: so many requests and so much context that each lengthens a decode step by
    /// a third at most, and pieces of prompts that take as long as two steps, though no smaller than a block of 512 tokens; on all pods.
    ///
    /// ```
    /// use routing_plugins::CostModel;
    /// use routing_plugins::load::BatchAdmission;
    ///
    /// let rule = BatchAdmission::by_costs(&CostModel::FUSED);
    /// assert_eq!((rule.most_requests, rule.most_tokens, rule.most_prefill), (64, 52_444, 512));
    /// ```
    #[must_use]
    pub fn by_costs(costs: &CostModel) -> Self {
        let products = match costs.products {
            Products::Additive => 0.0,
            Products::Roofline => costs.per_token.get(),
        };
        // A cast from a float saturates, and makes 0 of what is not a number: what costs nothing has no bound.
        let within = |seconds: f64, each: f64| if each > 0.0 { seconds / each } else { f64::INFINITY };
        let step = costs.decode_step.get();
        Self {
            most_requests: within(step / 3.0, costs.per_sequence.get() + products) as u32,
            most_tokens: within(step / 3.0, costs.per_context.get()) as u64,
            most_prefill: (within(step * 2.0, costs.per_token.get()) as u64).max(LARGEST_BLOCK),
            most_pods: 1.0,
            ..Self::default()
        }
    }

    /// Whether a pod may begin this request of a batch now.
    ///
    /// `all` is what it has to do altogether, the batch's part included, and `batch` that part. A pod that does not hold
    /// any work of the batch yet is one more of the crowd.
    #[must_use]
    pub fn admits(&self, all: &PodLoad, batch: &InFlight, work: Work, crowd: BatchCrowd) -> bool {
        let others_wait = all.in_flight.prefilling > batch.prefilling || all.waiting > batch.prefilling;
        let tokens = all.tokens.max(all.in_flight.tokens());
        let more = work.prompt_tokens.saturating_add(work.output_tokens);
        !others_wait
            && batch.prefilling < self.most_prefilling
            && work.uncached_tokens <= self.most_prefill
            && all.requests.max(all.in_flight.requests) < self.most_requests
            && tokens.saturating_add(more) <= self.most_tokens
            // What is not a number is as much as there can be.
            && all.kv_used <= self.most_kv_used
            && (batch.requests > 0 || crowd.busy < self.most_busy(crowd.pods))
    }

    /// How many of so many pods may have work of the batch.
    #[must_use]
    pub fn most_busy(&self, pods: usize) -> usize {
        // A cast from a float saturates, and makes 0 of what is not a number.
        ((f64::from(self.most_pods) * pods as f64).round() as usize).max(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CROWD: BatchCrowd = BatchCrowd { pods: 16, busy: 4 };

    fn load(in_flight: InFlight) -> PodLoad {
        PodLoad { in_flight, requests: in_flight.requests, tokens: in_flight.tokens(), ..PodLoad::default() }
    }

    fn flight(requests: u32, prefilling: u32, prompt_tokens: u64) -> InFlight {
        InFlight { requests, prefilling, prompt_tokens, ..InFlight::default() }
    }

    #[test]
    fn each_bound_holds_by_itself() {
        let rule = BatchAdmission::default();
        let none = InFlight::default();
        let small = Work::of(1_000).output(100);
        let admits = |all: InFlight, batch: InFlight, work: Work| rule.admits(&load(all), &batch, work, CROWD);
        assert!(admits(none, none, small));
        assert!(admits(flight(7, 0, 7_000), flight(3, 0, 3_000), small));
        assert!(!admits(flight(8, 0, 8_000), none, small), "too many requests");
        assert!(admits(flight(2, 0, 22_900), none, small) && !admits(flight(2, 0, 22_901), none, small), "contexts");
        assert!(!admits(flight(3, 1, 3_000), flight(2, 0, 2_000), small), "somebody waits for a first token");
        assert!(!admits(flight(3, 1, 3_000), flight(2, 1, 2_000), small), "the batch has a prompt there already");
        assert!(admits(none, none, Work::of(1_024)) && !admits(none, none, Work::of(1_025)), "a piece of a prompt");
        assert!(admits(none, none, Work::of(9_000).held(8_000)), "what is held is not computed");
    }

    #[test]
    fn what_an_engine_reports_counts() {
        let rule = BatchAdmission::default();
        let (none, work) = (InFlight::default(), Work::of(100));
        let admits = |load: PodLoad| rule.admits(&load, &none, work, CROWD);
        assert!(admits(PodLoad { kv_used: 0.5, requests: 7, tokens: 20_000, ..PodLoad::default() }));
        assert!(!admits(PodLoad { kv_used: 0.51, ..PodLoad::default() }));
        assert!(!admits(PodLoad { kv_used: f32::NAN, ..PodLoad::default() }), "no figure is no room");
        assert!(!admits(PodLoad { waiting: 1, requests: 1, ..PodLoad::default() }), "another gateway's request waits");
        assert!(!admits(PodLoad { requests: 8, ..PodLoad::default() }), "other gateways' requests");
    }

    #[test]
    fn who_waits_is_not_hidden_by_what_the_batch_decodes() {
        let rule = BatchAdmission::default();
        let batch = flight(5, 0, 2_500);
        let waiting = |waiting| PodLoad { waiting, ..load(batch) };
        assert!(rule.admits(&waiting(0), &batch, Work::of(100), CROWD));
        assert!(!rule.admits(&waiting(1), &batch, Work::of(100), CROWD), "all of the batch have their first tokens");
    }

    #[test]
    fn some_pods_stay_free() {
        let rule = BatchAdmission::default();
        let admits = |batch, busy| {
            let crowd = BatchCrowd { pods: 16, busy };
            rule.admits(&load(batch), &batch, Work::of(100), crowd)
        };
        assert!(admits(InFlight::default(), 7) && !admits(InFlight::default(), 8));
        assert!(admits(flight(1, 0, 100), 8), "a pod that has some may have more");
        assert_eq!([0, 1, 2, 16].map(|pods| rule.most_busy(pods)), [1, 1, 1, 8]);
        let nan = BatchAdmission { most_pods: f32::NAN, ..rule };
        assert_eq!(nan.most_busy(16), 1);
    }

    proptest! {
        /// Whatever is added to what people have in flight, a no stays a no.
        #[test]
        fn more_load_never_makes_room(
            (requests, prefilling, tokens, kv) in (0_u32..12, 0_u32..3, 0_u64..30_000, 0_f32..1.0),
            (more_requests, more_prefilling, more_tokens, more_kv) in (0_u32..4, 0_u32..2, 0_u64..10_000, 0_f32..0.5),
            (own, own_prefilling, waiting, more_waiting) in (0_u32..6, 0_u32..2, 0_u32..4, 0_u32..3),
            (prompt, more_prompt, busy, more_busy) in (1_u64..2_000, 0_u64..2_000, 0_usize..20, 0_usize..4),
        ) {
            let rule = BatchAdmission::default();
            let batch = flight(own, own_prefilling.min(own), u64::from(own) * 500);
            let all = |requests: u32, prefilling: u32, tokens: u64, kv_used: f32, waiting: u32| PodLoad {
                kv_used,
                waiting,
                ..load(flight(own + requests, batch.prefilling + prefilling, batch.prompt_tokens + tokens))
            };
            let before = rule.admits(
                &all(requests, prefilling, tokens, kv, waiting), &batch, Work::of(prompt), BatchCrowd { pods: 16, busy },
            );
            let after = rule.admits(
                &all(requests + more_requests, prefilling + more_prefilling, tokens + more_tokens, kv + more_kv,
                    waiting + more_waiting),
                &batch,
                Work::of(prompt + more_prompt),
                BatchCrowd { pods: 16, busy: busy + more_busy },
            );
            prop_assert!(before || !after);
        }
    }
}
