//! Context-length ranges, as pods are labelled with them.

use std::str::FromStr;

/// The prompts that a pod is meant for, by their length in tokens; both ends are in it.
///
/// # Examples
///
/// ```
/// use routing_plugins::extra::ContextRange;
///
/// let range = ContextRange::parse("2048-8192")?;
/// assert!(range.contains(2048) && range.contains(8192) && !range.contains(8193));
/// # Ok::<(), routing_plugins::extra::ContextRangeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextRange {
    min: u64,
    max: u64,
}

/// Why a text is no range. The fault of whoever labelled the pod.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextRangeError {
    /// It is not two parts with a `-` between them.
    #[error("`{0}` is not of the form `min-max`")]
    Form(Box<str>),
    /// A part is not a whole number.
    #[error("`{0}` is not a whole number")]
    Number(Box<str>),
    /// It begins after its end.
    #[error("a range from {min} cannot end at {max}")]
    Reversed {
        /// Its begin.
        min: u64,
        /// Its end.
        max: u64,
    },
}

impl ContextRange {
    /// A range of the form `min-max`, in tokens; there may be white space around the numbers.
    ///
    /// # Errors
    ///
    /// When it is of another form, or begins after its end.
    pub fn parse(text: &str) -> Result<Self, ContextRangeError> {
        let parts = text.split_once('-').filter(|(_, max)| !max.contains('-'));
        let (min, max) = parts.ok_or_else(|| ContextRangeError::Form(text.into()))?;
        let number = |part: &str| part.trim().parse().map_err(|_| ContextRangeError::Number(part.trim().into()));
        let (min, max) = (number(min)?, number(max)?);
        if min > max { Err(ContextRangeError::Reversed { min, max }) } else { Ok(Self { min, max }) }
    }

    /// The shortest prompt.
    #[must_use]
    pub const fn min(self) -> u64 {
        self.min
    }

    /// The longest prompt.
    #[must_use]
    pub const fn max(self) -> u64 {
        self.max
    }

    /// Whether prompts of a length are in it.
    #[must_use]
    pub const fn contains(self, tokens: u64) -> bool {
        self.min <= tokens && tokens <= self.max
    }
}

impl FromStr for ContextRange {
    type Err = ContextRangeError;

    fn from_str(text: &str) -> Result<Self, ContextRangeError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn other_texts_are_refused_with_a_reason() {
        let error = |text| ContextRange::parse(text).unwrap_err().to_string();
        assert_eq!(error(""), "`` is not of the form `min-max`");
        assert_eq!(error("100"), "`100` is not of the form `min-max`");
        assert_eq!(error("0-100-200"), "`0-100-200` is not of the form `min-max`");
        assert_eq!(error("-5-10"), "`-5-10` is not of the form `min-max`");
        assert_eq!(error("abc-100"), "`abc` is not a whole number");
        assert_eq!(error("0- x"), "`x` is not a whole number");
        assert_eq!(error("0-"), "`` is not a whole number");
        assert_eq!(error("9-1"), "a range from 9 cannot end at 1");
    }

    proptest! {
        #[test]
        fn both_ends_are_in_it(a in 0u64..=u64::MAX, b in 0u64..=u64::MAX, at in 0u64..=u64::MAX) {
            let (min, max) = (a.min(b), a.max(b));
            let range = ContextRange::parse(&format!(" {min} - {max}")).unwrap();
            prop_assert_eq!((range.min(), range.max()), (min, max));
            prop_assert!(range.contains(min) && range.contains(max));
            prop_assert_eq!(range.contains(at), (min..=max).contains(&at));
        }
    }
}
