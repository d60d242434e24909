//! Values to be written.

use std::borrow::Cow;
use std::fmt;

use super::raw::Raw;
use super::text::write_string;

/// The text of one JSON value, to be set by an [`Edit`](super::Edit). It can only be made from values, so what is written
/// with it is JSON.
///
/// # Examples
///
/// ```
/// use json_edit::Fragment;
///
/// let params = Fragment::object([("remote", Fragment::from(true)), ("host", Fragment::NULL)]);
/// assert_eq!(params.as_str(), r#"{"remote":true,"host":null}"#);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Fragment<'a> {
    text: Cow<'a, str>,
}

impl<'a> Fragment<'a> {
    /// `null`.
    pub const NULL: Self = Self { text: Cow::Borrowed("null") };

    /// An object of these members.
    #[must_use]
    pub fn object<'m>(members: impl IntoIterator<Item = (&'m str, Fragment<'m>)>) -> Self {
        Self::listed('{', members, '}', |(name, value), text| {
            write_string(name, text);
            text.push(':');
            text.push_str(&value.text);
        })
    }

    /// An array of these elements.
    #[must_use]
    pub fn array<'m>(elements: impl IntoIterator<Item = Fragment<'m>>) -> Self {
        Self::listed('[', elements, ']', |element, text| text.push_str(&element.text))
    }

    /// The value's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The value, to be read.
    #[must_use]
    pub fn as_raw(&self) -> Raw<'_> {
        Raw::checked(&self.text)
    }

    /// A text that is known to be a value.
    pub(super) fn checked(text: String) -> Self {
        Self { text: Cow::Owned(text) }
    }

    fn listed<T>(open: char, items: impl IntoIterator<Item = T>, close: char, write: impl Fn(T, &mut String)) -> Self {
        let mut text = String::from(open);
        for (at, item) in items.into_iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            write(item, &mut text);
        }
        text.push(close);
        Self::checked(text)
    }
}

impl fmt::Debug for Fragment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_raw().fmt(f)
    }
}

impl<'a> From<Raw<'a>> for Fragment<'a> {
    fn from(raw: Raw<'a>) -> Self {
        Self { text: Cow::Borrowed(raw.as_text()) }
    }
}

impl From<bool> for Fragment<'_> {
    fn from(truth: bool) -> Self {
        Self { text: Cow::Borrowed(if truth { "true" } else { "false" }) }
    }
}

macro_rules! from_numbers {
    ($($number:ty)*) => {$(
        impl From<$number> for Fragment<'_> {
            fn from(number: $number) -> Self {
                Self { text: Cow::Owned(number.to_string()) }
            }
        }
    )*};
}

from_numbers!(u64 u32 u16 i32);

impl From<&str> for Fragment<'_> {
    /// A string, escaped.
    fn from(string: &str) -> Self {
        let mut text = String::with_capacity(string.len() + 2);
        write_string(string, &mut text);
        Self { text: Cow::Owned(text) }
    }
}
