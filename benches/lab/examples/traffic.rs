//! What is a trace like? `cargo run -p pointsman-lab --release --example traffic -- FILE`, or a kind of made-up traffic
//! and perhaps a number of requests and a seed: `-- chat 10000 1`.

use std::path::Path;
use std::process::ExitCode;

use pointsman_lab::trace::Trace;
use pointsman_lab::trace::synthetic::Synthetic;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(what) = arguments.first() else {
        eprintln!("expected a file, or a kind of traffic with a number of requests and a seed");
        return ExitCode::FAILURE;
    };
    let number = |at: usize, otherwise: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let trace = match what.parse::<Synthetic>() {
        Ok(made) => Ok(made.trace(number(1, 10_000) as usize, number(2, 1))),
        Err(_) => Trace::open(Path::new(what)),
    };
    match trace {
        Ok(trace) => {
            println!("{}\nblocks of {} tokens; {} rows without a prompt", trace.stats(), trace.block, trace.skipped);
            ExitCode::SUCCESS
        }
        Err(error) => {
            let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            eprintln!("{what}: {error}{cause}");
            ExitCode::FAILURE
        }
    }
}
