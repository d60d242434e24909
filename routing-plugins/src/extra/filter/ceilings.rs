//! Priority ceilings: the share of a limit that requests of a priority may fill.

use crate::parameters::Fraction;

/// Ceilings by priority: the share of a limit that requests of a priority may fill.
///
/// Spread from `max`, for the highest priority, down to `min`, for the lowest:
///
/// - By rank, over a list of N priorities: the i-th from the top (i = 0, 1, …) has max − i × (max − min) ÷ (N − 1). A
///   priority between two of the list has the ceiling of the lower one; one below the list has `min`.
/// - By value, from a lowest to a highest priority: min + (p − lowest) ÷ (highest − lowest) × (max − min), where p is
///   brought into that range.
///
/// Where there is only one priority, nobody has to stand back: its ceiling is `max`.
///
/// # Examples
///
/// ```
/// use routing_plugins::Fraction;
/// use routing_plugins::extra::Ceilings;
///
/// let half = Fraction::new(0.5).expect("in range");
/// let ceilings = Ceilings::by_rank(&[100, 50, 10], half, Fraction::ONE)?;
/// assert_eq!([100, 50, 10].map(|priority| ceilings.of(priority)), [1.0, 0.75, 0.5]);
/// let ceilings = Ceilings::by_value(10, 90, half, Fraction::ONE)?;
/// assert_eq!(ceilings.of(30), 0.625);
/// # Ok::<(), routing_plugins::extra::CeilingsError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "Raw"))]
pub struct Ceilings {
    spread: Spread,
    min: f64,
    max: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Spread {
    /// Priorities, lowest first, without repetition.
    Rank(Box<[i32]>),
    Value {
        lowest: i32,
        highest: i32,
    },
}

/// Why ceilings cannot be. An operator's to fix.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CeilingsError {
    /// Lower priorities would have more room than higher ones.
    #[error("`min` is {min}, above `max`, which is {max}")]
    Reversed {
        /// The lowest ceiling.
        min: f32,
        /// The highest ceiling.
        max: f32,
    },
    /// The range of priorities is the wrong way round.
    #[error("`lowest` is {lowest}, above `highest`, which is {highest}")]
    Range {
        /// The lowest priority.
        lowest: i32,
        /// The highest priority.
        highest: i32,
    },
    /// The list is empty.
    #[error("`priorities` is empty")]
    NoPriorities,
    /// Priorities are neither listed nor is their range given, or both are.
    #[error("give `priorities`, or `lowest` and `highest`")]
    Unclear,
}

impl Ceilings {
    /// Ceilings by rank among these priorities, in any order.
    ///
    /// # Errors
    ///
    /// When there is no priority, or `min` is above `max`.
    pub fn by_rank(priorities: &[i32], min: Fraction, max: Fraction) -> Result<Self, CeilingsError> {
        let mut priorities = priorities.to_vec();
        priorities.sort_unstable();
        priorities.dedup();
        if priorities.is_empty() {
            return Err(CeilingsError::NoPriorities);
        }
        Self::new(Spread::Rank(priorities.into()), min, max)
    }

    /// Ceilings in proportion to the priority.
    ///
    /// # Errors
    ///
    /// When `lowest` is above `highest`, or `min` above `max`.
    pub fn by_value(lowest: i32, highest: i32, min: Fraction, max: Fraction) -> Result<Self, CeilingsError> {
        if lowest > highest {
            return Err(CeilingsError::Range { lowest, highest });
        }
        Self::new(Spread::Value { lowest, highest }, min, max)
    }

    /// The share that requests of a priority may fill.
    #[must_use]
    pub fn of(&self, priority: i32) -> f64 {
        let (steps, from_top) = match &self.spread {
            Spread::Rank(priorities) => {
                let reached = priorities.partition_point(|known| *known <= priority).max(1);
                (priorities.len() - 1, priorities.len() - reached)
            }
            Spread::Value { lowest, highest } => {
                let below = |from: i32, to: i32| from.abs_diff(to) as usize;
                (below(*lowest, *highest), below(priority.clamp(*lowest, *highest), *highest))
            }
        };
        self.max - from_top as f64 * (self.max - self.min) / steps.max(1) as f64
    }

    fn new(spread: Spread, min: Fraction, max: Fraction) -> Result<Self, CeilingsError> {
        let (min, max) = (min.get(), max.get());
        if min > max {
            return Err(CeilingsError::Reversed { min, max });
        }
        Ok(Self { spread, min: decimal(min), max: decimal(max) })
    }
}

/// The double of what was written: 0.7 as a single is 0.699999988, and that is not meant.
fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}

/// Ceilings as documents give them.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    priorities: Option<Vec<i32>>,
    lowest: Option<i32>,
    highest: Option<i32>,
    min: Fraction,
    #[serde(default = "whole")]
    max: Fraction,
}

#[cfg(feature = "serde")]
fn whole() -> Fraction {
    Fraction::ONE
}

#[cfg(feature = "serde")]
impl TryFrom<Raw> for Ceilings {
    type Error = CeilingsError;

    fn try_from(raw: Raw) -> Result<Self, CeilingsError> {
        match (raw.priorities, raw.lowest, raw.highest) {
            (Some(priorities), None, None) => Self::by_rank(&priorities, raw.min, raw.max),
            (None, Some(lowest), Some(highest)) => Self::by_value(lowest, highest, raw.min, raw.max),
            _ => Err(CeilingsError::Unclear),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fraction(number: f32) -> Fraction {
        Fraction::new(number).unwrap()
    }

    #[test]
    fn ranks_are_evenly_spread() {
        let ceilings = Ceilings::by_rank(&[10, 100, 50, 50], fraction(0.5), Fraction::ONE).unwrap();
        let of = |priorities: &[i32]| priorities.iter().map(|priority| ceilings.of(*priority)).collect::<Vec<_>>();
        assert_eq!(of(&[100, 50, 10]), [1.0, 0.75, 0.5]);
        assert_eq!(of(&[i32::MAX, 99, 49, 9, i32::MIN]), [1.0, 0.75, 0.5, 0.5, 0.5]);
    }

    #[test]
    fn values_are_in_proportion() {
        let ceilings = Ceilings::by_value(10, 100, fraction(0.5), Fraction::ONE).unwrap();
        for (priority, ceiling) in [(100, 1.0), (50, 0.722_222), (10, 0.5), (0, 0.5), (200, 1.0)] {
            assert!((ceilings.of(priority) - ceiling).abs() < 1e-5, "{priority}");
        }
        let widest = Ceilings::by_value(i32::MIN, i32::MAX, Fraction::ZERO, Fraction::ONE).unwrap();
        assert!((widest.of(0) - 0.5).abs() < 1e-6);
    }

    #[test]
    fn a_single_priority_is_not_held_back() {
        assert_eq!(Ceilings::by_rank(&[7], fraction(0.5), fraction(0.75)).unwrap().of(7), 0.75);
        assert_eq!(Ceilings::by_value(7, 7, fraction(0.5), fraction(0.75)).unwrap().of(0), 0.75);
    }

    #[test]
    fn odd_ceilings_are_refused() {
        assert_eq!(Ceilings::by_rank(&[], Fraction::ZERO, Fraction::ONE), Err(CeilingsError::NoPriorities));
        let range = CeilingsError::Range { lowest: 2, highest: 1 };
        assert_eq!(Ceilings::by_value(2, 1, Fraction::ZERO, Fraction::ONE), Err(range));
        let reversed = CeilingsError::Reversed { min: 1.0, max: 0.0 };
        assert_eq!(Ceilings::by_rank(&[1], Fraction::ONE, Fraction::ZERO), Err(reversed));
    }

    proptest! {
        /// Whoever has the higher priority has no less room, and nobody has less than `min` or more than `max`.
        #[test]
        fn ceilings_rise_with_priority(
            priorities in prop::collection::vec(any::<i32>(), 1..6),
            by_rank in any::<bool>(),
            (a, b) in (any::<i32>(), any::<i32>()),
            (min, max) in (0.0f32..=0.5, 0.5f32..=1.0),
        ) {
            let (lowest, highest) = (*priorities.iter().min().unwrap(), *priorities.iter().max().unwrap());
            let (min, max) = (fraction(min), fraction(max));
            let ceilings = if by_rank {
                Ceilings::by_rank(&priorities, min, max)
            } else {
                Ceilings::by_value(lowest, highest, min, max)
            };
            let ceilings = ceilings.unwrap();
            prop_assert!(ceilings.of(a.min(b)) <= ceilings.of(a.max(b)));
            prop_assert!((f64::from(min.get()) - 1e-7..=f64::from(max.get()) + 1e-7).contains(&ceilings.of(a)));
            prop_assert_eq!(ceilings.of(highest) as f32, max.get());
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn documents_list_priorities_or_give_their_range() {
        let read = |text| serde_json::from_str::<Ceilings>(text).map_err(|error| error.to_string());
        let by_rank = Ceilings::by_rank(&[2, 1], fraction(0.5), Fraction::ONE).unwrap();
        assert_eq!(read(r#"{"priorities": [1, 2], "min": 0.5}"#), Ok(by_rank));
        let by_value = Ceilings::by_value(0, 9, fraction(0.25), fraction(0.5)).unwrap();
        assert_eq!(read(r#"{"lowest": 0, "highest": 9, "min": 0.25, "max": 0.5}"#), Ok(by_value));
        for odd in [
            r#"{"min": 0.5}"#,
            r#"{"lowest": 0, "min": 0.5}"#,
            r#"{"priorities": [1], "lowest": 0, "highest": 9, "min": 0.5}"#,
        ] {
            assert_eq!(read(odd), Err(CeilingsError::Unclear.to_string()), "{odd}");
        }
        assert!(read(r#"{"priorities": [1], "min": 2}"#).is_err());
    }
}
