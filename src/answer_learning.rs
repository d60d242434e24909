//! What answers teach: how long such answers are, and how fast their pods decode.

use std::sync::OnceLock;
use std::time::Duration;

use kv_index::Pod;
use routing_exec::{AttemptOutcome, AttemptRecord, DispatchOutcome, DispatchReport};
use routing_plugins::load::PodLoad;
use routing_plugins::{DecodeSample, PaceSample};

use crate::prompt_size::PromptSize;
use crate::router::Router;

impl<const W: usize> Router<W> {
    /// The pod of a request as it is now: when its first token came, or its last.
    pub(crate) fn decode_sample(&self, sample: PaceSample) -> DecodeSample {
        self.plugin_state().paces.decode_sample(sample, &self.load_of(sample.pod()))
    }

    /// An answer of so many tokens ended by itself; of a stream, so long after its first one.
    pub(crate) fn learn_answer(
        &self,
        prompt: PromptSize,
        tokens: u64,
        decoding: Option<([DecodeSample; 2], Duration)>,
    ) {
        // Of several answers to one request the tokens are told together.
        let Some(key) = prompt.key() else { return };
        let state = self.plugin_state();
        state.answer_lengths.learn(key, tokens);
        if let Some(([began, ended], took)) = decoding {
            state.paces.decoded(began, ended, tokens, took, self.now());
        }
    }

    fn load_of(&self, pod: Pod) -> PodLoad {
        let reported = self.live().fleet.load(pod.id());
        // However old a report is: what waits there makes the difference, and housekeeping forgets what is too old.
        self.plugin_state().load.load_of(pod, reported, self.now(), Duration::MAX)
    }
}

/// A pod as it was at the first token of an answer, and at its end: where a guard sees them for whoever learns.
#[derive(Debug, Default)]
pub(crate) struct Decoding {
    pub(crate) began: OnceLock<DecodeSample>,
    pub(crate) ended: OnceLock<DecodeSample>,
}

/// The attempt whose answer the client has as it ended by itself, and that answer's tokens, where they were told.
pub(crate) fn answered(report: &DispatchReport) -> Option<(usize, &AttemptRecord, u64)> {
    let DispatchOutcome::Completed(200..=299) = report.outcome else { return None };
    let (at, last) = report.attempts.iter().enumerate().next_back()?;
    let tokens = last.usage.and_then(|usage| usage.completion_tokens)?;
    (last.outcome == AttemptOutcome::Completed).then_some((at, last, tokens))
}
