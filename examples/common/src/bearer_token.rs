//! Bearer tokens: whether a request may come in.

use http::{HeaderMap, header};
use std::fmt;
use std::sync::Arc;

/// The bearer token of an endpoint. An empty one lets nobody in.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Arc<str>);

impl Token {
    /// The expected token.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self(token.into())
    }

    /// That of a file's first line, without space around it; none if that is empty.
    #[must_use]
    pub fn of_file(text: &str) -> Option<Self> {
        let token = text.lines().next().unwrap_or_default().trim();
        (!token.is_empty()).then(|| Self::new(token))
    }

    /// Whether an `authorization` header bears it.
    #[must_use]
    pub fn is_borne_by(&self, headers: &HeaderMap) -> bool {
        let borne = headers.get(header::AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        borne.is_some_and(|borne| self.is(borne))
    }

    /// Comparison in constant time for equal lengths.
    fn is(&self, other: &[u8]) -> bool {
        let own = self.0.as_bytes();
        let differ = own.iter().zip(other).fold(0, |differ, (a, b)| std::hint::black_box(differ | (a ^ b)));
        own.len() == other.len() && differ == 0 && !own.is_empty()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_will_do() {
        let token = Token::new("secret");
        for wrong in ["", "s", "secre", "secrets", "Secret"] {
            assert!(!token.is(wrong.as_bytes()), "{wrong}");
        }
        assert!(token.is(b"secret"));
        assert!(!Token::new("").is(b""), "no token lets nobody in");
        assert_eq!(format!("{token:?}"), "Token(..)");
        assert_eq!(Token::of_file(" secret\nmore"), Some(token));
        assert_eq!(Token::of_file("\nsecret"), None);
    }
}
