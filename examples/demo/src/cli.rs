//! Command line of the demo.
//!
//! Exit status: 0 on success, 1 on a failed request or a violated invariant, 2 on invalid arguments.

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use pointsman_example_common::cli::{fail, positive};
use pointsman_example_common::progress::Progress;
use pointsman_example_common::signals::Signals;
use pointsman_lab::format::grouped;
use tokio::sync::Notify;

use crate::compare::ProfileResult;
use crate::compare_table::{commentary, table};
use crate::serve::DemoServer;
use crate::{chaos, compare};

/// Simulated pods behind a gateway that routes by their KV caches.
///
/// By default it compares round robin, cache aware and prefill/decode routing: eight simulated pods, the same conversations for
/// each profile, a table.
#[derive(Debug, Parser)]
#[command(name = "demo", version)]
pub(crate) struct Args {
    /// Keeps pods and gateway up and prints commands to try.
    #[arg(long, conflicts_with = "chaos")]
    pub(crate) serve: bool,
    /// With `--serve`: no background traffic.
    #[arg(long, requires = "serve")]
    pub(crate) idle: bool,
    /// Chaos test: injects faults into pods and events under load, then checks invariants.
    #[arg(long)]
    pub(crate) chaos: bool,
    /// Duration of fault injection.
    #[arg(long, requires = "chaos", default_value_t = 180, value_parser = clap::value_parser!(u64).range(5..=86_400))]
    pub(crate) seconds: u64,
    /// With `--chaos`: breaks something on purpose, so that a check fails.
    #[arg(long, requires = "chaos", value_name = "WHAT")]
    pub(crate) sabotage: Option<chaos::Sabotage>,
    /// Runs a gateway of these pods until the input ends: the chaos test's own, with few descriptors.
    #[arg(long, value_name = "URLS", value_delimiter = ',', hide = true)]
    pub(crate) gateway_of: Vec<String>,
    /// Stock profile: the only one to compare, or the one to serve with.
    #[arg(long, value_name = "NAME", value_parser = routing_plugins::profiles::NAMES)]
    pub(crate) profile: Option<String>,
    /// Simulated pods.
    #[arg(long, default_value_t = 8, value_parser = RangedU64ValueParser::<usize>::new().range(2..=64))]
    pub(crate) pods: usize,
    /// Speed of simulated pods as a multiple of the measured GPU.
    #[arg(long, value_name = "FACTOR", value_parser = positive)]
    pub(crate) speed: Option<f64>,
    /// Address that the gateway listens on.
    #[arg(long, value_name = "ADDRESS", requires = "serve", default_value = "127.0.0.1:8080")]
    pub(crate) listen: SocketAddr,
    /// Seed of the workload and of the fault schedule.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}

impl Args {
    /// The one profile to serve or to test with.
    pub(crate) fn profile(&self) -> &str {
        self.profile.as_deref().unwrap_or("total_latency")
    }

    /// Conversations beside the user's.
    pub(crate) fn conversations(&self) -> usize {
        if self.idle { 0 } else { 2 * self.pods }
    }
}

/// Parses the command line and runs it.
#[tokio::main]
pub async fn main() -> ExitCode {
    let args = Args::parse();
    let done = if !args.gateway_of.is_empty() {
        chaos::run_gateway(&args.gateway_of).await.map(|()| ExitCode::SUCCESS)
    } else if args.chaos {
        run_chaos(&args).await
    } else if args.serve {
        serve(&args).await
    } else {
        compare_profiles(&args).await
    };
    done.unwrap_or_else(|error| fail("demo", &*error))
}

async fn compare_profiles(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let mut options = compare::Options { pods: args.pods, seed: args.seed, ..compare::Options::default() };
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
    let results = compare::compare(&options, |profile, ended| {
        if ended == 0 {
            progress.end();
            progress = Progress::on_stderr(requests);
        }
        progress.show(ended, format_args!("{profile}: {ended} requests"));
    })
    .await?;
    progress.end();
    println!("\n{}", table(&results));
    let is_short = |result: &&ProfileResult| result.stats.failures() == 0 && result.stats.requests() < requests;
    if let Some(slow) = results.iter().find(is_short) {
        println!("This machine is too slow for all of it: {} was stopped early.\n", slow.profile);
    }
    if let Some(text) = commentary(&results) {
        println!("{text}");
    }
    let errors: usize = results.iter().map(|result| result.stats.failures()).sum();
    for failure in results.iter().flat_map(|result| &result.stats.unreported) {
        println!("error: {failure}");
    }
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn serve(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    // Before anything is printed, so that no signal is lost.
    let mut signals = Signals::listen()?;
    let server = DemoServer::start(args).await?;
    println!("{}", server.hints());
    if args.conversations() > 0 {
        println!("{} conversations go on beside yours; `--idle` is without them.", args.conversations());
    }
    println!("Ctrl-C ends it.");
    signals.stop(&Notify::new()).await?;
    println!("draining");
    server.stop(Duration::from_secs(30)).await;
    Ok(ExitCode::SUCCESS)
}

async fn run_chaos(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    println!("Chaos with seed {} for {} s over {} pods, {}.", args.seed, args.seconds, args.pods, args.profile());
    let mut progress = Progress::on_stderr(args.seconds as usize);
    let report = chaos::run(args, |over, ended| {
        progress.show(over.as_secs() as usize, format_args!("{} requests", grouped(ended)));
    })
    .await?;
    progress.end();
    println!("\n{report}");
    if report.holds() {
        println!("Everything healed.");
        return Ok(ExitCode::SUCCESS);
    }
    println!("seed {}: {}", args.seed, report.violations().join("; "));
    println!(
        "Something did NOT heal. The same faults again: `--chaos --seed {} --seconds {} --pods {} --profile {}`.",
        args.seed,
        args.seconds,
        args.pods,
        args.profile()
    );
    Ok(ExitCode::FAILURE)
}

fn as_measured(speed: f64) -> String {
    if speed == 1.0 { "as long as measured".to_owned() } else { format!("1/{speed} of what was measured") }
}
