//! API keys of pods: sent with every request to them, and never printed.

use std::fmt;

use http::HeaderValue;

/// The key that a pod asks for, sent as `authorization: Bearer <key>` instead of the client's own.
///
/// # Examples
///
/// ```
/// use pointsman::{PodKey, PodSpec};
///
/// let pod = PodSpec::new("a", "10.0.0.5:8000").api_key(PodKey::bearer("secret")?);
/// assert!(!format!("{pod:?}").contains("secret"));
/// # Ok::<(), pointsman::InvalidPodKey>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PodKey(HeaderValue);

impl PodKey {
    /// A bearer key.
    ///
    /// # Errors
    ///
    /// When it is empty, or has what a header may not have.
    pub fn bearer(key: &str) -> Result<Self, InvalidPodKey> {
        let key = key.trim();
        let mut value = HeaderValue::try_from(format!("Bearer {key}")).map_err(|_| InvalidPodKey)?;
        value.set_sensitive(true);
        if key.is_empty() { Err(InvalidPodKey) } else { Ok(Self(value)) }
    }

    /// The value of the header.
    #[must_use]
    pub fn header(&self) -> &HeaderValue {
        &self.0
    }
}

/// Without the key.
impl fmt::Debug for PodKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PodKey(..)")
    }
}

/// A pod's key cannot be sent. The operator can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key is empty, or has characters that a header may not have")]
#[non_exhaustive]
pub struct InvalidPodKey;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_bearer_and_is_not_printed() {
        let key = PodKey::bearer(" abc\n").unwrap();
        assert_eq!(key.header(), "Bearer abc");
        assert_eq!(format!("{key:?} {:?}", key.header()), "PodKey(..) Sensitive");
        for wrong in ["", " \n", "a\nb"] {
            assert_eq!(PodKey::bearer(wrong), Err(InvalidPodKey), "{wrong:?}");
        }
    }
}
