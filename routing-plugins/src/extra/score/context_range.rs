//! Context-length scorer: pods labelled for prompts of this length.

use routing_core::{Declare, PluginError, PodInfo, Read, RoutingContext, Scorer, Scores};

use crate::extra::{ContextRange, ContextRangeParameters};
use crate::tokens::PromptTokens;

/// Scores how well a candidate's range of lengths fits the prompt: 1 for the narrowest fit, towards 0 the farther off.
///
/// In its range, ends included: `0.3 + 0.7 · (0.7 / (1 + width / 10000) + 0.3 · (most − length) / width)`, so narrow ranges and
/// room above the prompt are better; 1 in a range of one length. Out of it: `0.3 / (1 + distance / 1000)`, always below any
/// fit. A pod without the label gets 0.5, one whose label is no [range](ContextRange) 0.
#[derive(Debug)]
pub struct ContextRangeScorer {
    label: Box<str>,
    tokens: Read<PromptTokens>,
}

impl ContextRangeScorer {
    /// Declares that it reads the prompt's tokens.
    pub fn declare(declare: &mut Declare<'_>, parameters: ContextRangeParameters) -> Self {
        Self { label: parameters.label, tokens: declare.reads() }
    }

    fn score(&self, info: &PodInfo, length: u64) -> f32 {
        let Some((_, range)) = info.labels.iter().find(|(key, _)| **key == *self.label) else { return 0.5 };
        ContextRange::parse(range).map_or(0.0, |range| fit((range.min(), range.max()), length) as f32)
    }
}

impl<const W: usize> Scorer<W> for ContextRangeScorer {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let length = context.read(self.tokens)?.of(context.request()).len() as u64;
        let fleet = context.fleet();
        scores.fill(|pod| fleet.pod(pod).map_or(0.0, |info| self.score(info, length)));
        Ok(())
    }
}

fn fit((least, most): (u64, u64), length: u64) -> f64 {
    if length < least || most < length {
        let distance = least.saturating_sub(length).max(length.saturating_sub(most));
        return OFF / (1.0 + distance as f64 / 1000.0);
    }
    let width = (most - least) as f64;
    if width == 0.0 {
        return 1.0;
    }
    let narrow = 1.0 / (1.0 + width / 10_000.0);
    OFF + (1.0 - OFF) * (0.7 * narrow + 0.3 * (most - length) as f64 / width)
}

/// What a pod gets at most that is meant for other lengths.
const OFF: f64 = 0.3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::score::testing::Scene;

    fn scores(length: usize, ranges: &[Option<&str>]) -> Vec<f32> {
        let scene = Scene::new(ranges.len()).prompt(length, &[]);
        let scene = scene.infos(|at, info| match ranges[at] {
            Some(range) => info.label("context-length-range", range),
            None => info,
        });
        scene.scores(|d| ContextRangeScorer::declare(d, ContextRangeParameters::default()))
    }

    #[test]
    fn narrow_fits_beat_wide_ones_and_those_beat_misses() {
        let scores =
            scores(100, &[Some("100-100"), Some("0-200"), Some("0 - 10000"), Some("1100-9999"), Some("0-50"), None]);
        let expected = [1.0, 0.3 + 0.7 * (0.7 / 1.02 + 0.15), 0.3 + 0.7 * (0.35 + 0.3 * 0.99), 0.15, 0.3 / 1.05, 0.5];
        assert!(scores.iter().zip(expected).all(|(a, b)| (a - b as f32).abs() < 1e-6), "{scores:?}");
    }

    #[test]
    fn what_is_no_range_gets_0() {
        let odd = [Some(""), Some("abc-100"), Some("0-100-200"), Some("9-1"), Some("-5-10"), Some("7")];
        assert_eq!(scores(5, &odd), [0.0; 6]);
    }

    proptest! {
        /// Whatever the ranges, scores lie in 0..=1, and a fit is better than a miss.
        #[test]
        fn a_fit_is_better_than_a_miss(a in any::<[u64; 2]>(), b in any::<[u64; 2]>(), length in any::<u64>()) {
            let [a, b] = [a, b].map(|range| (range[0].min(range[1]), range[0].max(range[1])));
            let fits = |range: (u64, u64)| range.0 <= length && length <= range.1;
            prop_assert!((0.0..=1.0).contains(&fit(a, length)));
            prop_assert!(!fits(a) || fits(b) || fit(a, length) > fit(b, length));
        }
    }
}
