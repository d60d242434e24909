//! Decoding pace: what the tokens after the first take on a pod, learned from when an answer began and ended.
//!
//! An answer's steps are shared with all that decodes on the pod, and wait for prompts that are computed there meanwhile. Both
//! are known from what was sent, so what is left is the pod's own.

use std::sync::atomic::Ordering;
use std::time::Duration;

use kv_index::Pod;

use super::{LEAST_SECONDS, PaceSample, PodPaces};
use crate::cost_model::CostModel;
use crate::load::{Backlog, PodLoad};

/// A pod as it was when an answer began.
#[derive(Clone, Copy, Debug)]
pub struct DecodeSample {
    sample: PaceSample,
    began: PodState,
}

/// What decides how long decoding takes, at an instant.
#[derive(Clone, Copy, Debug)]
struct PodState {
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
        self.sample.pod
    }
}

impl<const W: usize> PodPaces<W> {
    /// A request's first token came, and more are to come; `load` is the pod's at this moment, with the request.
    #[must_use]
    pub fn decode_sample(&self, sample: PaceSample, load: &PodLoad) -> DecodeSample {
        DecodeSample { began: self.state(sample, load), sample }
    }

    /// An answer of so many tokens ended, so long after its first one; `load` is the pod's before it is let go. Only of streams that
    /// ended by themselves and were read as they came.
    pub fn decoded(&self, sample: DecodeSample, load: &PodLoad, tokens: u64, took: Duration) {
        let DecodeSample { sample, began } = sample;
        let (ended, steps) = (self.state(sample, load), tokens.saturating_sub(1) as f64);
        let expected = steps * 0.5 * (began.step + ended.step);
        // Of what was sent before it began a part may still count, and of what was sent since some is not done.
        let beside = self.of(sample.pod.id()) * (ended.computed - began.computed).max(0.0);
        let took = took.as_secs_f64();
        if !(expected > LEAST_SECONDS && took > 0.0) || began.has_others || ended.has_others {
            return;
        }
        // What others' prompts are taken for is a guess, and leaves something.
        let alone = (took - beside).max(took * LEAST_SHARE);
        let seen = (alone / expected).ln();
        let weight = (alone / took) * expected / (expected + SHORT_SECONDS);
        let Some(mut learner) = self.learner(sample.pod) else { return };
        if learner.decoding.seen == 0.0 {
            // It begins as the one for first tokens says.
            learner.decoding.pace = self.unseen_decoding(&learner);
        }
        learner.decoding.learn(seen, weight);
        learner.learned(sample.decided);
        self.show(sample.pod.id().index(), &learner);
        drop(learner);
        self.decoding.learn(seen, weight, self.fleet().1);
    }

    fn state(&self, sample: PaceSample, load: &PodLoad) -> PodState {
        let (backlog, model) = (load.backlog(), &sample.expected.cost_model);
        let sent = self.sent.get(sample.pod.id().index()).map_or(0, |sent| sent.load(Ordering::Relaxed));
        PodState {
            step: decode_step(model, &backlog),
            computed: sent as f64 * 1e-6 - model.queued_prefill(&backlog),
            has_others: backlog.waiting > 0.0,
        }
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
