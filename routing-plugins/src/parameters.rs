//! Numbers that are in their range by construction, so that a plugin made of them needs no checks.

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

/// A number that a parameter does not take. An operator's to mend.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{found} is not {range}")]
#[non_exhaustive]
pub struct OutOfRange {
    /// What it takes.
    pub range: &'static str,
    /// What was given.
    pub found: f64,
}
