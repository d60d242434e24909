//! What can be wrong with a command line, in words for the one who typed it.

use std::fmt;
use std::ops::RangeInclusive;

/// Why the arguments were not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UsageError {
    /// There is no such flag.
    Unknown(String),
    /// The flag came last, without a value.
    NoValue(&'static str),
    /// The value is no number in the flag's range.
    BadValue {
        /// Which flag.
        flag: &'static str,
        /// What it was given.
        value: String,
        /// What it takes.
        range: RangeInclusive<u64>,
    },
    /// A pod could not hold the longest conversation.
    TooSmall {
        /// Blocks a pod can cache.
        capacity: u64,
        /// Turns of a conversation.
        turns: u64,
        /// Blocks so many turns may need.
        needed: u64,
    },
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "unknown argument `{name}`"),
            Self::NoValue(flag) => write!(f, "`{flag}` needs a value"),
            Self::BadValue { flag, value, range } if *range.end() == u64::MAX => {
                write!(f, "`{flag}` takes a whole number from {} on, not `{value}`", range.start())
            }
            Self::BadValue { flag, value, range } => {
                write!(f, "`{flag}` takes a whole number from {} to {}, not `{value}`", range.start(), range.end())
            }
            Self::TooSmall { capacity, turns, needed } => {
                write!(
                    f,
                    "`--capacity {capacity}` is too small: a conversation of {turns} turns may need {needed} blocks"
                )
            }
        }
    }
}

impl std::error::Error for UsageError {}
