//! Load metrics by name, and comparisons of them.

use crate::load::{PodLoad, share};

/// A figure of a pod's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Metric {
    /// Requests sent from here that are not done.
    InFlightRequests,
    /// Of those, the ones without a first token.
    Prefilling,
    /// Tokens of their prompts and answers.
    InFlightTokens,
    /// Tokens that have to be computed before their first tokens can come.
    UncachedTokens,
    /// Requests, merged of what was sent from here and what the engine reports.
    Requests,
    /// Tokens, merged in the same way.
    Tokens,
    /// Requests that the engine works on.
    Running,
    /// Requests that wait in the engine.
    Waiting,
    /// How much of the KV cache is in use, 0..=1; what is not a number counts as full.
    KvUsed,
}

impl Metric {
    /// The figure of a pod.
    #[must_use]
    #[inline]
    pub fn of(self, load: &PodLoad) -> f64 {
        match self {
            Self::InFlightRequests => f64::from(load.in_flight.requests),
            Self::Prefilling => f64::from(load.in_flight.prefilling),
            Self::InFlightTokens => load.in_flight.prompt_tokens.saturating_add(load.in_flight.output_tokens) as f64,
            Self::UncachedTokens => load.in_flight.uncached_tokens as f64,
            Self::Requests => f64::from(load.requests),
            Self::Tokens => load.tokens as f64,
            Self::Running => f64::from(load.running),
            Self::Waiting => f64::from(load.waiting),
            Self::KvUsed => f64::from(share(load.kv_used)),
        }
    }

    /// Whether only the engine knows it.
    #[must_use]
    pub const fn is_reported(self) -> bool {
        matches!(self, Self::Running | Self::Waiting | Self::KvUsed)
    }

    /// A number to compare the figure with, as precise as the figure is: 0.8 must be 0.8.
    pub(crate) fn precise(self, number: f64) -> f64 {
        if self == Self::KvUsed { f64::from(number as f32) } else { number }
    }
}

/// How a figure must stand to a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[expect(clippy::exhaustive_enums, reason = "the ways in which two numbers compare: complete by nature")]
pub enum Comparison {
    /// Less than it.
    #[cfg_attr(feature = "serde", serde(alias = "<"))]
    Below,
    /// It or less.
    #[cfg_attr(feature = "serde", serde(alias = "<="))]
    AtMost,
    /// The same.
    #[cfg_attr(feature = "serde", serde(alias = "=="))]
    Equal,
    /// Not the same.
    #[cfg_attr(feature = "serde", serde(alias = "!="))]
    NotEqual,
    /// It or more.
    #[cfg_attr(feature = "serde", serde(alias = ">="))]
    AtLeast,
    /// More than it.
    #[cfg_attr(feature = "serde", serde(alias = ">"))]
    Above,
}

impl Comparison {
    /// Whether a figure stands so to a number.
    #[must_use]
    #[inline]
    pub fn holds(self, figure: f64, number: f64) -> bool {
        match self {
            Self::Below => figure < number,
            Self::AtMost => figure <= number,
            Self::Equal => figure == number,
            Self::NotEqual => figure != number,
            Self::AtLeast => figure >= number,
            Self::Above => figure > number,
        }
    }
}

/// What becomes of a pod of which something is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[expect(clippy::exhaustive_enums, reason = "it stays or it goes: complete by nature")]
pub enum Unknown {
    /// It stays.
    Keep,
    /// It goes.
    #[default]
    Remove,
}

/// What is made of an engine's figures when there is no [report that counts](PodLoad::is_reported): their age is not known,
/// or is too high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[expect(clippy::exhaustive_enums, reason = "believe it, or one of both ways not to: complete by nature")]
pub enum Unreported {
    /// They are taken as they are: right where the host says nothing of ages.
    #[default]
    Trust,
    /// The pod stays, whatever they are.
    Keep,
    /// The pod goes, whatever they are.
    Remove,
}

impl Unreported {
    /// What becomes of a pod by this alone, if it is not asked for its figures.
    #[inline]
    pub(crate) const fn verdict(self, load: &PodLoad) -> Option<bool> {
        match (self, load.is_reported()) {
            (Self::Trust, _) | (_, true) => None,
            (Self::Keep, false) => Some(true),
            (Self::Remove, false) => Some(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_metric_is_its_own_figure() {
        let mut load = PodLoad { requests: 1, running: 2, waiting: 3, tokens: 4, kv_used: 0.5, ..PodLoad::default() };
        (load.in_flight.requests, load.in_flight.prefilling) = (6, 7);
        (load.in_flight.prompt_tokens, load.in_flight.output_tokens, load.in_flight.uncached_tokens) = (8, 9, 10);
        let figures = [
            (Metric::InFlightRequests, 6.0),
            (Metric::Prefilling, 7.0),
            (Metric::InFlightTokens, 17.0),
            (Metric::UncachedTokens, 10.0),
            (Metric::Requests, 1.0),
            (Metric::Tokens, 4.0),
            (Metric::Running, 2.0),
            (Metric::Waiting, 3.0),
            (Metric::KvUsed, 0.5),
        ];
        for (metric, figure) in figures {
            assert_eq!(metric.of(&load), figure, "{metric:?}");
        }
    }

    #[test]
    fn what_is_not_a_number_counts_as_full() {
        let of = |kv_used| Metric::KvUsed.of(&PodLoad { kv_used, ..PodLoad::default() });
        assert_eq!([f32::NAN, f32::INFINITY, -1.0].map(of), [1.0, 1.0, 0.0]);
    }

    #[test]
    fn a_single_equals_the_number_it_was_made_of() {
        for number in [0.1, 0.8, 0.96, 0.3] {
            let load = PodLoad { kv_used: number as f32, ..PodLoad::default() };
            assert!(Comparison::Equal.holds(Metric::KvUsed.of(&load), Metric::KvUsed.precise(number)), "{number}");
        }
    }

    #[test]
    fn comparisons_are_what_they_say() {
        let holds = |is: Comparison| [1.0, 2.0, 3.0].map(|figure| is.holds(figure, 2.0));
        assert_eq!(holds(Comparison::Below), [true, false, false]);
        assert_eq!(holds(Comparison::AtMost), [true, true, false]);
        assert_eq!(holds(Comparison::Equal), [false, true, false]);
        assert_eq!(holds(Comparison::NotEqual), [true, false, true]);
        assert_eq!(holds(Comparison::AtLeast), [false, true, true]);
        assert_eq!(holds(Comparison::Above), [false, false, true]);
    }

    #[test]
    fn ages_matter_unless_trusted() {
        let (old, new) = (PodLoad::default(), PodLoad { age: Some(Duration::ZERO), ..PodLoad::default() });
        let stale = PodLoad { stale: true, ..new };
        let verdicts = |unreported: Unreported| [old, stale, new].map(|load| unreported.verdict(&load));
        assert_eq!(verdicts(Unreported::Trust), [None; 3]);
        assert_eq!(verdicts(Unreported::Keep), [Some(true), Some(true), None]);
        assert_eq!(verdicts(Unreported::Remove), [Some(false), Some(false), None]);
    }
}
