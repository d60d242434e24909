//! A request of a batch at run time: where it is, and what it adds to a pod's work.

use super::lengths::{AnswerLengths, bucket};
use crate::batch::{BatchConfig, BatchCosts};

/// The expected size of a request, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a host fills in by name")]
pub struct RequestSize {
    /// Prompt tokens.
    pub prompt: u32,
    /// Output tokens; 0 if nothing is known of them.
    pub output: u32,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Place {
    #[default]
    Unassigned,
    /// In the list of this pod.
    Listed(u16),
    /// Under way at this pod.
    Begun(u16),
    Done,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    pub(super) place: Place,
    /// The cohort that it is of, in its pod's list.
    pub(super) cohort: u32,
    /// How urgent that is.
    pub(super) tier: u32,
    /// Which answers its own is like, for all that is known before it begins.
    pub(super) bucket: u8,
    prompt: u32,
    /// Tokens of its prompt that are there when it begins, where it is.
    cached: u32,
    /// Tokens of its answer, as estimated.
    pub(super) output: u32,
    /// Tokens that it holds room for while it is under way.
    pub(super) held: u32,
    /// Seconds that it adds to what a pod of speed 1 has to do, behind the others of its cohort: for its prompt, and for an answer of
    /// the length that is estimated.
    pub(super) prefill: f32,
    pub(super) decode: f32,
    /// When it was begun.
    pub(super) began: f64,
}

/// Tokens of an answer of which nothing is known.
const UNKNOWN: u32 = 256;

impl Entry {
    /// In the list of a pod with so large a cache, which has so many tokens of it.
    pub(super) fn new(pod: usize, size: RequestSize, cached: u32, kv_tokens: u64, config: &BatchConfig) -> Self {
        let output = if size.output == 0 { UNKNOWN } else { size.output };
        let (prefill, decode) = config.work(size.prompt, output, cached, kv_tokens);
        Self {
            place: Place::Listed(pod as u16),
            cohort: 0,
            tier: 0,
            bucket: bucket(size.output),
            prompt: size.prompt,
            cached: cached.min(size.prompt),
            output,
            held: 0,
            prefill: prefill as f32,
            decode: decode as f32,
            began: 0.0,
        }
    }

    /// In no list, of this size.
    pub(super) fn unassigned(size: RequestSize, config: &BatchConfig) -> Self {
        Self { place: Place::Unassigned, ..Self::new(0, size, 0, u64::MAX, config) }
    }

    /// Seconds to compute what is there, where it is not.
    pub(super) fn again(&self, costs: &BatchCosts) -> f64 {
        costs.prefill(0, self.cached)
    }

    /// It goes where nothing of it is there.
    pub(super) fn moved(&mut self, costs: &BatchCosts) {
        self.prefill += self.again(costs) as f32;
        self.cached = 0;
    }

    /// Seconds that it adds in all, if its answer is so many times as long as estimated.
    pub(super) fn work(&self, ratio: f64) -> f64 {
        f64::from(self.prefill) + f64::from(self.decode) * ratio
    }

    /// Makes all of it so many times as long.
    pub(super) fn scale(&mut self, by: f64) {
        (self.prefill, self.decode) = ((f64::from(self.prefill) * by) as f32, (f64::from(self.decode) * by) as f32);
    }

    /// The same by what is known of answers.
    pub(super) fn expected_work(&self, lengths: &AnswerLengths) -> f64 {
        self.work(lengths.ratio(self.bucket))
    }

    /// Tokens of its answer by what is known of answers.
    pub(super) fn expected_output(&self, lengths: &AnswerLengths) -> f64 {
        f64::from(self.output) * lengths.ratio(self.bucket)
    }

    /// Whether it fits into a cache of so many tokens, by the estimate and by what is known.
    pub(super) fn fits(&self, kv_tokens: u64, lengths: &AnswerLengths) -> bool {
        u64::from(self.tokens(lengths).max(self.prompt.saturating_add(self.output))) <= kv_tokens
    }

    /// Tokens that it needs room for.
    pub(super) fn tokens(&self, lengths: &AnswerLengths) -> u32 {
        self.prompt.saturating_add(self.expected_output(lengths) as u32)
    }
}
