//! What an endpoint picker costs behind Envoy: `ext-proc`, with `epp` and `trivial-picker` beside it and `envoy` in the path.
//!
//! Four Envoys with the configuration that is shipped: without a picker, with one that always answers the same pod (the price of
//! `ext_proc` itself) or all in turn (and that of more than one pod), and with ours by llm-d's default configuration. One client sends
//! one request after the other, to all Envoys in an order by chance, so that what a machine does meanwhile falls on all alike: *added* is what differs
//! between requests of one turn. Its middle is that of each round; its 99th percentile is of all rounds together, and wants some hundred requests
//! (`--rounds` times `--requests`), a hundredth of which it leaves out. Pods are addresses of one server, which streams 50 chunks, one a millisecond.

mod pods;
mod setup;

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use pointsman_ext_proc::{body, differences, late, range};
use pointsman_lab::table::TextTable;
use pointsman_test_support::SplitMix64;

use setup::{SYSTEMS, SYSTEMS_AT, Setup, TRIVIAL};

/// Added latency and processor time of a picker.
#[derive(Debug, Parser)]
#[command(name = "ext-proc")]
struct Args {
    /// Rounds that medians are taken over.
    #[arg(long, default_value = "5")]
    rounds: usize,
    /// Requests of a round.
    #[arg(long, default_value = "40")]
    requests: usize,
    /// Sizes of prompts in KB.
    #[arg(long, value_delimiter = ',', default_value = "1,8,128")]
    sizes: Vec<usize>,
    /// How many pods there are.
    #[arg(long, value_delimiter = ',', default_value = "8,256")]
    pods: Vec<usize>,
}

/// One system's rounds.
#[derive(Default)]
struct Rounds {
    /// Microseconds to the first byte: the middle and the 99th percentile.
    first_byte: Vec<[f64; 2]>,
    /// Microseconds more than the trivial picker's, of each round and request.
    added: Vec<Vec<f64>>,
    /// Microseconds of processor time a request: the picker's, and Envoy's.
    cpu: Vec<[f64; 2]>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Args { rounds, requests, sizes, pods } = Args::parse();
    let address = pods::serve().await?;
    let mut table = TextTable::new([
        "prompt",
        "pods",
        "picker",
        "first byte p50 µs",
        "p99 µs",
        "added p50 µs",
        "added p99 µs",
        "picker CPU µs",
        "Envoy CPU µs",
        "reads µs",
        "decides µs",
    ]);
    for pods in pods {
        let setup = Setup::start(pods, address)?;
        for kilobytes in &sizes {
            let (mut measured, before) = (SYSTEMS.map(|_| Rounds::default()), setup.counted());
            let mut random = SplitMix64::new(*kilobytes as u64);
            for round in 0..=rounds {
                let lap = lap(&setup, requests, *kilobytes, &mut random).await?;
                // The first one warms up.
                for (rounds, (first_byte, added, cpu)) in measured.iter_mut().zip(lap).filter(|_| round > 0) {
                    rounds.first_byte.push(first_byte);
                    rounds.added.push(added);
                    rounds.cpu.push(cpu);
                }
                eprintln!("{kilobytes} KB, {pods} pods: round {round} of {rounds}");
            }
            let after = setup.counted();
            let decisions = (after.decisions - before.decisions).max(1.0);
            for (system, rounds) in SYSTEMS.iter().zip(&measured) {
                let is_ours = *system == "ours";
                let per_decision =
                    |nanos: f64| if is_ours { format!("{:.1}", nanos / decisions * 1e6) } else { "–".into() };
                table.row([
                    format!("{kilobytes} KB"),
                    pods.to_string(),
                    (*system).to_owned(),
                    range(rounds.first_byte.iter().map(|late| late[0]), 0),
                    range(rounds.first_byte.iter().map(|late| late[1]), 0),
                    range(rounds.added.iter().map(|added| late(added.iter().copied(), 0.5)), 0),
                    format!("{:.0}", late(rounds.added.iter().flatten().copied(), 0.99)),
                    range(rounds.cpu.iter().map(|cpu| cpu[0]), 0),
                    range(rounds.cpu.iter().map(|cpu| cpu[1]), 0),
                    per_decision(after.read - before.read),
                    per_decision(after.decided - before.decided),
                ]);
            }
        }
    }
    println!("{}", table.markdown());
    Ok(())
}

/// Requests one after the other, each to all systems. Of each: times to first bytes, what was added, and processor times a request.
async fn lap(
    setup: &Setup,
    requests: usize,
    kilobytes: usize,
    random: &mut SplitMix64,
) -> Result<[([f64; 2], Vec<f64>, [f64; 2]); SYSTEMS.len()], Box<dyn Error>> {
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let before = SYSTEMS_AT.map(|at| setup.cpu(at));
    let mut first_bytes = SYSTEMS.map(|_| Vec::new());
    for _ in 0..requests {
        // In any order: what one does last is the next one's beginning.
        let mut order = SYSTEMS_AT;
        random.shuffle(&mut order);
        for system in order {
            let body = body(kilobytes, random);
            first_bytes[system].push(ask(&client, setup.clients(system), setup.pod, body).await?);
        }
    }
    Ok(SYSTEMS_AT.map(|at| {
        let added = differences(&first_bytes[at], &first_bytes[TRIVIAL]);
        let first_byte = [0.5, 0.99].map(|share| late(first_bytes[at].iter().copied(), share));
        let after = setup.cpu(at);
        let per_request = |part: usize| (after[part] - before[at][part]).as_secs_f64() * 1e6 / requests as f64;
        (first_byte, added, [per_request(0), per_request(1)])
    }))
}

async fn ask(
    client: &Client<HttpConnector, Full<Bytes>>,
    gateway: SocketAddr,
    pod: SocketAddr,
    body: Bytes,
) -> Result<f64, Box<dyn Error>> {
    // The Envoy without a picker takes it from here; the others replace it.
    let request = Request::post(format!("http://{gateway}/v1/completions"))
        .header("content-type", "application/json")
        .header("x-gateway-destination-endpoint", pod.to_string())
        .body(Full::new(body))?;
    let began = Instant::now();
    let response = client.request(request).await?;
    let status = response.status();
    let mut body = response.into_body();
    let first = body.frame().await;
    let took = began.elapsed();
    let rest = tokio::time::timeout(Duration::from_secs(10), body.collect()).await??.to_bytes();
    if status != 200 || first.is_none() || !rest.ends_with(b"data: [DONE]\n\n") {
        return Err(format!("{gateway} answered {status}, and not all of it").into());
    }
    Ok(took.as_secs_f64() * 1e6)
}
