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

    /// The same for many, which are dealt to lanes: one after another, each would wait for the one before it.
    #[inline]
    fn add_numbers(&mut self, numbers: &[f64]) {
        let (mut least, mut most) = ([self.least; LANES], [self.most; LANES]);
        let whole = numbers.chunks_exact(LANES);
        let rest = whole.remainder();
        for numbers in whole.filter_map(<[f64]>::first_chunk::<LANES>) {
            for (lane, number) in numbers.iter().enumerate() {
                least[lane] = if *number < least[lane] { *number } else { least[lane] };
                most[lane] = if *number > most[lane] { *number } else { most[lane] };
            }
        }
        self.least = least.into_iter().fold(self.least, f64::min);
        self.most = most.into_iter().fold(self.most, f64::max);
        rest.iter().for_each(|number| self.add_number(*number));
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
    let mut span = Span::EMPTY;
    for (word, costs) in scores.candidates().words().iter().zip(costs.chunks(64)) {
        if *word == u64::MAX {
            span.add_numbers(costs);
            continue;
        }
        let mut bits = *word;
        while bits != 0 {
            costs.get(bits.trailing_zeros() as usize).into_iter().for_each(|cost| span.add_number(*cost));
            bits &= bits - 1;
        }
    }
    // Whether costs differ is told once, so that the loop is nothing but arithmetic.
    let width = span.half_width();
    if width > 0.0 {
        let most = span.most * 0.5;
        scores.fill_from(costs, |cost| ((most - cost * 0.5) / width) as f32);
    } else {
        scores.fill_from(costs, |_| 1.0);
    }
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

    use super::*;

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

    proptest! {
        /// Many at once have the span that one by one they have.
        #[test]
        fn numbers_at_once_are_numbers_one_by_one(numbers in prop::collection::vec(-f64::MAX..f64::MAX, 1..40)) {
            let (one_by_one, mut at_once) = (span(&numbers), Span::EMPTY);
            at_once.add_numbers(&numbers);
            prop_assert_eq!((at_once.least, at_once.most), (one_by_one.least, one_by_one.most));
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
