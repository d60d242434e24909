//! Range-checked numbers: parameters that are valid by construction.

/// A number in 0..=1.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "f64"))]
pub struct Fraction(f32);

impl Fraction {
    /// None of it.
    pub const ZERO: Self = Self(0.0);
    /// All of it.
    pub const ONE: Self = Self(1.0);

    /// A number, if it is in 0..=1.
    #[must_use]
    pub const fn new(number: f32) -> Option<Self> {
        if number >= 0.0 && number <= 1.0 { Some(Self(number)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f32 {
        self.0
    }
}

impl TryFrom<f64> for Fraction {
    type Error = OutOfRange;

    fn try_from(number: f64) -> Result<Self, OutOfRange> {
        Self::new(number as f32).ok_or(OutOfRange { range: "0..=1", found: number })
    }
}

/// A finite number above 0.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "f64"))]
pub struct Positive(f64);

impl Positive {
    /// A number, if it is finite and above 0.
    #[must_use]
    pub const fn new(number: f64) -> Option<Self> {
        if number > 0.0 && number.is_finite() { Some(Self(number)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Positive {
    type Error = OutOfRange;

    fn try_from(number: f64) -> Result<Self, OutOfRange> {
        Self::new(number).ok_or(OutOfRange { range: "above 0 and finite", found: number })
    }
}

/// A finite number, 0 or above.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "f64"))]
pub struct Amount(f64);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);
    /// Counted as it is.
    pub const ONE: Self = Self(1.0);

    /// A number, if it is finite and not below 0.
    #[must_use]
    pub const fn new(number: f64) -> Option<Self> {
        if number >= 0.0 && number.is_finite() { Some(Self(number)) } else { None }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// A number that is known to be one, where constants are made.
    pub(crate) const fn constant(number: f64) -> Self {
        match Self::new(number) {
            Some(amount) => amount,
            None => Self::ZERO,
        }
    }
}

impl TryFrom<f64> for Amount {
    type Error = OutOfRange;

    fn try_from(number: f64) -> Result<Self, OutOfRange> {
        Self::new(number).ok_or(OutOfRange { range: "0 or above and finite", found: number })
    }
}

/// A number that a parameter does not take. An operator's to fix.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{found} is not {range}")]
#[non_exhaustive]
pub struct OutOfRange {
    /// What it takes.
    pub range: &'static str,
    /// What was given.
    pub found: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_out_of_range_are_no_parameters() {
        for number in [-1.0, f64::INFINITY, f64::NAN, -f64::MIN_POSITIVE] {
            assert!(Amount::try_from(number).is_err() && Positive::try_from(number).is_err(), "{number}");
            assert!(Fraction::try_from(number).is_err() || number > -1e-300, "{number}");
        }
        assert_eq!(Amount::try_from(0.0), Ok(Amount::ZERO));
        assert_eq!((Fraction::try_from(0.0), Fraction::try_from(1.0)), (Ok(Fraction::ZERO), Ok(Fraction::ONE)));
        assert_eq!(Fraction::try_from(1.1).unwrap_err().to_string(), "1.1 is not 0..=1");
        assert_eq!(Positive::try_from(0.0).unwrap_err().to_string(), "0 is not above 0 and finite");
        assert_eq!(Positive::new(2.5).map(Positive::get), Some(2.5));
    }
}
