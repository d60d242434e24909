//! Costs of prefill and decode in seconds, as plain numbers.
//!
//! A straight line in each of the things that cost, but for a step's matrix products, which hide behind what every step costs.
//! Good enough to tell shares of work from each other; not an engine.

/// Seconds that a pod of speed 1 takes, by what it does.
///
/// Fitted to a device and a model elsewhere: a cost model of `routing-plugins` converts into it. The line is for full steps: what
/// a step costs to launch is paid once by all the prompts in it, and left out of [`prefill`](Self::prefill).
///
/// What is not given costs nothing: begin with [`ZERO`](Self::ZERO), and set what does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BatchCosts {
    /// For each token of a prompt that is computed.
    pub prompt_token: f64,
    /// For each pair of a computed token and one that it attends to.
    pub attended_pair: f64,
    /// For each step of decoding, however many take part in it.
    pub step: f64,
    /// For each token that a step generates, as far as it is more than [`step`](Self::step): the root of the sum of both squares
    /// counts. Weights are read while tokens are computed.
    pub products: f64,
    /// For each token that is generated, besides.
    pub output_token: f64,
    /// For each token of context that a step reads.
    pub context_token: f64,
}

crate::setters::setters! { BatchCosts {
    prompt_token: f64,
    attended_pair: f64,
    step: f64,
    products: f64,
    output_token: f64,
    context_token: f64,
} }

impl BatchCosts {
    /// Nothing costs anything, which is the default.
    pub const ZERO: Self =
        Self { prompt_token: 0.0, attended_pair: 0.0, step: 0.0, products: 0.0, output_token: 0.0, context_token: 0.0 };

    /// A model of eight billion parameters on one H200, with fused kernels: for who has not measured, since what matters is how the
    /// figures stand to each other.
    pub const TYPICAL: Self = Self {
        prompt_token: 2.33e-5,
        attended_pair: 9.05e-10,
        step: 4.72e-3,
        products: 2.33e-5,
        output_token: 9.55e-7,
        context_token: 3.0e-8,
    };

    /// Seconds to compute `new` tokens of a prompt behind `cached` ones.
    #[must_use]
    pub fn prefill(&self, cached: u32, new: u32) -> f64 {
        let (cached, new) = (f64::from(cached), f64::from(new));
        new * (self.prompt_token + self.attended_pair * (cached + new / 2.0))
    }

    /// Seconds of a step in which `running` requests with `context` tokens together each generate a token.
    #[must_use]
    pub fn decode_step(&self, running: usize, context: f64) -> f64 {
        self.step_alone(running as f64) + self.output_token * running as f64 + self.context_token * context
    }

    /// Seconds that the same adds to a step that computes prompts anyway.
    pub(crate) fn beside_prompts(&self, running: usize, context: f64) -> f64 {
        (self.products + self.output_token) * running as f64 + self.context_token * context
    }

    /// Seconds of a step in which so many generate a token, without what each costs besides.
    pub(crate) fn step_alone(&self, running: f64) -> f64 {
        let products = self.products * running;
        (self.step * self.step + products * products).sqrt()
    }

    /// Whether each is a number, and none below zero.
    pub(crate) fn are_sound(&self) -> bool {
        [self.prompt_token, self.attended_pair, self.step, self.products, self.output_token, self.context_token]
            .iter()
            .all(|cost| cost.is_finite() && *cost >= 0.0)
    }
}
