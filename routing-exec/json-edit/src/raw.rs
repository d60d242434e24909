//! One value of a text, as its bytes.

use std::borrow::Cow;
use std::fmt;

use super::error::{Expected, JsonError};
use super::scan::{self, Scanner};
use super::{Object, text};

/// A JSON value as it is written, without whitespace around it.
///
/// Two are equal if they are written alike: `1` is not `1.0` here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a> {
    text: &'a str,
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "JSON has no others")]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl<'a> Raw<'a> {
    /// Checks the text of a value of any kind, with or without whitespace around it.
    ///
    /// # Errors
    ///
    /// Where the text stops being one JSON value, and what was expected there.
    pub fn parse(text: &'a [u8]) -> Result<Self, JsonError> {
        let mut scanner = Scanner::new(scan::text(text)?);
        scanner.space();
        let start = scanner.at();
        scanner.value(0)?;
        let value = scanner.since(start);
        scanner.end()?;
        Ok(value)
    }

    /// The value as it is written.
    #[must_use]
    pub fn as_bytes(self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// What it is.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self.text.as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Bool,
            Some(b'-' | b'0'..=b'9') => Kind::Number,
            _ => Kind::Null,
        }
    }

    /// The text of a string without its escapes; borrowed where it has none. `None` for other kinds, and for a string with
    /// half a surrogate pair.
    #[must_use]
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        if self.kind() != Kind::String {
            return None;
        }
        text::unescape(self.inner())
    }

    /// A number that is written as a whole one, if it fits.
    #[must_use]
    pub fn as_u64(self) -> Option<u64> {
        self.text.parse().ok().filter(|_| self.kind() == Kind::Number)
    }

    /// A number, as near as a double comes.
    #[must_use]
    pub fn as_f64(self) -> Option<f64> {
        self.text.parse().ok().filter(|_| self.kind() == Kind::Number)
    }

    /// A truth value.
    #[must_use]
    pub fn as_bool(self) -> Option<bool> {
        self.text.parse().ok()
    }

    /// Whether it is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The object that it is.
    #[must_use]
    pub fn object(self) -> Option<Object<'a>> {
        (self.kind() == Kind::Object).then(|| Object::checked(self.text))
    }

    /// The elements of the array that it is.
    #[must_use]
    pub fn array(self) -> Option<Elements<'a>> {
        let mut scanner = Scanner::new(self.text);
        scanner.eat(b'[').then_some(Elements { scanner, begun: false })
    }

    /// A text that is known to be a value.
    pub(super) fn checked(text: &'a str) -> Self {
        Self { text }
    }

    /// The value as it is written.
    pub(super) fn as_text(self) -> &'a str {
        self.text
    }

    /// What is between the quotes of a string.
    #[inline]
    pub(super) fn inner(self) -> &'a str {
        self.text.get(1..self.text.len().saturating_sub(1)).unwrap_or_default()
    }
}

impl fmt::Debug for Raw<'_> {
    /// Without the contents: they are a client's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Raw({:?}, {} bytes)", self.kind(), self.text.len())
    }
}

/// The elements of an array, in order.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    scanner: Scanner<'a>,
    begun: bool,
}

impl<'a> Elements<'a> {
    fn step(&mut self) -> Result<Option<Raw<'a>>, JsonError> {
        let scanner = &mut self.scanner;
        scanner.space();
        if scanner.eat(b']') {
            return Ok(None);
        }
        if self.begun {
            scanner.expect(b',', Expected::CommaOrBracket)?;
            scanner.space();
        }
        self.begun = true;
        let start = scanner.at();
        // The array itself is one level.
        scanner.value(1)?;
        Ok(Some(scanner.since(start)))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Raw<'a>;

    fn next(&mut self) -> Option<Raw<'a>> {
        // The text was checked, so there is no error to lose.
        self.step().ok().flatten()
    }
}
