//! The error of deserializing parameters: what is wrong, and the path to it from the outside in.

use std::fmt;

use serde::de::Error;

use super::ParameterError;
use crate::path::{Path, Segment};
use crate::suggest::{DidYouMean, suggest};

/// Why a type refuses to be made of a [`Value`](crate::Value).
#[derive(Debug)]
pub struct Refusal {
    /// To the value that is wrong, from the inside out.
    path: Vec<Segment>,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    Unknown { name: Box<str>, suggestion: Option<Box<str>> },
    Missing { name: Box<str> },
    Invalid { reason: Box<str> },
}

impl Refusal {
    fn new(reason: Reason) -> Self {
        Self { path: Vec::new(), reason }
    }

    /// The same, of something inside of another.
    pub(crate) fn inside(mut self, segment: Segment) -> Self {
        self.path.push(segment);
        self
    }

    /// The path to what is wrong: to the value, to the name that is unknown, or to what lacks something.
    pub(super) fn path(&self) -> Vec<Segment> {
        let mut path: Vec<Segment> = self.path.iter().rev().cloned().collect();
        if let Reason::Unknown { name, .. } = &self.reason {
            path.push(Segment::Field(name.clone()));
        }
        path
    }

    /// Whether something is not there.
    pub(super) fn is_missing(&self) -> bool {
        matches!(self.reason, Reason::Missing { .. })
    }

    /// What is not there, if that is what is wrong.
    pub(super) fn missing(&self) -> Option<&str> {
        match &self.reason {
            Reason::Missing { name } => Some(name),
            _ => None,
        }
    }

    /// As operators are told it, with the path that it has in the whole.
    pub(super) fn told_of(self, path: &[Segment]) -> ParameterError {
        let path = Path::from(path.to_vec());
        let text = |path: Path| path.to_string().into();
        match self.reason {
            Reason::Unknown { suggestion, .. } => ParameterError::Unknown { parameter: text(path), suggestion },
            Reason::Missing { name } => ParameterError::Missing { parameter: text(path.field(&name)) },
            Reason::Invalid { reason } => {
                let parameter = (!path.is_whole()).then(|| text(path));
                ParameterError::Invalid { parameter, reason }
            }
        }
    }
}

impl Error for Refusal {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self::new(Reason::Invalid { reason: reason.to_string().into() })
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Reason::Missing { name: field.into() })
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let suggestion = suggest(field, expected.iter().copied()).map(Into::into);
        Self::new(Reason::Unknown { name: field.into(), suggestion })
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let meant = DidYouMean(suggest(variant, expected.iter().copied()));
        Self::custom(format_args!("unknown value `{variant}`{meant}"))
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Unknown { name, suggestion } => {
                write!(f, "unknown parameter `{name}`{}", DidYouMean(suggestion.as_deref()))
            }
            Reason::Missing { name } => write!(f, "parameter `{name}` is missing"),
            Reason::Invalid { reason } => f.write_str(reason),
        }
    }
}
