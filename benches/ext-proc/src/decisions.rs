//! The picker's decision by itself: `picker-decisions`, without Envoy and without a network.
//!
//! Requests as in `ext-proc`, one after the other: each prompt is new, and each request ends before the next. A decision is
//! what the picker's own clock calls one, from a request that was read to a plan that is counted.

use std::error::Error;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use http::Request;
use pointsman::exec::adapter::TokioTimer;
use pointsman_epp::picker_config::PickerConfig;
use pointsman_epp::{Assembly, Options};
use pointsman_ext_proc::{body, range};
use pointsman_lab::table::TextTable;
use pointsman_test_support::SplitMix64;

/// What a decision takes.
#[derive(Debug, Parser)]
#[command(name = "picker-decisions")]
struct Args {
    /// Rounds that medians are taken over.
    #[arg(long, default_value = "9")]
    rounds: usize,
    /// Requests of a round.
    #[arg(long, default_value = "500")]
    requests: usize,
    /// Sizes of prompts in KB.
    #[arg(long, value_delimiter = ',', default_value = "1,8,128")]
    sizes: Vec<usize>,
    /// How many pods there are.
    #[arg(long, value_delimiter = ',', default_value = "8,256")]
    pods: Vec<usize>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Args { rounds, requests, sizes, pods } = Args::parse();
    let mut table = TextTable::new(["prompt", "pods", "reads µs", "decides µs"]);
    for pods in pods {
        let picker = assemble(pods).await?;
        for kilobytes in &sizes {
            let mut random = SplitMix64::new(*kilobytes as u64);
            let (mut read, mut decided) = (Vec::new(), Vec::new());
            for round in 0..=rounds {
                let bodies: Vec<Bytes> = (0..requests).map(|_| body(*kilobytes, &mut random)).collect();
                let took = lap(&picker, bodies).await?;
                // The first one warms up.
                if round > 0 {
                    let each = |took: Duration| took.as_secs_f64() * 1e6 / requests as f64;
                    read.push(each(took.0));
                    decided.push(each(took.1));
                }
            }
            let row = [format!("{kilobytes} KB"), pods.to_string(), range(read, 1), range(decided, 1)];
            table.row(row);
        }
    }
    println!("{}", table.markdown());
    Ok(())
}

/// A picker by llm-d's default configuration, whose pods are all well.
async fn assemble(pods: usize) -> Result<Assembly, Box<dyn Error>> {
    let mut arguments = vec!["epp".to_owned()];
    for at in 0..pods {
        arguments.extend(["--endpoint".to_owned(), format!("127.0.{}.{}:9", at / 200, at % 200 + 1)]);
    }
    // Nobody listens there: what engines tell is none of a decision's price.
    arguments.extend(["--refresh-metrics-interval".to_owned(), "1h".to_owned()]);
    let assembly = Assembly::start(&PickerConfig::default().translate()?, &Options::parse_from(arguments)).await?;
    while assembly.picker.router().fleet().pods().len() < pods {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(assembly)
}

/// How long requests took to be read, and to be decided about.
async fn lap(assembly: &Assembly, bodies: Vec<Bytes>) -> Result<(Duration, Duration), Box<dyn Error>> {
    let (router, timer) = (assembly.picker.router(), TokioTimer::default());
    let (mut read, mut decided) = (Duration::ZERO, Duration::ZERO);
    for body in bodies {
        let (parts, ()) =
            Request::post("/v1/completions").header("content-type", "application/json").body(())?.into_parts();
        let began = Instant::now();
        let request = router.read(parts, body).map_err(|error| error.message)?;
        let was_read = Instant::now();
        let routed = router.admit_routed(request, &timer).await.map_err(|error| error.message)?;
        decided += was_read.elapsed();
        read += was_read - began;
        drop(routed);
    }
    Ok((read, decided))
}
