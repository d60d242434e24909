//! How long a prefill takes, by what is new of a prompt and what is before it.

use crate::parameters::Amount;

/// The seconds of a prefill: `fixed + per_token · new + per_pair · new · (held + new / 2)`.
///
/// The first part is of every prefill, the second of every token that is computed, the third of every pair of a token and
/// one before it that it attends to: on average, a new token has what is held before it and half of what is new.
///
/// The defaults are measured: a Llama-8B-shaped model on one H200 (PyTorch SDPA, bf16), 24 prefills of 128 to 100,000 new
/// tokens after 0 to 75,000 held ones, fitted by least squares of the relative error, so that short prefills count as much
/// as long ones. The fit is 18% off on average and within 25% for 19 of the 24. The others are cold prompts of 128, 1,024 and
/// 100,000 tokens (−32%, +26%, +43%) and tails of 128 tokens after 32,768 and 75,000 held ones (−40%, −62%), which ran without a
/// fused kernel. It says 10.3 s where a cold prompt of 100,000 tokens took 7.2, and 0.22 s where one of 8,192 took
/// 0.25. Another model or device needs its own three numbers: what matters is how they stand to each other.
///
/// # Examples
///
/// ```
/// use routing_plugins::score::PrefillCurve;
///
/// let curve = PrefillCurve::default();
/// let (cold, warm) = (curve.seconds(8_192.0, 0.0), curve.seconds(128.0, 8_064.0));
/// assert!(cold > 0.2 && warm < 0.03);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct PrefillCurve {
    /// Seconds that every prefill takes; 0.0224, unless given.
    pub fixed: Amount,
    /// Seconds for each new token; 1.65e-5, unless given.
    pub per_token: Amount,
    /// Seconds for each pair of a new token and one before it; 1.73e-9, unless given.
    pub per_pair: Amount,
}

impl Default for PrefillCurve {
    fn default() -> Self {
        Self {
            fixed: const { Amount::constant(0.0224) },
            per_token: const { Amount::constant(1.65e-5) },
            per_pair: const { Amount::constant(1.73e-9) },
        }
    }
}

impl PrefillCurve {
    /// Seconds to prefill so many new tokens after so many that are held. Numbers above 0 that are finite give one too, the
    /// largest there is if need be.
    #[must_use]
    #[inline]
    pub fn seconds(&self, new: f64, held: f64) -> f64 {
        (self.fixed.get() + self.work(new, held + new * 0.5)).min(f64::MAX)
    }

    /// The same without the fixed part, by how many tokens come before a new one on average.
    #[inline]
    pub(crate) fn work(&self, new: f64, before: f64) -> f64 {
        new * (self.per_token.get() + self.per_pair.get() * before)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// New tokens, held tokens and milliseconds, the cost of copying the cache taken off.
    const MEASURED: [(u32, u32, f64); 24] = [
        (128, 0, 36.2),
        (512, 0, 34.1),
        (1_024, 0, 31.9),
        (2_048, 0, 61.1),
        (4_096, 0, 121.9),
        (8_192, 0, 253.0),
        (16_384, 0, 592.3),
        (32_768, 0, 1_384.0),
        (128, 1_024, 22.8),
        (1_024, 1_024, 35.7),
        (128, 4_096, 26.5),
        (1_024, 4_096, 41.7),
        (4_096, 4_096, 173.6),
        (128, 8_192, 21.2),
        (1_024, 8_192, 49.3),
        (128, 16_384, 31.8),
        (1_024, 16_384, 67.1),
        (4_096, 16_384, 260.5),
        (128, 32_768, 53.0),
        (1_024, 32_768, 101.0),
        (8_192, 32_768, 836.3),
        (128, 75_000, 108.3),
        (25_000, 75_000, 5_334.3),
        (100_000, 0, 7_230.4),
    ];

    fn errors(curve: PrefillCurve) -> Vec<f64> {
        let error = |(new, held, ms)| curve.seconds(f64::from(new), f64::from(held)) * 1e3 / ms - 1.0;
        MEASURED.map(error).to_vec()
    }

    #[test]
    fn the_defaults_are_as_far_off_as_the_docs_say() {
        let errors = errors(PrefillCurve::default());
        let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64;
        assert!((0.17..0.19).contains(&mean), "{mean}");
        assert_eq!(errors.iter().filter(|error| error.abs() < 0.25).count(), 19, "{errors:.2?}");
    }

    #[test]
    fn no_neighbour_of_the_defaults_fits_better() {
        let sum = |curve| errors(curve).iter().map(|error| error * error).sum::<f64>();
        let default = PrefillCurve::default();
        for factor in [0.97, 1.03] {
            let scaled = |amount: Amount| Amount::new(amount.get() * factor).unwrap();
            for other in [
                PrefillCurve { fixed: scaled(default.fixed), ..default },
                PrefillCurve { per_token: scaled(default.per_token), ..default },
                PrefillCurve { per_pair: scaled(default.per_pair), ..default },
            ] {
                assert!(sum(other) > sum(default), "{other:?}");
            }
        }
    }

    proptest! {
        /// The curve is what a token-by-token count gives.
        #[test]
        fn pairs_are_counted_one_by_one(new in 0..300u32, held in 0..300u32) {
            let curve = PrefillCurve::default();
            // A token attends to those before it and half to itself: what is cut off at the one end comes at the other.
            let pairs: f64 = (0..new).map(|at| f64::from(held) + f64::from(at) + 0.5).sum();
            let literal = 0.0224 + 1.65e-5 * f64::from(new) + 1.73e-9 * pairs;
            prop_assert!((curve.seconds(f64::from(new), f64::from(held)) - literal).abs() < 1e-9);
        }

        /// More to compute never takes less, and the answer is a number.
        #[test]
        fn it_grows(new in 0.0..1e19f64, more in 0.0..1e19f64, held in 0.0..1e19f64) {
            let curve = PrefillCurve { per_pair: Amount::new(f64::MAX).unwrap(), ..PrefillCurve::default() };
            prop_assert!(curve.seconds(new, held) <= curve.seconds(new + more, held));
            prop_assert!(curve.seconds(new, held).is_finite());
        }
    }
}
