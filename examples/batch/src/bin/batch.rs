//! A file of requests, planned as a whole and carried out. Killed, it goes on where it was.
//!
//! Exits with 0 if every request was answered, by this run or an earlier one, 1 if some were not, 2 if the arguments make no
//! sense. A journal of another batch ends it before its files are touched.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use kv_index::BlockSize;
use pointsman_batch::{Batch, Options, PodAt, Summary, Table, made_up, run};
use pointsman_engine_sim::replay::table::grouped;
use pointsman_engine_sim::{PodConfig, SimPod};
use pointsman_example_common::progress::Progress;
use routing_exec::batch::{BatchProgress, Order};

/// Carries out a batch in OpenAI's format: a line of JSON for each request, `{"custom_id", "method", "url", "body"}`.
///
/// Try it without files: `batch --generate 500`.
#[derive(Debug, Parser)]
#[command(name = "batch", version)]
struct Args {
    /// The requests; with `--generate` they are written there first.
    #[arg(long, value_name = "FILE", default_value = "batch.jsonl")]
    input: PathBuf,
    /// Where answers go.
    #[arg(long, value_name = "FILE", default_value = "batch.out.jsonl")]
    output: PathBuf,
    /// Where errors go: of lines that are no requests, and of requests that were not answered well.
    #[arg(long, value_name = "FILE", default_value = "batch.errors.jsonl")]
    errors: PathBuf,
    /// What is done is kept here; if it exists, the run goes on from there. Output and errors are written anew from it.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Starts over, journal or not.
    #[arg(long)]
    fresh: bool,
    /// Makes up so many requests.
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    generate: Option<u32>,
    /// Where the chance of made-up requests begins.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulated pods, if there are no others.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pods: u32,
    /// How many times faster than an H200 simulated pods are.
    #[arg(long, value_name = "TIMES", default_value_t = 4.0, value_parser = positive)]
    speed: f64,
    /// A pod of your own, such as `http://127.0.0.1:8000`; may be given several times.
    #[arg(long = "pod", value_name = "URL", conflicts_with_all = ["pods", "speed"])]
    own: Vec<String>,
    /// Tokens that each pod's cache has room for.
    #[arg(long, value_name = "TOKENS", default_value_t = 65_536, value_parser = clap::value_parser!(u64).range(16..))]
    kv_tokens: u64,
    /// Requests that each pod has under way.
    #[arg(long, value_name = "REQUESTS", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    in_flight: u32,
    /// Answers in the order of the input, or in any.
    #[arg(long, value_enum, default_value = "any")]
    order: Lines,
    /// The model that prompts are hashed for.
    #[arg(long, default_value = "sim")]
    model: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lines {
    In,
    Any,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        _ => Err("not a number above 0".to_owned()),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    match carry_out(&Args::parse()).await {
        Ok(summary) => {
            println!("\n{}", Table(&summary));
            if let Some(error) = &summary.error {
                eprintln!("batch: {error}; run it again with the same `--journal` to go on");
            }
            if summary.is_well() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprint!("batch: {error}");
            let mut cause = error.source();
            while let Some(inner) = cause {
                eprint!(": {inner}");
                cause = inner.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

async fn carry_out(args: &Args) -> Result<Summary, Box<dyn Error>> {
    if let Some(requests) = args.generate {
        std::fs::write(&args.input, made_up(requests as usize, args.seed))?;
    }
    let input = File::open(&args.input).map_err(|error| format!("cannot open `{}`: {error}", args.input.display()))?;
    let batch = Batch::read(BufReader::new(input))?;
    if let Some(journal) = args.journal.as_ref().filter(|journal| args.fresh && journal.exists()) {
        std::fs::remove_file(journal)?;
    }
    let simulated = simulate(args).await?;
    let own = args.own.iter().map(|url| PodAt { name: url.clone(), url: url.clone(), kv_tokens: args.kv_tokens });
    let pods: Vec<PodAt> = own.chain(simulated.iter().map(|pod| at(pod, args.kv_tokens))).collect();
    let kind = if simulated.is_empty() { "" } else { " simulated" };
    eprintln!("{} requests over {}{kind} pods", grouped(batch.lines.len()), pods.len());
    let options = Options {
        model: args.model.clone(),
        block_size: BLOCK,
        in_flight: args.in_flight,
        order: match args.order {
            Lines::In => Order::ByPlace,
            Lines::Any => Order::AsTheyCome,
        },
        journal: args.journal.clone(),
        revive: Some(Duration::from_secs(30)),
    };
    let open = || Ok((BufWriter::new(File::create(&args.output)?), BufWriter::new(File::create(&args.errors)?)));
    let watch = bar(batch.lines.len());
    let summary = run(batch, &pods, &options, open, watch).await?;
    for pod in simulated {
        pod.stop().await;
    }
    Ok(summary)
}

async fn simulate(args: &Args) -> std::io::Result<Vec<SimPod>> {
    let mut pods = Vec::new();
    let count = if args.own.is_empty() { args.pods } else { 0 };
    for nth in 0..count {
        let mut config = PodConfig::new(&format!("pod-{nth}"), &args.model);
        let blocks = u32::try_from(args.kv_tokens / BLOCK.tokens() as u64).unwrap_or(u32::MAX);
        (config.speed, config.block_size, config.blocks) = (args.speed, BLOCK, blocks);
        pods.push(SimPod::start(config, Vec::new()).await?);
    }
    Ok(pods)
}

fn at(pod: &SimPod, kv_tokens: u64) -> PodAt {
    PodAt { name: pod.name().to_owned(), url: format!("http://{}", pod.address()), kv_tokens }
}

/// Draws a bar of what is done.
fn bar(requests: usize) -> impl FnMut(&BatchProgress) + Send + 'static {
    let mut bar = Progress::on_stderr(requests);
    move |progress| {
        let left = progress.left.map_or("?".to_owned(), |left| format!("{:.0} s", left.as_secs_f64()));
        let (done, failed) = (grouped(progress.done()), progress.failed);
        bar.show(progress.done(), format_args!("{done} done, {failed} failed, {left} left"));
        if progress.done() == progress.requests {
            bar.end();
        }
    }
}

const BLOCK: BlockSize = BlockSize::new(16).expect("not zero");
