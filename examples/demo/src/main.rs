//! The first command: simulated pods behind the gateway, compared, served or broken on purpose.
//!
//! Exits with 0 if all went well, 1 if not, 2 if the arguments make no sense.

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use pointsman_demo::chaos;
use pointsman_demo::demo::{self, ServeOptions, Serving, Table};
use pointsman_engine_sim::replay::table::grouped;
use pointsman_example_common::progress::Progress;
use pointsman_example_common::signals::Signals;
use pointsman_gateway::config::STOCK_PROFILES;
use tokio::sync::Notify;

/// Simulated pods behind a gateway that routes by what they hold in their caches.
///
/// Without flags: eight simulated pods and a gateway, the same conversations under round robin, cache aware routing and
/// prefill/decode, and a table.
#[derive(Debug, Parser)]
#[command(name = "demo", version)]
struct Args {
    /// Keeps simulated pods and a gateway up, and prints what to try.
    #[arg(long, conflicts_with = "chaos")]
    serve: bool,
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
    let done = if args.chaos {
        break_things(&args).await
    } else if args.serve {
        serve(&args).await
    } else {
        compare(&args).await
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
    eprint!("demo: {error}");
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
