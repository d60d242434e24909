//! The gateway: routes by a configuration file, over pods of your own; the file is followed.
//!
//! Exits with 0 if all went well, 1 if not, 2 if the arguments or the configuration make no sense.

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pointsman_example_common::signals::Signals;
use pointsman_gateway::{Config, Gateway, watch};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A gateway that routes by what pods hold in their caches.
#[derive(Debug, Parser)]
#[command(name = "gateway", version)]
struct Args {
    /// What to serve, in front of which pods; changes to the file take effect while it serves.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    operate(&Args::parse().config).await.unwrap_or_else(|error| fail(&*error))
}

async fn operate(path: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let config = match Config::read(path) {
        Ok(config) => config,
        Err(error) => return Ok(misconfigured(path, &error)),
    };
    let (reload, stop) = (Notify::new(), CancellationToken::new());
    // Heard from now on, while pods are asked how they are too.
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
    say(format_args!("clients are served at {}", gateway.address()));
    if let Some(internal) = gateway.internal_address() {
        say(format_args!("the page, metrics and reports are at {internal}"));
    }
    tokio::select! {
        () = watch::follow(&gateway, path, &reload, &stop, |text| say(format_args!("{text}"))) => {}
        ended = signals.stop(&reload) => ended?,
    }
    say(format_args!("draining; another signal stops at once"));
    // As long as the configuration in force says, which need not be the one that it began with.
    let most = Duration::from_secs_f64(gateway.config().drain_seconds);
    let drained = tokio::select! {
        drained = gateway.drain(most) => drained,
        ended = signals.stop(&reload) => return Ok(ended.map(|()| ExitCode::FAILURE)?),
    };
    if drained.cut > 0 {
        say(format_args!("{} answers took too long and were cut", drained.cut));
    }
    Ok(ExitCode::SUCCESS)
}

/// Says what is wrong with a configuration, all of it.
fn misconfigured(path: &Path, error: &dyn Error) -> ExitCode {
    eprintln!("gateway: `{}` cannot be used:\n{error}", path.display());
    ExitCode::from(2)
}

/// Prints a line. Nobody may be there to read it, which is no reason to end.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn fail(error: &dyn Error) -> ExitCode {
    eprint!("gateway: {error}");
    let mut cause = error.source();
    while let Some(inner) = cause {
        eprint!(": {inner}");
        cause = inner.source();
    }
    eprintln!();
    ExitCode::FAILURE
}
