//! GPU cost model: seconds of an engine step, by prefill chunks and decode batch.
//!
//! One model for scorers, the batch planner and simulated engines. More work never takes less time
//! (`tests::more_never_takes_less`).

mod fit;
mod table;
mod under_load;

use std::time::Duration;

use routing_core::batch::BatchCosts;

use crate::parameters::{Amount, Positive, parameters};

pub use fit::{Fit, FitError, RelativeError};
pub use table::{DecodeRow, Measurements, MixedRow, PrefillRow};
pub(crate) use under_load::sent_or_kept;

parameters! {
    /// Seconds of one engine step, by what is in it.
    ///
    /// A step has prefill chunks of `n` new tokens after `c` cached ones each, and `b` decoding sequences with `x` tokens of context
    /// in all. With [`Products::Additive`] it takes
    ///
    /// ```text
    /// base + per_token · Σn + Σ(per_pair · n · (c + n / 2) + per_cached · c) + per_sequence · b + per_context · x
    /// ```
    ///
    /// where `base` is [`fixed`](Self::fixed) of a step that prefills, [`decode_step`](Self::decode_step) of one that decodes, and
    /// the larger of a step that does both. With [`Products::Roofline`] the first two terms are
    /// `sqrt(base² + (per_token · (Σn + b))²)`. A pair is a new token and one before it that it attends to.
    ///
    /// [`fit`](Self::fit) makes one from [`Measurements`]. The default is [`FUSED`](Self::FUSED). Fit your own device and model; what
    /// matters for routing is how the numbers stand to each other.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use routing_plugins::CostModel;
    ///
    /// let model = CostModel::default();
    /// assert!(model.prefill(0, 8_192) > Duration::from_millis(150));
    /// assert!(model.prefill(8_064, 128) < Duration::from_millis(10));
    /// let mixed = model.step(&[(0, 8_192)], 32, 32 * 1_024);
    /// assert!(mixed < model.prefill(0, 8_192) + model.decode(32, 1_024));
    /// ```
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
    pub struct CostModel {
        /// How the matrix products add to the fixed part; a roofline by default.
        pub products: Products = CostModel::FUSED.products,
        /// Seconds of every step that prefills; 4.84e-3 by default.
        pub fixed: Amount = CostModel::FUSED.fixed,
        /// Seconds for each new token; 2.33e-5 by default.
        pub per_token: Amount = CostModel::FUSED.per_token,
        /// Seconds for each pair of a new token and one before it; 9.05e-10 by default.
        pub per_pair: Amount = CostModel::FUSED.per_pair,
        /// Seconds for each cached token that a chunk follows; 1.81e-8 by default.
        pub per_cached: Amount = CostModel::FUSED.per_cached,
        /// Seconds of every step that decodes; 4.72e-3 by default.
        pub decode_step: Amount = CostModel::FUSED.decode_step,
        /// Seconds for each decoding sequence; 9.55e-7 by default.
        pub per_sequence: Amount = CostModel::FUSED.per_sequence,
        /// Seconds for each token in the contexts of decoding sequences; 3e-8 by default.
        pub per_context: Amount = CostModel::FUSED.per_context,
        /// New tokens of a full step; 8,192 by default. A longer prompt takes several steps, each with its share of decoding.
        pub step_tokens: Positive = CostModel::FUSED.step_tokens,
    }
}

/// How the time of a step's matrix products follows from its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[expect(clippy::exhaustive_enums, reason = "the forms that a model can have")]
pub enum Products {
    /// Fixed part and tokens add up: kernels that are bound by their launch.
    #[default]
    Additive,
    /// A smooth roofline, the root of the sum of squares: weights are read while tokens are computed, and decoding sequences
    /// share the products with new tokens.
    Roofline,
}

impl CostModel {
    /// The roofline fit to a Llama-8B-shaped model on one H200 as engines run it: fused kernels, paged KV, CUDA graphs, bf16. The
    /// relative error is 2% in the mean for prefill and 1% for decode; a cold prompt of 100,000 tokens takes 6.8 s.
    pub const FUSED: Self = Self {
        products: Products::Roofline,
        fixed: Amount::constant(4.84e-3),
        per_token: Amount::constant(2.33e-5),
        per_pair: Amount::constant(9.05e-10),
        per_cached: Amount::constant(1.81e-8),
        decode_step: Amount::constant(4.72e-3),
        per_sequence: Amount::constant(9.55e-7),
        per_context: Amount::constant(3.0e-8),
        step_tokens: Positive::constant(8_192.0),
    };

    /// The additive fit to the same model and device without fused kernels (PyTorch SDPA; 24 prefills of 128 to 100,000 new tokens after 0
    /// to 75,000 cached ones, 9 decode steps). The relative error is 18% in the mean for prefill and 6% for decode. A cold prompt
    /// of 100,000 tokens takes 10.3 s by the model and took 7.2; 128 tokens after 75,000 cached ones took 2.6 times as long as it says.
    pub const UNFUSED: Self = Self {
        products: Products::Additive,
        fixed: Amount::constant(0.0224),
        per_token: Amount::constant(1.65e-5),
        per_pair: Amount::constant(1.73e-9),
        per_cached: Amount::ZERO,
        decode_step: Amount::constant(0.0171),
        per_sequence: Amount::constant(6.07e-5),
        per_context: Amount::constant(3.3e-7),
        step_tokens: Positive::constant(8_192.0),
    };

    /// One step with a prefill chunk of `new` tokens after `cached` ones; nothing without new tokens.
    #[must_use]
    pub fn prefill(&self, cached: usize, new: usize) -> Duration {
        self.step(&[(cached, new)], 0, 0)
    }

    /// One decode step of `batch` sequences with `context` tokens each.
    #[must_use]
    pub fn decode(&self, batch: usize, context: usize) -> Duration {
        self.step(&[], batch, batch.saturating_mul(context))
    }

    /// One step of prefill `chunks`, as (cached, new) tokens, and of `sequences` that decode with `context_tokens` together.
    #[must_use]
    pub fn step(&self, chunks: &[(usize, usize)], sequences: usize, context_tokens: usize) -> Duration {
        let mut work = StepWork { sequences: sequences as f64, context: context_tokens as f64, ..StepWork::default() };
        for &(cached, new) in chunks.iter().filter(|chunk| chunk.1 > 0) {
            work = work.chunk(cached as f64, new as f64);
        }
        Duration::try_from_secs_f64(self.seconds(&work)).unwrap_or(Duration::MAX)
    }

    /// Seconds to prefill so many new tokens after so many cached ones, in one step: a finite number for finite ones.
    #[must_use]
    #[inline]
    pub fn prefill_seconds(&self, new: f64, cached: f64) -> f64 {
        let before = cached + new * 0.5;
        let seconds = match self.products {
            Products::Additive => self.fixed.get() + self.prefill_work(new, before),
            Products::Roofline => {
                root(self.fixed.get(), self.per_token.get() * new) + self.per_pair.get() * before * new
            }
        };
        (seconds + self.per_cached.get() * cached).min(f64::MAX)
    }

    /// The same without the fixed part, by how many tokens come before a new one on average.
    #[inline]
    fn prefill_work(&self, new: f64, before: f64) -> f64 {
        new * (self.per_token.get() + self.per_pair.get() * before)
    }

    fn seconds(&self, work: &StepWork) -> f64 {
        let base = match (work.new > 0.0, work.sequences > 0.0) {
            (false, false) => return 0.0,
            (true, false) => self.fixed.get(),
            (false, true) => self.decode_step.get(),
            (true, true) => self.fixed.get().max(self.decode_step.get()),
        };
        let products = match self.products {
            Products::Additive => base + self.per_token.get() * work.new,
            Products::Roofline => root(base, self.per_token.get() * (work.new + work.sequences)),
        };
        products
            + self.per_pair.get() * work.pairs
            + self.per_cached.get() * work.cached
            + self.per_sequence.get() * work.sequences
            + self.per_context.get() * work.context
    }
}

/// What a step computes and reads, in the model's units.
#[derive(Clone, Copy, Debug, Default)]
struct StepWork {
    new: f64,
    pairs: f64,
    cached: f64,
    sequences: f64,
    context: f64,
}

impl StepWork {
    fn chunk(self, cached: f64, new: f64) -> Self {
        let pairs = self.pairs + new * (cached + new * 0.5);
        Self { new: self.new + new, pairs, cached: self.cached + cached, ..self }
    }
}

/// Not `f64::hypot`: this one is monotone by construction.
#[inline]
fn root(a: f64, b: f64) -> f64 {
    (a * a + b * b).sqrt()
}

/// What a batch planner takes of the model: full steps, in which the fixed part of a prefill is shared by many prompts and left
/// out, and so is the reading of cached tokens.
impl From<&CostModel> for BatchCosts {
    fn from(model: &CostModel) -> Self {
        let products = match model.products {
            Products::Additive => 0.0,
            Products::Roofline => model.per_token.get(),
        };
        Self::default()
            .prompt_token(model.per_token.get())
            .attended_pair(model.per_pair.get())
            .step(model.decode_step.get())
            .products(products)
            .output_token(model.per_sequence.get())
            .context_token(model.per_context.get())
    }
}

#[cfg(test)]
mod tests;
