//! The log: `tracing` events to standard error, as text or as JSON.
//!
//! Only the program installs it. Who embeds a gateway has a subscriber of their own.

use std::fmt;
use std::str::FromStr;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, Registry, fmt as format};

use super::config::{LogFormat, LogSettings};

/// Writes events to standard error from now on, for the whole process. `filter` goes before the settings' own level: what the
/// environment says, for one.
///
/// # Errors
///
/// When the filter makes no sense, or there is a subscriber already.
pub fn install(settings: &LogSettings, filter: Option<&str>) -> Result<(), LoggingError> {
    let text = filter.unwrap_or(&settings.level);
    let filter = parse_filter(text).map_err(|reason| LoggingError::Filter { text: text.into(), reason })?;
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match settings.format {
        LogFormat::Json => format::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed(),
        _ => format::layer().with_ansi(false).with_writer(std::io::stderr).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(filter));
    subscriber.try_init().map_err(|error: TryInitError| LoggingError::Installed(error.to_string().into()))
}

/// Reads a filter: a level, or levels by target.
pub(super) fn parse_filter(text: &str) -> Result<Targets, Box<str>> {
    Targets::from_str(text).map_err(|error| error.to_string().into())
}

/// Why there is no log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoggingError {
    /// The filter makes no sense.
    Filter {
        /// What was given.
        text: Box<str>,
        /// What is wrong with it.
        reason: Box<str>,
    },
    /// The process has a subscriber already.
    Installed(Box<str>),
}

impl fmt::Display for LoggingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Filter { text, reason } => write!(f, "the log filter `{text}` makes no sense: {reason}"),
            Self::Installed(reason) => write!(f, "the log cannot be installed: {reason}"),
        }
    }
}

impl std::error::Error for LoggingError {}
