//! What an endpoint picker costs behind Envoy: `pointsman-ext-proc`, with `epp` and `trivial-picker` beside it and `envoy` in the path.
//!
//! Three Envoys with the configuration that is shipped: without a picker, with one that always answers the same pod (the price of
//! `ext_proc` itself), and with ours by llm-d's default configuration. One client sends one request after the other; rounds of all
//! three are taken in turn. Pods are addresses of one server, which streams 50 chunks, one a millisecond.

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
use pointsman_lab::table::TextTable;
use pointsman_test_support::SplitMix64;

use setup::{SYSTEMS, Setup};

/// Added latency and processor time of a picker.
#[derive(Debug, Parser)]
#[command(name = "pointsman-ext-proc")]
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
                for (at, rounds) in measured.iter_mut().enumerate() {
                    let lap = lap(&setup, at, requests, *kilobytes, &mut random).await?;
                    // The first one warms up.
                    if round > 0 {
                        rounds.first_byte.push(lap.0);
                        rounds.cpu.push(lap.1);
                    }
                }
                eprintln!("{kilobytes} KB, {pods} pods: round {round} of {rounds}");
            }
            let after = setup.counted();
            let decisions = (after.decisions - before.decisions).max(1.0);
            let base = middle(measured[1].first_byte.iter().map(|late| late[0]));
            for (system, rounds) in SYSTEMS.iter().zip(&measured) {
                let p50 = middle(rounds.first_byte.iter().map(|late| late[0]));
                let is_ours = *system == "ours";
                let per_decision =
                    |nanos: f64| if is_ours { format!("{:.1}", nanos / decisions * 1e6) } else { "–".into() };
                table.row([
                    format!("{kilobytes} KB"),
                    pods.to_string(),
                    (*system).to_owned(),
                    range(rounds.first_byte.iter().map(|late| late[0])),
                    range(rounds.first_byte.iter().map(|late| late[1])),
                    format!("{:+.0}", p50 - base),
                    range(rounds.cpu.iter().map(|cpu| cpu[0])),
                    range(rounds.cpu.iter().map(|cpu| cpu[1])),
                    per_decision(after.read - before.read),
                    per_decision(after.decided - before.decided),
                ]);
            }
        }
    }
    println!("{}", table.markdown());
    Ok(())
}

/// Requests one after the other: times to first bytes, and processor times a request.
async fn lap(
    setup: &Setup,
    system: usize,
    requests: usize,
    kilobytes: usize,
    random: &mut SplitMix64,
) -> Result<([f64; 2], [f64; 2]), Box<dyn Error>> {
    let client: Client<HttpConnector, Full<Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let bodies: Vec<Bytes> = (0..requests).map(|_| body(kilobytes, random)).collect();
    let before = setup.cpu(system);
    let mut first_bytes = Vec::new();
    for body in bodies {
        first_bytes.push(ask(&client, setup.clients(system), setup.pod, body).await?);
    }
    let after = setup.cpu(system);
    first_bytes.sort_by(f64::total_cmp);
    let at = |share: f64| first_bytes[((first_bytes.len() - 1) as f64 * share).round() as usize];
    let per_request = |at: usize| (after[at] - before[at]).as_secs_f64() * 1e6 / requests as f64;
    Ok(([at(0.5), at(0.99)], [per_request(0), per_request(1)]))
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

/// A request whose prompt nobody has seen.
fn body(kilobytes: usize, random: &mut SplitMix64) -> Bytes {
    let mut text = String::with_capacity(kilobytes * 1024 + 100);
    text.push_str(r#"{"model":"m","stream":true,"max_tokens":50,"prompt":""#);
    while text.len() < kilobytes * 1024 {
        text.push_str(&format!("{:x} ", random.next_u64()));
    }
    text.push_str("\"}");
    text.into()
}

fn middle(samples: impl Iterator<Item = f64>) -> f64 {
    let mut samples: Vec<f64> = samples.collect();
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// The middle with its ends.
fn range(samples: impl Iterator<Item = f64>) -> String {
    let mut samples: Vec<f64> = samples.collect();
    samples.sort_by(f64::total_cmp);
    format!("{:.0} ({:.0}..{:.0})", samples[samples.len() / 2], samples[0], samples[samples.len() - 1])
}
