//! One simulated pod as a process of its own. SIGTERM or Ctrl-C ends it; `POST /sim/fault` does to it what a test or a
//! user wants.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use kv_index::BlockSize;
use pointsman_engine_sim::publish::{PublishConfig, ZmqPublisher};
use pointsman_engine_sim::{PodConfig, SimPod};
use pointsman_example_common::cli::{fail, positive};
use pointsman_example_common::signals::Signals;
use routing_core::Role;
use tokio::sync::Notify;

/// A simulated vLLM pod: OpenAI's API over HTTP, cache events over ZeroMQ, costs as measured on an H200.
#[derive(Debug, Parser)]
#[command(name = "engine-sim", version)]
struct Args {
    /// What the fleet calls it.
    #[arg(long, default_value = "pod-0")]
    name: String,
    /// The model it serves.
    #[arg(long, default_value = "sim")]
    model: String,
    /// What it is asked to do.
    #[arg(long, value_enum, default_value = "both")]
    role: PodRole,
    /// Where it listens for HTTP; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where its events are published; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    events: SocketAddr,
    /// Where its events are replayed; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    replay: SocketAddr,
    /// Batches of events that it keeps for replay.
    #[arg(long, value_name = "BATCHES", default_value_t = 10_000)]
    replay_batches: usize,
    /// What its events are published as.
    #[arg(long, default_value = "")]
    topic: String,
    /// What its block hashes begin with, as `PYTHONHASHSEED` does for vLLM.
    #[arg(long, value_name = "SEED", default_value = "0")]
    hash_seed: String,
    /// How long prefilled blocks wait for the pod that decodes.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    lease: u32,
    /// How many times faster than an H200 it is.
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = positive)]
    speed: f64,
    /// Blocks that its memory holds.
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(1..))]
    blocks: u32,
    /// Tokens in a block.
    #[arg(long, value_name = "TOKENS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    block_size: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PodRole {
    Prefill,
    Decode,
    Both,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail("engine-sim", &error),
    }
}

async fn run(args: Args) -> std::io::Result<()> {
    let mut config = PodConfig::new(&args.name, &args.model);
    config.role = match args.role {
        PodRole::Prefill => Role::Prefill,
        PodRole::Decode => Role::Decode,
        PodRole::Both => Role::Both,
    };
    (config.listen, config.speed, config.blocks) = (args.listen, args.speed, args.blocks);
    (config.hash_seed, config.replay_batches) = (args.hash_seed, args.replay_batches);
    config.lease = Duration::from_secs(args.lease.into());
    config.block_size = BlockSize::new(args.block_size).expect("the flag's range begins at 1");
    let mut publish = PublishConfig::new(&args.topic, args.replay_batches);
    (publish.events, publish.replay) = (args.events, args.replay);
    // Heard before anybody is told that the pod is there.
    let mut signals = Signals::listen()?;
    let (sink, publisher) = ZmqPublisher::bind(publish).await?;
    let pod = SimPod::start(config, vec![Box::new(sink)]).await?;
    pod.on_fault(publisher.faults());
    let endpoints = publisher.endpoints();
    println!("{} serves {} at http://{}", pod.name(), args.model, pod.address());
    println!("events at {}, replay at {}", endpoints.events, endpoints.replay);
    signals.stop(&Notify::new()).await?;
    pod.stop().await;
    publisher.stop().await;
    Ok(())
}
