//! Configuration errors, with their place.

use std::fmt;

use routing_core::suggest;

/// Why a configuration is rejected. The operator can act.
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
    /// The text is not a configuration.
    #[error("line {line}, column {column}: {reason}")]
    Text {
        /// Counted from 1; 0 if it is not known.
        line: usize,
        /// Counted from 1; 0 if it is not known.
        column: usize,
        /// The message of the YAML parser, which names the key.
        reason: Box<str>,
    },
    /// Values are invalid.
    #[error("{0}")]
    Values(Problems),
}

impl ConfigError {
    pub(super) fn too_deep(text: &str, error: &routing_core::NestedTooDeep) -> Self {
        let before = &text.as_bytes()[..error.at];
        let line = before.split(|byte| *byte == b'\n').count();
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        Self::Text { line, column, reason: error.to_string().into() }
    }

    pub(super) fn of_yaml(error: serde_yaml_ng::Error) -> Self {
        let (line, column) = error.location().map_or((0, 0), |place| (place.line(), place.column()));
        let reason = error.to_string();
        // Serde's message on an unknown key: "unknown field `a`, expected one of `b`, `c`".
        let mut quoted = reason.split('`').skip(1).step_by(2);
        let meant = quoted.next().and_then(|name| suggest(name, quoted));
        let hint = meant.filter(|_| reason.contains("unknown ")).map(|meant| format!("; did you mean `{meant}`?"));
        Self::Text { line, column, reason: (reason.clone() + &hint.unwrap_or_default()).into() }
    }
}

/// All invalid values, one a line.
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

/// One invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The path of the key: `pods[2].url`.
    pub place: Box<str>,
    /// What is wrong, and the fix.
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
