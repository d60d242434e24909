//! The gateway, as a demonstration or for real.
//!
//! Exits with 0 if all went well, 1 if not, 2 if the arguments or the configuration make no sense.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pointsman_examples::chaos;
use pointsman_examples::demo::{self, ServeOptions, Serving, Table};
use pointsman_examples::gateway::config::{Config, STOCK_PROFILES};
use pointsman_examples::gateway::signals::Signals;
use pointsman_examples::gateway::{Gateway, watch};
use pointsman_examples::progress::Progress;
use pointsman_examples::replay::table::grouped;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A gateway that routes by what pods hold in their caches.
///
/// Without flags: eight simulated pods and a gateway, the same conversations under round robin, cache aware routing and
/// prefill/decode, and a table.
#[derive(Debug, Parser)]
#[command(name = "gateway", version)]
struct Args {
    /// Keeps simulated pods and a gateway up, and prints what to try.
    #[arg(long, conflicts_with_all = ["config", "chaos"])]
    serve: bool,
    /// Runs a gateway by a configuration, over pods of your own; the file is followed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["chaos", "pods", "speed", "profile", "seed", "listen"])]
    config: Option<PathBuf>,
    /// With `--serve`: no conversations but yours.
    #[arg(long, requires = "serve")]
    idle: bool,
    /// Load while pods and events fail, then checks that all has healed.
    #[arg(long)]
    chaos: bool,
    /// How long faults go on.
    #[arg(long, requires = "chaos", default_value_t = 180, value_parser = clap::value_parser!(u64).range(5..=86_400))]
    seconds: u64,
    /// With `--chaos`: adds a wrong entry to the index, to see the run fail.
    #[arg(long, requires = "chaos")]
    sabotage: bool,
    /// A stock profile: the only one to run, or the one to serve by.
    #[arg(long, value_name = "NAME", value_parser = STOCK_PROFILES)]
    profile: Option<String>,
    /// Simulated pods.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(2..=64))]
    pods: u64,
    /// How many times faster than measured pods are.
    #[arg(long, value_name = "TIMES", value_parser = positive)]
    speed: Option<f64>,
    /// Where the gateway listens.
    #[arg(long, value_name = "ADDRESS", requires = "serve", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Where chance begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("not a number above 0".to_owned()),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let done = match &args.config {
        Some(path) => operate(path).await,
        None if args.chaos => break_things(&args).await,
        None if args.serve => serve(&args).await,
        None => compare(&args).await,
    };
    done.unwrap_or_else(|error| fail(&*error))
}

async fn compare(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let mut options = demo::Options { pods: args.pods as usize, seed: args.seed, ..demo::Options::default() };
    options.speed = args.speed.unwrap_or(options.speed);
    options.profiles = args.profile.clone().map_or(options.profiles, |profile| vec![profile]);
    let requests = options.requests();
    println!(
        "{} simulated pods behind a gateway, {} requests a profile, over real HTTP.",
        options.pods,
        grouped(requests)
    );
    println!("Prefill and decode take {} on an H200.\n", as_measured(options.speed));
    let mut progress = Progress::on_stderr(requests);
    let outcomes = demo::compare(&options, |profile, ended| {
        if ended == 0 {
            progress.end();
            progress = Progress::on_stderr(requests);
        }
        progress.show(ended, format_args!("{profile}: {ended} requests"));
    })
    .await?;
    progress.end();
    println!("\n{}", Table::of(&outcomes));
    let is_short = |outcome: &&demo::Outcome| outcome.tally.failures() == 0 && outcome.tally.requests() < requests;
    if let Some(slow) = outcomes.iter().find(is_short) {
        println!("This machine is too slow for all of it: {} was stopped early.\n", slow.profile);
    }
    if let Some(reading) = demo::reading(&outcomes) {
        println!("{reading}");
    }
    let errors: usize = outcomes.iter().map(|outcome| outcome.tally.failures()).sum();
    for failure in outcomes.iter().flat_map(|outcome| &outcome.tally.unclean) {
        println!("error: {failure}");
    }
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn serve(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let options = ServeOptions {
        pods: args.pods as usize,
        speed: args.speed.unwrap_or(1.0),
        profile: args.profile.clone().unwrap_or_else(|| "first_token".to_owned()),
        listen: args.listen,
        conversations: if args.idle { 0 } else { 2 * args.pods as usize },
        seed: args.seed,
    };
    // Heard before anybody is told that there is something to end.
    let mut signals = Signals::listen()?;
    let serving = Serving::start(&options).await?;
    println!("{}", serving.hints());
    if options.conversations > 0 {
        println!("{} conversations go on beside yours; `--idle` is without them.", options.conversations);
    }
    println!("Ctrl-C ends it.");
    signals.stop(&Notify::new()).await?;
    println!("draining");
    serving.stop(Duration::from_secs(30)).await;
    Ok(ExitCode::SUCCESS)
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

async fn break_things(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let options = chaos::Options {
        seed: args.seed,
        length: Duration::from_secs(args.seconds),
        pods: args.pods as usize,
        speed: args.speed.unwrap_or(CHAOS_SPEED),
        profile: args.profile.clone().unwrap_or_else(|| "first_token".to_owned()),
        patience: Duration::from_secs(if args.sabotage { 3 } else { 60 }),
        sabotage: args.sabotage,
    };
    println!("Chaos with seed {} for {} s over {} pods, {}.", args.seed, args.seconds, args.pods, options.profile);
    let mut progress = Progress::on_stderr(args.seconds as usize);
    let report = chaos::run(&options, |over, ended| {
        progress.show(over.as_secs() as usize, format_args!("{} requests", grouped(ended)));
    })
    .await?;
    progress.end();
    println!("\n{report}");
    if report.holds() {
        println!("Everything healed.");
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "Something did NOT heal. The same faults again: `--chaos --seed {} --seconds {} --pods {} --profile {}`.",
        args.seed, args.seconds, args.pods, options.profile
    );
    Ok(ExitCode::FAILURE)
}

fn as_measured(speed: f64) -> String {
    if speed == 1.0 { "as long as measured".to_owned() } else { format!("1/{speed} of what was measured") }
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

/// Fast enough that much happens in a short time.
const CHAOS_SPEED: f64 = 4.0;
