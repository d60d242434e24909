//! Simulates routing rules on real or made-up traffic.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use pointsman_simulator::compare::{compare, list};
use pointsman_simulator::options::{Options, Study};
use pointsman_simulator::{SimulateError, study};

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(text) => {
            // Whoever closed the pipe has seen enough.
            let _ = std::io::stdout().write_all(text.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("simulate: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<String, SimulateError> {
    if options.list {
        return Ok(list());
    }
    options.check()?;
    match options.study {
        None => {
            let comparison = compare(options)?;
            let written = options.out.as_deref().map(|folder| comparison.write_to(folder)).transpose()?;
            Ok(format!("{comparison}{}", written.unwrap_or_default()))
        }
        Some(Study::Quality) => study::quality::quality(options),
        Some(Study::Events) => study::events::events(options),
        Some(Study::Split) => study::split::split(options),
        Some(Study::Batch) => study::batch::batch(options),
        Some(Study::Together) => study::together::together(options),
    }
}

/// An error with its causes, as far as it does not tell them itself.
fn told(error: &dyn Error) -> String {
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
