//! Command-line helpers: argument parsers, and error chains on standard error.

use std::error::Error;
use std::process::ExitCode;

/// Parses a number above 0.
///
/// # Errors
///
/// When it is none.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("not a number above 0".to_owned()),
    }
}

/// Prints an error with its causes; the exit code of a failure.
pub fn fail(program: &str, error: &dyn Error) -> ExitCode {
    eprintln!("{program}: {}", error_chain(error));
    ExitCode::FAILURE
}

/// An error and its causes, each said once.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
