//! What work costs: seconds for prompts to compute and answers to generate.
//!
//! A straight line in each of the things that cost. Good enough to tell shares of work from each other; not an engine.

/// Seconds that a pod of speed 1 takes, by what it does.
///
/// The default is fitted to measurements of one NVIDIA H200 with a Llama-8B-shaped model in bf16 (PyTorch 2.11): least
/// squares of relative errors. Cold prompts of 1,024 to 100,000 tokens are met within 7% (100,000 tokens: 7.14 s for 7.23 s
/// measured).
///
/// The line follows fused kernels and full steps, and says too little of what was measured otherwise: prompts behind a long
/// cached part, which ran without a fused kernel, took 1.2 to 2.1 times as long for 1,024 tokens and more; and few tokens
/// take as long as a step's launch and the reading of what is cached, so 128 of them took 7 times as long as the line says
/// behind 32,768 cached ones, and 9 times behind 75,000. Where such requests share steps, the first of both is paid once.
///
/// Decode steps of 1 to 128 sequences with 1,024 to 8,192 tokens each are
/// met within 9%, but for 32 × 1,024 (36.7 ms measured, 30 ms here).
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "what a host fills in by name")]
pub struct BatchCosts {
    /// For each token of a prompt that is computed.
    pub prompt_token: f64,
    /// For each pair of a computed token and one that it attends to.
    pub attended_pair: f64,
    /// For each step of decoding, however many take part in it.
    pub step: f64,
    /// For each token that is generated, besides.
    pub output_token: f64,
    /// For each token of context that a step reads.
    pub context_token: f64,
}

impl Default for BatchCosts {
    fn default() -> Self {
        Self {
            prompt_token: 28.8e-6,
            attended_pair: 8.51e-10,
            step: 17.1e-3,
            output_token: 60.7e-6,
            context_token: 3.34e-7,
        }
    }
}

impl BatchCosts {
    /// Seconds to compute `new` tokens of a prompt behind `cached` ones.
    #[must_use]
    pub fn prefill(&self, cached: u32, new: u32) -> f64 {
        let (cached, new) = (f64::from(cached), f64::from(new));
        new * (self.prompt_token + self.attended_pair * (cached + new / 2.0))
    }

    /// Seconds of a step in which `running` requests with `context` tokens together each generate a token.
    #[must_use]
    pub fn decode_step(&self, running: usize, context: f64) -> f64 {
        self.step + self.output_token * running as f64 + self.context_token * context
    }

    /// Whether each is a number, and none below zero.
    pub(crate) fn are_sound(&self) -> bool {
        [self.prompt_token, self.attended_pair, self.step, self.output_token, self.context_token]
            .iter()
            .all(|cost| cost.is_finite() && *cost >= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::BatchCosts;

    /// What the docs of the default say: milliseconds that were measured.
    #[test]
    fn the_default_meets_what_was_measured() {
        let costs = BatchCosts::default();
        for (new, ms) in [(1_024, 31.918), (4_096, 121.89), (16_384, 592.27), (32_768, 1_383.997), (100_000, 7_230.356)]
        {
            let error = costs.prefill(0, new) * 1e3 / ms - 1.0;
            assert!(error.abs() < 0.07, "{new} tokens: off by {error}");
        }
        for (running, context, ms) in
            [(1, 1_024, 18.388), (8, 8_192, 37.532), (64, 1_024, 39.621), (128, 1_024, 67.032)]
        {
            let error = costs.decode_step(running, (running * context) as f64) * 1e3 / ms - 1.0;
            assert!(error.abs() < 0.09, "{running} × {context}: off by {error}");
        }
    }

    /// And where it says that the line is too low: by how much.
    #[test]
    fn cached_parts_cost_more_than_the_line_says() {
        let costs = BatchCosts::default();
        let over = |cached, new, ms: f64| ms / (costs.prefill(cached, new) * 1e3);
        for (cached, new, ms) in
            [(8_192, 1_024, 49.265), (32_768, 1_024, 101.042), (16_384, 4_096, 260.498), (32_768, 8_192, 836.348)]
        {
            let over = over(cached, new, ms);
            assert!((1.2..2.1).contains(&over), "{new} behind {cached}: {over} times as long");
        }
        for (cached, ms, times) in [(32_768, 53.039, 7.0), (75_000, 108.281, 9.0)] {
            let over = over(cached, 128, ms);
            assert!((over - times).abs() < 0.5, "128 behind {cached}: {over} times as long");
        }
    }
}
