//! The gateway program: `gateway --config FILE`; the file is watched.
//!
//! Exit code 0 on success, 1 on failure, 2 if the arguments or the configuration are invalid.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use pointsman_example_common::cli::fail;
use pointsman_example_common::signals::Signals;
use pointsman_gateway::{Config, Gateway, watch};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A gateway that routes by what pods hold in their caches.
#[derive(Debug, Parser)]
#[command(name = "gateway", version)]
struct Args {
    /// The configuration file; changes to it are applied while it serves.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    operate(&Args::parse().config).await.unwrap_or_else(|error| fail("gateway", &*error))
}

async fn operate(path: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let config = match Config::read(path) {
        Ok(config) => config,
        Err(error) => return Ok(misconfigured(path, &error)),
    };
    let (reload, stop) = (Notify::new(), CancellationToken::new());
    // From now on, also during the first health checks.
    let mut signals = Signals::listen()?;
    let started = tokio::select! {
        ended = signals.stop(&reload) => return Ok(ended.map(|()| ExitCode::SUCCESS)?),
        started = Gateway::start(config) => started,
    };
    let gateway = match started {
        Ok(gateway) => gateway,
        Err(error) if error.is_configuration() => return Ok(misconfigured(path, &error)),
        Err(error) => return Err(error.into()),
    };
    say(format_args!("listening at {}", gateway.address()));
    if let Some(internal) = gateway.internal_address() {
        say(format_args!("admin page, metrics and event ingestion at {internal}"));
    }
    tokio::select! {
        () = watch::watch(&gateway, path, &reload, &stop, |text| say(format_args!("{text}"))) => {}
        ended = signals.stop(&reload) => ended?,
    }
    say(format_args!("draining; another signal stops at once"));
    // Of the current configuration, which may have been reloaded.
    let timeout = gateway.config().drain_timeout;
    let drained = tokio::select! {
        drained = gateway.drain(timeout) => drained,
        ended = signals.stop(&reload) => return Ok(ended.map(|()| ExitCode::FAILURE)?),
    };
    if drained.truncated > 0 {
        say(format_args!("{} responses were truncated at the drain timeout", drained.truncated));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints all errors of a configuration.
fn misconfigured(path: &Path, error: &dyn Error) -> ExitCode {
    eprintln!("gateway: `{}` is invalid:\n{error}", path.display());
    ExitCode::from(2)
}

/// Prints a line. A closed standard output is no reason to end.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
