//! Amounts: numbers that are finite and not below 0.

use crate::parameters::OutOfRange;

/// A finite number that is not below 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "f64"))]
pub struct Amount(f64);

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);

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
}

impl TryFrom<f64> for Amount {
    type Error = OutOfRange;

    fn try_from(number: f64) -> Result<Self, OutOfRange> {
        Self::new(number).ok_or(OutOfRange { range: "0 or more and finite", found: number })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_amounts_are_amounts() {
        assert_eq!(Amount::new(0.0), Some(Amount::ZERO));
        assert_eq!(Amount::try_from(2.5).map(Amount::get), Ok(2.5));
        for odd in [-0.1, f64::INFINITY, f64::NAN] {
            assert!(Amount::new(odd).is_none(), "{odd}");
        }
        assert_eq!(Amount::try_from(-1.0).unwrap_err().to_string(), "-1 is not 0 or more and finite");
    }
}
