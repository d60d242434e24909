//! Simulates routing rules on real or made-up traffic.

use std::process::ExitCode;

use clap::Parser;
use pointsman_examples::simulate::options::{Options, Study};
use pointsman_examples::simulate::{SimulateError, study};

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("simulate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<String, SimulateError> {
    match options.study {
        Some(Study::Events) => study::events::events(options),
        _ => study::quality::quality(options),
    }
}
