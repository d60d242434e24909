//! What is wrong with a configuration, and where.

use std::fmt;

/// Why a configuration is not taken. The operator can act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read `{path}`: {kind}")]
    File {
        /// Which.
        path: Box<str>,
        /// Why.
        kind: std::io::ErrorKind,
    },
    /// The text is no configuration. The place is in the text of the reader, and here once more as numbers.
    #[error("line {line}, column {column}: {reason}")]
    Text {
        /// Counted from 1; 0 if it is not known.
        line: usize,
        /// Counted from 1; 0 if it is not known.
        column: usize,
        /// In the words of the YAML reader.
        reason: Box<str>,
    },
    /// The values make no sense.
    #[error("{0}")]
    Values(Problems),
}

impl ConfigError {
    pub(super) fn of_yaml(error: serde_yaml_ng::Error) -> Self {
        let (line, column) = error.location().map_or((0, 0), |place| (place.line(), place.column()));
        Self::Text { line, column, reason: error.to_string().into() }
    }
}

/// Everything that is wrong, one a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a list")]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The field, as a path from the top: `pods[2].url`.
    pub place: Box<str>,
    /// What is wrong with it.
    pub reason: Box<str>,
}

impl Problem {
    pub(super) fn new(place: impl Into<Box<str>>, reason: impl Into<Box<str>>) -> Self {
        Self { place: place.into(), reason: reason.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}
