//! Work estimate of a request: prompt, uncached and output tokens.

use kv_index::BlockSize;

use crate::parameters::{Amount, parameters};

/// What a request costs its pod, as far as it is known when it is sent.
///
/// # Examples
///
/// ```
/// use kv_index::BlockSize;
/// use routing_plugins::load::{OutputEstimate, Work};
///
/// let output = OutputEstimate::default().of(1000, Some(256));
/// let size = BlockSize::new(16).expect("not 0");
/// let work = Work::of(1000).held_blocks(40, size).output(output);
/// assert_eq!((work.prompt_tokens, work.uncached_tokens, work.output_tokens), (1000, 360, 256));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "figures that a host fills in by name")]
pub struct Work {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Those of them that the pod does not hold and has to compute.
    pub uncached_tokens: u64,
    /// Tokens it will generate, by the host's estimate.
    pub output_tokens: u64,
}

impl Work {
    /// A prompt of which the pod holds nothing, and no answer.
    #[must_use]
    pub const fn of(prompt_tokens: u64) -> Self {
        Self { prompt_tokens, uncached_tokens: prompt_tokens, output_tokens: 0 }
    }

    /// The same on a pod that holds so many leading tokens; all of the prompt, if that is more than it has.
    #[must_use]
    pub const fn held(self, tokens: u64) -> Self {
        Self { uncached_tokens: self.prompt_tokens.saturating_sub(tokens), ..self }
    }

    /// The same on a pod that holds so many leading blocks, as a plan's [`CacheHint`](routing_core::CacheHint) tells of
    /// the first candidate of a step, and of no other.
    #[must_use]
    pub const fn held_blocks(self, blocks: usize, size: BlockSize) -> Self {
        self.held((blocks as u64).saturating_mul(size.tokens() as u64))
    }

    /// The same with so many tokens to be generated.
    #[must_use]
    pub const fn output(self, tokens: u64) -> Self {
        Self { output_tokens: tokens, ..self }
    }
}

parameters! {
    /// How many tokens an answer is taken to have before it is known.
    ///
    /// `min(round(ratio × prompt), client's cap, most)`, where caps that are not there do not count. A cap of 0 is a cap: such
    /// a request is prefill alone.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct OutputEstimate {
        /// Tokens of the answer for each token of the prompt; 1.5 unless given. With 0, answers are not counted.
        pub ratio: Amount = const { Amount::constant(1.5) },
        /// What the operator takes for the longest answer; none unless given.
        pub most: Option<u32> = None,
    }
}

impl OutputEstimate {
    /// The tokens of an answer. The client's cap is the request's
    /// [`most_output`](routing_core::Request::most_output).
    #[must_use]
    pub fn of(&self, prompt_tokens: u64, client: Option<u32>) -> u64 {
        // A cast from a float saturates.
        let guess = (self.ratio.get() * prompt_tokens as f64).round() as u64;
        [client, self.most].into_iter().flatten().map(u64::from).fold(guess, u64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_pod_holds_it_does_not_compute() {
        let work = Work::of(100).output(7);
        assert_eq!(work, Work { prompt_tokens: 100, uncached_tokens: 100, output_tokens: 7 });
        assert_eq!(work.held(64).uncached_tokens, 36);
        assert_eq!(work.held(64).prompt_tokens, 100, "the prompt stays as long as it is");
        assert_eq!(work.held(101).uncached_tokens, 0, "more than all is all");
        assert_eq!(work.held(64).held(0), work, "the last word counts");
        let size = BlockSize::new(16).unwrap();
        assert_eq!([0, 4, 7, usize::MAX].map(|blocks| work.held_blocks(blocks, size).uncached_tokens), [100, 36, 0, 0]);
    }

    #[test]
    fn an_estimate_is_a_ratio_under_caps() {
        let estimate = OutputEstimate::default();
        assert_eq!([0, 1, 3, 100].map(|prompt| estimate.of(prompt, None)), [0, 2, 5, 150], "half goes up");
        assert_eq!([Some(40), Some(500), Some(0)].map(|cap| estimate.of(100, cap)), [40, 150, 0]);
        let capped = OutputEstimate { most: Some(60), ..estimate };
        assert_eq!([Some(40), Some(500), Some(0), None].map(|cap| capped.of(100, cap)), [40, 60, 0, 60]);
        assert_eq!(OutputEstimate { ratio: Amount::ZERO, ..estimate }.of(100, None), 0, "answers are not counted");
    }

    proptest! {
        #[test]
        fn no_estimate_is_above_a_cap(
            ratio in 0.0..1e300f64,
            prompt: u64,
            client: Option<u32>,
            most: Option<u32>,
        ) {
            let output = OutputEstimate { ratio: Amount::new(ratio).unwrap(), most }.of(prompt, client);
            prop_assert!([most, client].into_iter().flatten().all(|cap| output <= u64::from(cap)));
        }
    }
}
