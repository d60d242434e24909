//! Errors of parameters. The operator who wrote the document can fix them.

use crate::suggest::DidYouMean;

/// Why a plugin's parameters are refused. One inside of others is named by its path: `patience.factor`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// The plugin's type has no such parameter.
    #[error("unknown parameter `{parameter}`{}", DidYouMean(suggestion.as_deref()))]
    Unknown {
        /// The name given.
        parameter: Box<str>,
        /// A parameter of the same place with a name like it.
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
