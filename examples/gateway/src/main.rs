//! The gateway program: `gateway --config FILE`; the file is watched.
//!
//! Exit code 0 on success, 1 on failure, 2 if the arguments or the configuration are invalid.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{io, thread};

use clap::Parser;
use mimalloc::MiMalloc;
use pointsman_example_common::cli::fail;
use pointsman_example_common::signals::Signals;
use pointsman_gateway::{Config, Gateway, logging, watch};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A request is a hundred small allocations, many of them freed by another thread: a seventh of its time by the system's allocator.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A gateway that routes by what pods hold in their caches.
#[derive(Debug, Parser)]
#[command(name = "gateway", version)]
struct Args {
    /// The configuration file; changes to it are applied while it serves.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

fn main() -> ExitCode {
    let config = Args::parse().config;
    let operated = runtime().map_err(Into::into).and_then(|runtime| runtime.block_on(operate(&config)));
    operated.unwrap_or_else(|error| fail("gateway", &*error))
}

/// Where requests run: a thread for each core, or on a single core this one, without what hands work from thread to thread.
fn runtime() -> io::Result<Runtime> {
    let is_single = thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
    let mut builder = if is_single { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    builder.enable_all().build()
}

async fn operate(path: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let config = match Config::read(path) {
        Ok(config) => config,
        Err(error) => return Ok(misconfigured(path, &error)),
    };
    logging::install(&config.log, std::env::var("RUST_LOG").ok().as_deref())?;
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
    tokio::select! {
        () = watch::watch(&gateway, path, &reload, &stop) => {}
        ended = signals.stop(&reload) => ended?,
    }
    // Of the current configuration, which may have been reloaded.
    let Config { drain_grace, drain_timeout: timeout, .. } = gateway.config();
    gateway.withdraw();
    if !drain_grace.is_zero() {
        tracing::info!(grace = ?drain_grace, "not ready any more, and serving until balancers have noticed");
        tokio::select! {
            () = tokio::time::sleep(drain_grace) => {}
            // Another signal stops at once.
            ended = signals.stop(&reload) => return Ok(ended.map(|()| ExitCode::FAILURE)?),
        }
    }
    tokio::select! {
        _ = gateway.drain(timeout) => {}
        ended = signals.stop(&reload) => return Ok(ended.map(|()| ExitCode::FAILURE)?),
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints all errors of a configuration.
fn misconfigured(path: &Path, error: &dyn Error) -> ExitCode {
    eprintln!("gateway: `{}` is invalid:\n{error}", path.display());
    ExitCode::from(2)
}
