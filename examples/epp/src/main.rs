//! The endpoint picker: `epp --endpoint IP:PORT`, or wherever else the pods are.
//!
//! Exit code 0 on success, 1 on failure, 2 if the arguments or the configuration are invalid.

use std::error::Error;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Parser;
use mimalloc::MiMalloc;
use pointsman_epp::picker_config::{PickerConfig, Translation};
use pointsman_epp::{Assembly, Options, Program, without_foreign};
use pointsman_example_common::cli::fail;
use pointsman_example_common::signals::Signals;
use tokio::sync::Notify;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt as format};

/// A request is many small allocations, some of them freed by another thread.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let (arguments, foreign) = without_foreign(std::env::args());
    operate(&Options::parse_from(arguments), &foreign).await.unwrap_or_else(|error| fail("epp", &*error))
}

async fn operate(options: &Options, foreign: &[String]) -> Result<ExitCode, Box<dyn Error>> {
    let translation = match read(options)? {
        Ok(translation) => translation,
        Err(error) => {
            eprintln!("epp: the configuration is invalid:\n{error}");
            return Ok(ExitCode::from(2));
        }
    };
    if options.translate {
        print(&translation);
        return Ok(ExitCode::SUCCESS);
    }
    log(options)?;
    for warning in &translation.warnings {
        tracing::warn!("{warning}");
    }
    for name in foreign {
        tracing::info!("--{name} is llm-d's, and changes nothing here");
    }
    let assembly = match Assembly::start(&translation, options).await {
        Ok(assembly) => assembly,
        Err(error) => {
            eprintln!("epp: {error}");
            return Ok(ExitCode::from(2));
        }
    };
    let mut signals = Signals::listen()?;
    let program = Program::start(assembly, options).await?;
    let addresses = program.addresses();
    tracing::info!(grpc = %addresses.grpc, health = %addresses.health, metrics = %addresses.metrics, tls = options.secure_serving, "serving");
    signals.stop(&Notify::new()).await?;
    tracing::info!(timeout = ?options.drain_timeout, "stopping");
    let all_ended = program.drain(options.drain_grace, options.drain_timeout).await;
    Ok(if all_ended { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(options: &Options) -> Result<Result<Translation, impl Error>, Box<dyn Error>> {
    let text = match (&options.config_file, &options.config_text) {
        (Some(path), _) => {
            Some(std::fs::read_to_string(path).map_err(|error| format!("`{}`: {error}", path.display()))?)
        }
        (None, text) => text.clone(),
    };
    let config = text.map_or_else(|| Ok(PickerConfig::default()), |text| PickerConfig::read(&text));
    Ok(config.and_then(|config| config.translate()))
}

/// Prints what a configuration becomes; what there is to say about it goes to standard error, so that the document can be piped.
fn print(translation: &Translation) {
    for warning in &translation.warnings {
        eprintln!("epp: warning: {warning}");
    }
    print!("{}", translation.workflow);
    if let Some(flow_control) = &translation.flow_control {
        let indented: String = flow_control.lines().map(|line| format!("#   {line}\n")).collect();
        print!("# flow_control:\n{indented}");
    }
}

fn log(options: &Options) -> Result<(), Box<dyn Error>> {
    let filter = Targets::from_str(&options.log_level)?;
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match options.log_json {
        true => format::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed(),
        false => format::layer().with_ansi(false).with_writer(std::io::stderr).boxed(),
    };
    Ok(tracing_subscriber::registry().with(layer.with_filter(filter)).try_init()?)
}
