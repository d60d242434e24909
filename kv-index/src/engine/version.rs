//! Release versions of engines, ordered.

use std::fmt;
use std::str::FromStr;

/// A release of an engine, such as `0.31.1`.
///
/// # Examples
///
/// ```
/// use kv_index::engine::Version;
///
/// let version: Version = "0.31.1".parse()?;
/// assert!(version < Version::new(0, 32, 0));
/// assert_eq!(version, "v0.31.1.post2+cu128".parse()?);
/// # Ok::<(), kv_index::engine::VersionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    major: u16,
    minor: u16,
    patch: u16,
}

impl Version {
    /// The release `major.minor.patch`.
    #[must_use]
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// Whether both are of one minor series, such as 0.31.
    pub(super) const fn same_series(self, other: Self) -> bool {
        self.major == other.major && self.minor == other.minor
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

impl FromStr for Version {
    type Err = VersionError;

    /// Reads what an engine says of itself. A leading `v`, a missing patch number, and whatever follows the patch
    /// number (`.post1`, `rc2`, `+cu128`) are accepted: they never changed a hash or an event.
    fn from_str(text: &str) -> Result<Self, VersionError> {
        let mut numbers = text.trim().trim_start_matches('v').split('.').map(|part| {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..digits].parse::<u16>().ok()
        });
        let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else {
            return Err(VersionError);
        };
        Ok(Self { major, minor, patch: numbers.next().flatten().unwrap_or(0) })
    }
}

/// The text names no release. The host read it from the wrong place, or an operator mistyped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a release: expected something like `0.31.1`")]
pub struct VersionError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_engines_say_of_themselves_is_understood() {
        for (text, version) in [
            ("0.9.0", (0, 9, 0)),
            ("0.10", (0, 10, 0)),
            ("v0.32.0", (0, 32, 0)),
            ("0.5.23rc1", (0, 5, 23)),
            ("1.2.0.dev5+g1234", (1, 2, 0)),
            (" 0.30.1+cu128 ", (0, 30, 1)),
        ] {
            assert_eq!(text.parse(), Ok(Version::new(version.0, version.1, version.2)), "{text}");
        }
        for text in ["", "latest", "1", "1.x", "main", "70000.1"] {
            assert_eq!(text.parse::<Version>(), Err(VersionError), "{text}");
        }
        assert!(Version::new(0, 9, 2) < Version::new(0, 10, 0));
    }
}
