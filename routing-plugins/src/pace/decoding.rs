//! Decoding pace: what the tokens after the first take on a pod, learned from when an answer began and ended.
//!
//! An answer's steps are shared with all that decodes on the pod, and wait for prompts that are computed there meanwhile. Both
//! are known from what was sent, so what is left is the pod's own.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kv_index::Pod;

use super::{LEAST_SECONDS, PaceSample, PodPaces};
use crate::cost_model::CostModel;
use crate::load::{Backlog, PodLoad};

/// What decides how long decoding takes on a pod, at an instant.
#[derive(Clone, Copy, Debug)]
pub struct DecodeSample {
    pod: Pod,
    /// Seconds of a step that decodes alone, at pace 1.
    step: f64,
    /// Seconds of prefill that was computed there ever, at pace 1.
    computed: f64,
    /// Whether others' prompts wait there, of which nothing is known.
    has_others: bool,
}

impl DecodeSample {
    /// The pod.
    #[must_use]
    pub fn pod(&self) -> Pod {
        self.pod
    }
}

impl<const W: usize> PodPaces<W> {
    /// The pod of a request at the moment of its first token, or of its last: `load` is what it has to do then, this request included.
    #[must_use]
    pub fn decode_sample(&self, sample: PaceSample, load: &PodLoad) -> DecodeSample {
        let (pod, backlog, model) = (sample.pod, load.backlog(), &sample.expected.cost_model);
        let sent = self.sent.get(pod.id().index()).map_or(0, |sent| sent.load(Ordering::Relaxed));
        DecodeSample {
            pod,
            step: decode_step(model, &backlog),
            computed: sent as f64 * 1e-6 - model.queued_prefill(&backlog),
            has_others: backlog.waiting > 0.0,
        }
    }

    /// An answer of so many tokens ended, so long after its first one; `now` is when it is told. Only of streams that ended by themselves
    /// and were read as they came.
    pub fn decoded(&self, began: DecodeSample, ended: DecodeSample, tokens: u64, took: Duration, now: Instant) {
        let (pod, steps) = (began.pod, tokens.saturating_sub(1) as f64);
        let expected = steps * 0.5 * (began.step + ended.step);
        // Of what was sent before it began a part may still count, and of what was sent since some is not done.
        let beside = self.of(pod.id()) * (ended.computed - began.computed).max(0.0);
        let took = took.as_secs_f64();
        if !(expected > LEAST_SECONDS && took > 0.0) || began.has_others || ended.has_others || ended.pod != pod {
            return;
        }
        // What others' prompts are taken for is a guess, and leaves something.
        let alone = (took - beside).max(took * LEAST_SHARE);
        let seen = (alone / expected).ln();
        // By what it was expected to be, and not by what it was: else a guess that was too small would count for more than one that was too
        // large.
        let own = expected * self.decoding(pod.id());
        let share = own / (own + beside);
        let weight = share * share * expected / (expected + SHORT_SECONDS);
        let Some(mut learner) = self.learner(pod) else { return };
        if learner.decoding.seen == 0.0 {
            // It begins as the one for first tokens says.
            learner.decoding.pace = self.unseen_decoding(&learner);
        }
        learner.decoding.learn(seen, weight);
        learner.learned(now);
        self.show(pod.id().index(), &learner);
        drop(learner);
        let is_changed = self.decoding.learn(seen, weight, self.fleet().1);
        self.publish(is_changed);
    }
}

/// Seconds of a step that decodes all that is on a pod, and nothing else.
fn decode_step(model: &CostModel, backlog: &Backlog) -> f64 {
    model.decode_products(backlog.sequences.into()).0 + model.decode_share(backlog)
}

/// Answers that take less are mostly what a network and the step under way take.
const SHORT_SECONDS: f64 = 0.2;

/// The part of an answer's time that is its own, whatever else is computed.
const LEAST_SHARE: f64 = 0.05;
