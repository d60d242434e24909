//! What answers teach: how long such answers are, and how fast their pods decode.

use std::time::Duration;

use kv_index::Pod;
use routing_exec::{AttemptOutcome, AttemptRecord, DispatchOutcome, DispatchReport};
use routing_plugins::load::PodLoad;
use routing_plugins::{AnswerKey, DecodeSample, PaceSample};

use crate::router::Router;

impl<const W: usize> Router<W> {
    /// A request's first token came, and more are to come: its pod as it is now.
    pub(crate) fn decode_sample(&self, sample: PaceSample) -> DecodeSample {
        self.plugin_state().paces.decode_sample(sample, &self.load_of(sample.pod()))
    }

    /// An answer of so many tokens ended by itself; of a stream, so long after its first one.
    pub(crate) fn learn_answer(&self, key: AnswerKey, tokens: u64, decoding: Option<(DecodeSample, Duration)>) {
        let state = self.plugin_state();
        state.answer_lengths.learn(key, tokens);
        if let Some((sample, took)) = decoding {
            state.paces.decoded(sample, &self.load_of(sample.pod()), tokens, took);
        }
    }

    fn load_of(&self, pod: Pod) -> PodLoad {
        let reported = self.live().fleet.load(pod.id());
        // However old a report is: what waits there makes the difference, and housekeeping forgets what is too old.
        self.plugin_state().load.load_of(pod, reported, self.now(), Duration::MAX)
    }
}

/// The attempt whose answer the client has as it ended by itself, and that answer's tokens, where they were told.
pub(crate) fn answered(report: &DispatchReport) -> Option<(usize, &AttemptRecord, u64)> {
    let DispatchOutcome::Completed(200..=299) = report.outcome else { return None };
    let (at, last) = report.attempts.iter().enumerate().next_back()?;
    let tokens = last.usage.and_then(|usage| usage.completion_tokens)?;
    (last.outcome == AttemptOutcome::Completed).then_some((at, last, tokens))
}
