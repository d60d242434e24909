//! Errors of parameters. The operator who wrote the document can fix them.

use std::fmt;

use serde::de::Error;

use crate::suggest::{DidYouMean, suggest};

/// Why a plugin's parameters are refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The plugin's type has no such parameter.
    #[error("unknown parameter `{parameter}`{}", DidYouMean(suggestion.as_deref()))]
    Unknown {
        /// The name given.
        parameter: Box<str>,
        /// A parameter with a name like it.
        suggestion: Option<Box<str>>,
    },
    /// A parameter that must be given is not.
    #[error("parameter `{parameter}` is missing")]
    Missing {
        /// Its name.
        parameter: Box<str>,
    },
    /// A value is of the wrong type or out of range, or the values do not go together.
    #[error("{}{reason}", parameter.as_ref().map(|name| format!("parameter `{name}`: ")).unwrap_or_default())]
    Invalid {
        /// Which one, if it is one alone.
        parameter: Option<Box<str>>,
        /// In the words of its type.
        reason: Box<str>,
    },
}

impl ParameterError {
    /// The same of a parameter: what is wrong inside of a value is wrong with the parameter.
    pub(crate) fn of(self, parameter: &str) -> Self {
        let reason = match self {
            Self::Invalid { parameter: None, reason } => reason,
            other => other.to_string().into(),
        };
        Self::Invalid { parameter: Some(parameter.into()), reason }
    }

    /// The parameter that is given and wrong, if it is one alone.
    pub(crate) fn given(&self) -> Option<&str> {
        match self {
            Self::Unknown { parameter, .. } => Some(parameter),
            Self::Missing { .. } => None,
            Self::Invalid { parameter, .. } => parameter.as_deref(),
        }
    }
}

impl Error for ParameterError {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self::Invalid { parameter: None, reason: reason.to_string().into() }
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing { parameter: field.into() }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::Unknown { parameter: field.into(), suggestion: suggest(field, expected.iter().copied()).map(Into::into) }
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let meant = DidYouMean(suggest(variant, expected.iter().copied()));
        Self::custom(format_args!("unknown value `{variant}`{meant}"))
    }
}
