//! Parameters with their defaults, and range-checked numbers: parameters that are valid by construction.

/// Defines parameters, each with its default beside it, and setters.
macro_rules! parameters {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident {
            $($(#[$field_attribute:meta])* pub $field:ident: $type:ty = $default:expr,)+
        }
    ) => {
        #[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
        $(#[$attribute])*
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_attribute])* pub $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        $crate::parameters::setters! { $name { $($field: $type,)+ } }
    };
}

/// Defines a method for each field, named as it, that sets it: parameters are `#[non_exhaustive]`, and grow without breaking whoever
/// makes them.
macro_rules! setters {
    ($name:ident { $($field:ident: $type:ty,)+ }) => {
        impl $name {
            $(
                #[doc = concat!("The same with this [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )+
        }
    };
}

pub(crate) use {parameters, setters};

/// Defines a number that is in its range by construction.
macro_rules! number {
    ($(#[$attribute:meta])* $name:ident($inner:ty) in $range:literal, $number:ident: $within:expr) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
        #[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "f64"))]
        pub struct $name($inner);

        impl $name {
            #[doc = concat!("A number, if it is ", $range, ".")]
            #[must_use]
            pub const fn new($number: $inner) -> Option<Self> {
                if $within { Some(Self($number)) } else { None }
            }

            /// The number.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }

            /// A number that is known to be one, where constants are made.
            pub(crate) const fn constant(number: $inner) -> Self {
                Self::new(number).expect("a constant is in range")
            }
        }

        impl TryFrom<f64> for $name {
            type Error = OutOfRange;

            fn try_from(number: f64) -> Result<Self, OutOfRange> {
                Self::new(number as $inner).ok_or(OutOfRange { range: $range, found: number })
            }
        }
    };
}

number! {
    /// A number in 0..=1.
    #[derive(Default)]
    Fraction(f32) in "0..=1", number: number >= 0.0 && number <= 1.0
}

impl Fraction {
    /// None of it.
    pub const ZERO: Self = Self(0.0);
    /// All of it.
    pub const ONE: Self = Self(1.0);
}

number! {
    /// A finite number above 0.
    Positive(f64) in "above 0 and finite", number: number > 0.0 && number.is_finite()
}

number! {
    /// A finite number, 0 or above.
    #[derive(Default)]
    Amount(f64) in "0 or above and finite", number: number >= 0.0 && number.is_finite()
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0.0);
    /// Counted as it is.
    pub const ONE: Self = Self(1.0);
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
