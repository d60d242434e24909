//! Min-max normalization: costs as scores, 1 for the cheapest and 0 for the dearest.
//!
//! Two passes, so that nothing is kept in between: the first finds the span of the costs, the second fills in. Every
//! operation on the way is monotone, rounding included, so a cheaper candidate never scores below a dearer one.

use kv_index::{Matches, PodId, PodSet};
use routing_core::Scores;

/// From the least of some numbers to the most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    least: f64,
    most: f64,
}

impl Span {
    /// Of no numbers.
    pub(crate) const EMPTY: Self = Self { least: f64::INFINITY, most: f64::NEG_INFINITY };

    #[inline]
    pub(crate) fn add(&mut self, number: f64) {
        self.least = self.least.min(number);
        self.most = self.most.max(number);
    }

    /// The same for a number that is not NaN, as vectors have it.
    #[inline]
    fn add_number(&mut self, number: f64) {
        self.least = if number < self.least { number } else { self.least };
        self.most = if number > self.most { number } else { self.most };
    }

    pub(crate) fn most(&self) -> f64 {
        self.most
    }

    /// How far apart they lie; 0 if there are none.
    pub(crate) fn width(&self) -> f64 {
        (self.most - self.least).max(0.0)
    }

    /// 1 for the least, 0 for the most, 1 if they are the same.
    #[inline]
    pub(crate) fn falling(&self, number: f64) -> f32 {
        self.share(self.most, number) as f32
    }

    /// 0 for the least, 1 for the most, 1 if they are the same.
    #[inline]
    pub(crate) fn rising(&self, number: f64) -> f32 {
        self.position(number) as f32
    }

    /// The same in full.
    pub(crate) fn position(&self, number: f64) -> f64 {
        self.share(number, self.least)
    }

    /// Halves: the width of any two finite numbers is then finite too.
    #[inline]
    fn half_width(&self) -> f64 {
        self.most * 0.5 - self.least * 0.5
    }

    #[inline]
    fn share(&self, high: f64, low: f64) -> f64 {
        let width = self.half_width();
        if width > 0.0 { (high * 0.5 - low * 0.5) / width } else { 1.0 }
    }
}

/// Spans of numbers that are dealt to lanes: one after another, each would wait for the one before it.
#[derive(Clone, Copy, Debug)]
struct Spans {
    least: [f64; LANES],
    most: [f64; LANES],
}

impl Spans {
    const EMPTY: Self = Self { least: [Span::EMPTY.least; LANES], most: [Span::EMPTY.most; LANES] };

    #[inline]
    fn add(&mut self, numbers: &[f64; LANES]) {
        let Self { least, most } = *self;
        // What is kept comes first: it stays in its register.
        self.least = std::array::from_fn(|lane| if least[lane] < numbers[lane] { least[lane] } else { numbers[lane] });
        self.most = std::array::from_fn(|lane| if most[lane] > numbers[lane] { most[lane] } else { numbers[lane] });
    }

    /// The span of all of them, and of another one's.
    fn join(self, mut span: Span) -> Span {
        for least in self.least {
            span.least = if least < span.least { least } else { span.least };
        }
        for most in self.most {
            span.most = if most > span.most { most } else { span.most };
        }
        span
    }
}

/// Numbers that are compared at once.
const LANES: usize = 8;

/// Scores every candidate by what it costs, given how many leading blocks of the prompt it holds.
pub(crate) fn by_cost_and_depth<const W: usize>(
    scores: &mut Scores<'_, W>,
    held: &Matches<W>,
    cost: impl Fn(PodId, usize) -> f64,
) {
    let (candidates, mut span) = (scores.candidates(), Span::EMPTY);
    by_depth(Some(held), candidates, |pods, depth| pods.iter().for_each(|pod| span.add(cost(pod, depth))));
    by_depth(Some(held), candidates, |pods, depth| {
        pods.iter().for_each(|pod| scores.set(pod, span.falling(cost(pod, depth))));
    });
}

/// Scores every candidate by what it costs; the costs of all pods stand side by side, and none is NaN.
#[inline]
pub(crate) fn by_cost<const W: usize>(scores: &mut Scores<'_, W>, costs: &[f64]) {
    let span = span_of(scores.candidates(), costs);
    // Whether costs differ is told once, so that the loop is nothing but arithmetic.
    let (width, half_width) = (span.most - span.least, span.half_width());
    let scale = 1.0 / width;
    if width.is_finite() && scale.is_finite() {
        // Vectors multiply several times as fast as they divide.
        scores.fill_from(costs, |cost| ((span.most - cost) * scale) as f32);
    } else if half_width > 0.0 {
        scores.fill_from(costs, |cost| ((span.most * 0.5 - cost * 0.5) / half_width) as f32);
    } else {
        scores.fill_from(costs, |_| 1.0);
    }
}

/// The span of what candidates cost, of whom there is one at least.
#[inline]
fn span_of<const W: usize>(candidates: PodSet<W>, costs: &[f64]) -> Span {
    let (mut spans, mut span) = (Spans::EMPTY, Span::EMPTY);
    for (word, costs) in candidates.words().iter().zip(costs.chunks(64)) {
        if *word == u64::MAX {
            let whole = costs.chunks_exact(LANES);
            whole.remainder().iter().for_each(|cost| span.add_number(*cost));
            whole.filter_map(<[f64]>::first_chunk).for_each(|numbers| spans.add(numbers));
            continue;
        }
        let mut bits = *word;
        while bits != 0 {
            costs.get(bits.trailing_zeros() as usize).into_iter().for_each(|cost| span.add_number(*cost));
            bits &= bits - 1;
        }
    }
    spans.join(span)
}

/// `number.min(f64::MAX)`, as vectors have it.
#[inline]
pub(super) fn finite(number: f64) -> f64 {
    if number < f64::MAX { number } else { f64::MAX }
}

/// Candidates by how many leading blocks they hold, whole groups at once; those that hold nothing come last.
pub(crate) fn by_depth<const W: usize>(
    held: Option<&Matches<W>>,
    candidates: PodSet<W>,
    mut visit: impl FnMut(PodSet<W>, usize),
) {
    let mut rest = candidates;
    for group in held.map_or(&[][..], Matches::groups) {
        visit(group.pods & candidates, group.depth);
        rest = rest - group.pods;
    }
    visit(rest, 0);
}

/// How much of a KV cache is in use, whatever stands in a load: what is not a number counts as full.
#[inline]
pub(crate) fn kv_used(reported: f32) -> f64 {
    f64::from(crate::load::share(reported))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use routing_core::{PluginError, RoutingContext, Scorer};

    use super::*;
    use crate::score::testing::Scene;

    fn span(numbers: &[f64]) -> Span {
        let mut span = Span::EMPTY;
        numbers.iter().for_each(|number| span.add(*number));
        span
    }

    #[test]
    fn the_cheapest_gets_1_and_the_dearest_0() {
        let span = span(&[2.0, 4.0, 10.0]);
        assert_eq!([2.0, 4.0, 10.0].map(|cost| span.falling(cost)), [1.0, 0.75, 0.0]);
        assert_eq!([2.0, 4.0, 10.0].map(|cost| span.rising(cost)), [0.0, 0.25, 1.0]);
    }

    #[test]
    fn equals_all_get_1() {
        let equal = span(&[7.0, 7.0]);
        assert_eq!((equal.falling(7.0), equal.rising(7.0), equal.width()), (1.0, 1.0, 0.0));
    }

    #[test]
    fn a_cache_of_unknown_use_counts_as_full() {
        assert_eq!([f32::NAN, -1.0, 0.25, 9.0].map(kv_used), [1.0, 0.0, 0.25, 1.0]);
    }

    /// Scores by given costs.
    struct ByCost(Vec<f64>);

    impl Scorer for ByCost {
        fn score(&self, _: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
            by_cost(scores, &self.0);
            Ok(())
        }
    }

    proptest! {
        /// Many at once have the span that one by one they have, whoever is a candidate.
        #[test]
        fn numbers_at_once_are_numbers_one_by_one(
            numbers in prop::collection::vec(-f64::MAX..f64::MAX, 1..140),
            words: [u64; 2],
            all: [bool; 2],
        ) {
            let words = std::array::from_fn(|at| if all[at] { u64::MAX } else { words[at] });
            let candidates = PodSet::<2>::from_words(words);
            let asked: Vec<f64> = candidates.iter().filter_map(|pod| numbers.get(pod.index()).copied()).collect();
            let (one_by_one, at_once) = (span(&asked), span_of(candidates, &numbers));
            prop_assert_eq!((at_once.least, at_once.most), (one_by_one.least, one_by_one.most));
        }

        /// However costs are made scores, by a product or by quotients, the order of candidates is that of their costs.
        #[test]
        fn by_cost_keeps_the_order(
            costs in prop::collection::vec(
                prop_oneof![-1e3..1e3f64, -f64::MAX..f64::MAX, Just(1.0), Just(1.0 + f64::EPSILON), Just(f64::MIN_POSITIVE)], 20),
            offered in prop::collection::btree_set(0..20usize, 1..20),
        ) {
            let mut scene = Scene::new(20);
            scene.offer(&offered);
            let given = ByCost(costs.clone());
            let scores = scene.scores(move |_| given);
            for (a, b) in offered.iter().flat_map(|a| offered.iter().map(move |b| (*a, *b))) {
                prop_assert!((0.0..=1.0).contains(&scores[a]), "{}", scores[a]);
                prop_assert!(costs[a] > costs[b] || scores[a] >= scores[b], "{} {}", costs[a], costs[b]);
            }
        }

        /// Scores lie in 0..=1 and never turn the order of the costs round, however large these are.
        #[test]
        fn order_is_kept(costs in prop::collection::vec(-f64::MAX..f64::MAX, 1..20)) {
            let span = span(&costs);
            for a in &costs {
                prop_assert!((0.0..=1.0).contains(&span.falling(*a)), "{}", span.falling(*a));
                for b in &costs {
                    prop_assert!(a > b || span.falling(*a) >= span.falling(*b));
                    prop_assert!(a > b || span.rising(*a) <= span.rising(*b));
                }
            }
        }
    }
}
