//! Resampled arrivals: the same requests in the same order, at other times.
//!
//! What a trace says of a rule is one draw: moving its rate by half a percent moves a p99 more than the rule's own chance does.
//! So times are drawn anew by a seed, and what holds of one draw only does not hold.
//!
//! The rule: requests keep their order, and the first and the last their times, so that rates stay; what comes together, within a
//! twentieth of the mean gap, stays together. Where requests wait for others, [`Trace::at_rate`] draws when conversations begin.

use super::{Start, Trace};
use pointsman_test_support::SplitMix64;

impl Trace {
    /// Gaps drawn from the trace's own, in runs of 32 in a row (a block bootstrap), so that lulls and rushes stay as long as
    /// they are. A trace in which requests wait for others is left as it is.
    #[must_use]
    pub fn resampled(self, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed ^ 0xB007);
        self.with_gaps(|gaps| {
            let mut drawn = Vec::with_capacity(gaps.len() + RUN);
            while drawn.len() < gaps.len() {
                let from = rng.below(gaps.len());
                drawn.extend(gaps[from..].iter().chain(gaps).take(RUN));
            }
            drawn
        })
    }

    /// Gaps drawn from a gamma distribution of this shape, as `vllm bench serve --burstiness` has them: 1 is a Poisson process, less is
    /// burstier. A trace in which requests wait for others is left as it is.
    #[must_use]
    pub fn with_burstiness(self, shape: f64, seed: u64) -> Self {
        let mut rng = SplitMix64::new(seed ^ 0x6A33);
        self.with_gaps(|gaps| gaps.iter().map(|_| gamma(&mut rng, shape)).collect())
    }

    /// Replaces gaps, but for those within which requests come together, by others in proportion.
    fn with_gaps(mut self, draw: impl FnOnce(&[f64]) -> Vec<f64>) -> Self {
        if self.is_closed() {
            return self;
        }
        let times = self.expected();
        let (Some(&first), Some(&last)) = (times.first(), times.last()) else { return self };
        let together = (last - first) as f64 / times.len() as f64 * TOGETHER;
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let apart: Vec<f64> = gaps.iter().copied().filter(|gap| *gap > together).collect();
        if apart.is_empty() {
            return self;
        }
        let drawn = draw(&apart);
        let scale = apart.iter().sum::<f64>() / drawn[..apart.len()].iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let (mut at, mut drawn) = (first as f64, drawn.into_iter());
        for (place, gap) in gaps.into_iter().enumerate() {
            at += if gap > together { drawn.next().unwrap_or(gap) * scale } else { gap };
            self.requests[place + 1].start = Start::At(at.round() as u64);
        }
        self
    }
}

/// A draw from the gamma distribution of this shape, by Marsaglia and Tsang (2000); its mean is the shape.
fn gamma(rng: &mut SplitMix64, shape: f64) -> f64 {
    if shape < 1.0 {
        return gamma(rng, shape + 1.0) * (1.0 - rng.next_f64()).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let normal = (-2.0 * (1.0 - rng.next_f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.next_f64()).cos();
        let v = (1.0 + c * normal).powi(3);
        if v > 0.0 && (1.0 - rng.next_f64()).ln() < 0.5 * normal * normal + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// Gaps in a row that are drawn together.
const RUN: usize = 32;
/// Of the mean gap: what comes within it comes together.
const TOGETHER: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::super::synthetic::Synthetic;
    use super::*;

    fn gaps(trace: &Trace) -> Vec<f64> {
        trace.expected().windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect()
    }

    /// Standard deviation against the mean.
    fn variation(values: &[f64]) -> f64 {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt() / mean
    }

    #[test]
    fn times_change_and_nothing_else() {
        for kind in Synthetic::ALL {
            let trace = kind.trace(2_000, 1);
            let (one, two) = (trace.clone().resampled(1), trace.clone().resampled(2));
            assert_eq!(one, trace.clone().resampled(1), "{kind}");
            if trace.is_closed() {
                assert_eq!(one, trace, "{kind}");
                continue;
            }
            assert_ne!(one, two, "{kind}");
            let times = |trace: &Trace| (trace.expected()[0], *trace.expected().last().expect("some"));
            let ((first, last), (from, to)) = (times(&one), times(&trace));
            assert!(first == from && last.abs_diff(to) <= 2_000, "{kind}: {last} for {to}");
            assert!(one.expected().is_sorted());
            let all = |trace: Trace| trace.requests.into_iter().map(|mut one| (one.start = Start::At(0), one).1);
            assert!(all(one).eq(all(trace)), "{kind}");
        }
    }

    #[test]
    fn what_comes_together_stays_together() {
        let trace = Synthetic::FanOut.trace(1_600, 1);
        let resampled = trace.clone().resampled(3);
        let small = |trace: &Trace| gaps(trace).iter().filter(|gap| **gap < 5_000.0).count();
        assert!(small(&trace) > 1_400 && small(&resampled).abs_diff(small(&trace)) < 50);
    }

    #[test]
    fn burstiness_is_the_shape_of_a_gamma_distribution() {
        for (shape, expected) in [(0.25, 2.0), (1.0, 1.0), (4.0, 0.5)] {
            let mut rng = SplitMix64::new(5);
            let drawn: Vec<f64> = (0..20_000).map(|_| gamma(&mut rng, shape)).collect();
            let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
            assert!((mean / shape - 1.0).abs() < 0.05, "{mean} for {shape}");
            assert!((variation(&drawn) / expected - 1.0).abs() < 0.05, "{} for {shape}", variation(&drawn));
            let trace = Synthetic::Rag.trace(4_000, 1).with_burstiness(shape, 7);
            let varied = variation(&gaps(&trace));
            assert!((varied / expected - 1.0).abs() < 0.12, "{varied} for {shape}");
        }
    }
}
