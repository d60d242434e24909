//! Nesting limit of a document's text, before a format's parser sees it.

/// Brackets are nested deeper than any document's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("brackets are nested more than {MOST} levels deep, at byte {at}")]
#[non_exhaustive]
pub struct NestedTooDeep {
    /// Where the first one too many is.
    pub at: usize,
}

/// Refuses a text whose brackets are nested deeper than any document's, for hosts whose format takes long over such a text:
/// YAML's scanner takes the square of the depth before it hands anything over. One pass, without regard to what is quoted: a
/// document that quotes hundreds of opening brackets and none that close is refused too.
///
/// # Errors
///
/// When it is, with the place.
///
/// # Examples
///
/// ```
/// assert!(routing_core::check_nesting("a: [1, {b: [2]}]").is_ok());
/// assert!(routing_core::check_nesting(&"[".repeat(200_000)).is_err());
/// ```
pub fn check_nesting(text: &str) -> Result<(), NestedTooDeep> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MOST {
            return Err(NestedTooDeep { at });
        }
    }
    Ok(())
}

/// Four times the levels that a document may have.
const MOST: usize = 256;
