//! Where a text stops being JSON.

use std::fmt;

/// Why a text is not the JSON that was asked for. The client who wrote it can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected} at byte {at}")]
#[non_exhaustive]
pub struct JsonError {
    /// The byte where it went wrong, counted from 0; the length of the text, if that ended too early.
    pub at: usize,
    /// What was expected there.
    pub expected: Expected,
}

/// What a [`JsonError`] missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// UTF-8.
    Utf8,
    /// The brace that opens an object.
    Object,
    /// A value of any kind.
    Value,
    /// A member's name or the brace that closes an empty object.
    NameOrBrace,
    /// A member's name.
    Name,
    /// A colon after a member's name.
    Colon,
    /// A comma or the brace that closes the object.
    CommaOrBrace,
    /// A comma or the bracket that closes the array.
    CommaOrBracket,
    /// The quote that ends a string; control characters in it must be escaped.
    Quote,
    /// One of `"`, `\`, `/`, `b`, `f`, `n`, `r`, `t` or `u` after a backslash.
    Escape,
    /// One of the four hexadecimal digits after `\u`.
    HexDigit,
    /// A decimal digit of a number.
    Digit,
    /// Nothing that is nested deeper.
    LessDepth,
    /// The end of the text.
    End,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8 => "valid utf-8",
            Self::Object => "an object",
            Self::Value => "a value",
            Self::NameOrBrace => "a name in quotes or `}`",
            Self::Name => "a name in quotes",
            Self::Colon => "`:`",
            Self::CommaOrBrace => "`,` or `}`",
            Self::CommaOrBracket => "`,` or `]`",
            Self::Quote => "a closing quote and no bare control character before it",
            Self::Escape => "an escape",
            Self::HexDigit => "a hexadecimal digit",
            Self::Digit => "a digit",
            Self::LessDepth => "less nesting",
            Self::End => "the end",
        })
    }
}
