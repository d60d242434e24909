//! Runs OpenAI batch files: planned as a whole over pods, resumable by a journal.
//!
//! Lines are parsed and validated ([`input`]), prompts become chains of block hashes ([`tokenizer`]) and a plan assigns them to pods
//! ([`planning`], [`pods`]), a runner executes the plan with a journal ([`run`], [`source`]) and writes OpenAI's result lines ([`output`]).
//! Invariant: every line of the input is in the output or among the errors, once.
//!
//! Exit status: 0 if every request was answered, by this run or an earlier one, 1 if not, 2 on invalid arguments. A journal of
//! another batch ends it before its files are touched.

#![forbid(unsafe_code)]

mod input;
mod output;
mod planning;
mod pods;
mod run;
mod source;
mod summary;
mod synthetic;
#[cfg(test)]
mod tests;
mod tokenizer;

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use kv_index::BlockSize;
use pointsman_engine_sim::{PodConfig, SimPod};
use pointsman_example_common::cli::{fail, positive};
use pointsman_example_common::progress::Progress;
use pointsman_lab::format::grouped;
use routing_exec::batch::{BatchProgress, ResultOrder};

use input::Batch;
use pods::PodEndpoint;
use run::{Options, run_batch};
use summary::BatchSummary;
use synthetic::synthetic_batch;

/// Runs an OpenAI batch file: one JSON request a line, `{"custom_id", "method", "url", "body"}`.
///
/// Try it without files: `batch --generate 500`.
#[derive(Debug, Parser)]
#[command(name = "batch", version)]
struct Args {
    /// Input file. `--generate` overwrites it.
    #[arg(long, value_name = "FILE", default_value = "batch.jsonl")]
    input: PathBuf,
    /// Output file for answers.
    #[arg(long, value_name = "FILE", default_value = "batch.out.jsonl")]
    output: PathBuf,
    /// Output file for errors: invalid lines, and requests without success.
    #[arg(long, value_name = "FILE", default_value = "batch.errors.jsonl")]
    errors: PathBuf,
    /// Journal of completed requests. An existing one is resumed; output and errors are rewritten from it.
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Deletes an existing journal and starts over.
    #[arg(long, requires = "journal")]
    fresh: bool,
    /// Generates a synthetic batch of so many requests.
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    generate: Option<u32>,
    /// Seed of the synthetic batch.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulated pods, unless `--pod` is given.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pods: u32,
    /// Speed of simulated pods as a multiple of an H200.
    #[arg(long, value_name = "FACTOR", default_value_t = 4.0, value_parser = positive)]
    speed: f64,
    /// URL of a pod, such as `http://127.0.0.1:8000`; repeatable.
    #[arg(long = "pod", value_name = "URL", conflicts_with_all = ["pods", "speed"])]
    pod_urls: Vec<String>,
    /// KV cache of each pod, in tokens. Without it `/metrics` of vLLM or SGLang is asked, and simulated pods have 65,536.
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(16..))]
    kv_tokens: Option<u64>,
    /// Tokens of a block of engines' caches.
    #[arg(long, value_name = "TOKENS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    block_size: u32,
    /// Tokenizer of the model, `tokenizer.json`, with `tokenizer_config.json` or `chat_template.jinja` in the same folder; needs the
    /// feature `tokenizers`. Without it prompts are cut into words: shared prefixes are found, but not how many tokens they have.
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// Concurrency limit of each pod; fewer are sent where more would only wait there.
    #[arg(long, value_name = "REQUESTS", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    in_flight: u32,
    /// Order of output lines.
    #[arg(long, value_enum, default_value = "any")]
    order: OutputOrder,
    /// Model that prompts are hashed for.
    #[arg(long, default_value = "sim")]
    model: String,
}

impl Args {
    fn simulated_kv_tokens(&self) -> u64 {
        self.kv_tokens.unwrap_or(65_536)
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OutputOrder {
    /// The order of the input.
    In,
    /// As answers come.
    Any,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run_file(&Args::parse()).await {
        Ok(summary) => {
            println!("\n{summary}");
            if let Some(error) = &summary.error {
                eprintln!("batch: {error}; run again with the same `--journal` to resume");
            }
            if summary.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => fail("batch", &*error),
    }
}

async fn run_file(args: &Args) -> Result<BatchSummary, Box<dyn Error>> {
    if let Some(requests) = args.generate {
        std::fs::write(&args.input, synthetic_batch(requests as usize, args.seed))?;
    }
    let input = File::open(&args.input).map_err(|error| format!("cannot open `{}`: {error}", args.input.display()))?;
    let batch = Batch::read(BufReader::new(input))?;
    let tokenizer = tokenizer::load(args.tokenizer.as_deref())?;
    let block_size = BlockSize::new(args.block_size).ok_or("a block has tokens")?;
    let simulated = simulate(args, block_size).await?;
    let mut pods: Vec<PodEndpoint> = simulated.iter().map(|pod| at(pod, args.simulated_kv_tokens())).collect();
    pods.extend(PodEndpoint::all(&args.pod_urls, args.kv_tokens).await?);
    // Not before all else is known to be right: what was done is lost with it.
    if let Some(journal) = args.journal.as_ref().filter(|journal| args.fresh && journal.exists()) {
        std::fs::remove_file(journal)?;
    }
    let kind = if simulated.is_empty() { "" } else { " simulated" };
    eprintln!("{} requests over {}{kind} pods", grouped(batch.lines.len()), pods.len());
    let options = Options {
        tokenizer,
        model: args.model.clone(),
        block_size,
        in_flight: args.in_flight,
        order: match args.order {
            OutputOrder::In => ResultOrder::Index,
            OutputOrder::Any => ResultOrder::Completion,
        },
        journal: args.journal.clone(),
        probe_interval: Some(Duration::from_secs(30)),
    };
    let open = || Ok((BufWriter::new(File::create(&args.output)?), BufWriter::new(File::create(&args.errors)?)));
    let watch = bar(batch.lines.len());
    let summary = run_batch(batch, &pods, &options, open, watch).await?;
    for pod in simulated {
        pod.stop().await;
    }
    Ok(summary)
}

async fn simulate(args: &Args, block_size: BlockSize) -> std::io::Result<Vec<SimPod>> {
    let mut pods = Vec::new();
    let count = if args.pod_urls.is_empty() { args.pods } else { 0 };
    for nth in 0..count {
        let mut config = PodConfig::new(&format!("pod-{nth}"), &args.model);
        let blocks = u32::try_from(args.simulated_kv_tokens() / block_size.tokens() as u64).unwrap_or(u32::MAX);
        (config.speed, config.block_size, config.blocks) = (args.speed, block_size, blocks);
        pods.push(SimPod::start(config, Vec::new()).await?);
    }
    Ok(pods)
}

fn at(pod: &SimPod, kv_tokens: u64) -> PodEndpoint {
    PodEndpoint { name: pod.name().to_owned(), url: format!("http://{}", pod.address()), kv_tokens }
}

/// Draws a bar of what is done.
fn bar(requests: usize) -> impl FnMut(&BatchProgress) + Send + 'static {
    let mut bar = Progress::on_stderr(requests);
    move |progress| {
        let eta = progress.eta.map_or("?".to_owned(), |eta| format!("{:.0} s", eta.as_secs_f64()));
        let (done, failed) = (grouped(progress.completed()), progress.failed);
        bar.show(progress.completed(), format_args!("{done} done, {failed} failed, {eta} left"));
        if progress.completed() == progress.requests {
            bar.end();
        }
    }
}
