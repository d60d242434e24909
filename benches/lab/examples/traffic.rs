//! What is a trace like? `cargo run -p pointsman-lab --release --example traffic -- FILE`, or a kind of made-up traffic
//! and perhaps a number of requests and a seed: `-- chat 10000 1`. With `--rows` before that it prints the trace itself, in Mooncake's
//! format, each request at its own time.

use std::error::Error;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use pointsman_lab::trace::synthetic::Synthetic;
use pointsman_lab::trace::{Start, Trace};

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let rows = arguments.first().is_some_and(|first| first == "--rows");
    arguments.drain(..usize::from(rows));
    let Some(what) = arguments.first() else {
        eprintln!("expected a file, or a kind of traffic with a number of requests and a seed");
        return ExitCode::FAILURE;
    };
    let number = |at: usize, otherwise: u64| arguments.get(at).and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let trace = match what.parse::<Synthetic>() {
        Ok(made) => Ok(made.trace(number(1, 10_000) as usize, number(2, 1))),
        Err(_) => Trace::open(Path::new(what)),
    };
    let told = trace.map_err(Into::into).and_then(|trace| if rows { print(trace) } else { tell(&trace) });
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let cause = error.source().map_or_else(String::new, |cause| format!(": {cause}"));
            eprintln!("{what}: {error}{cause}");
            ExitCode::FAILURE
        }
    }
}

fn tell(trace: &Trace) -> Result<(), Box<dyn Error>> {
    println!("{}\nblocks of {} tokens; {} rows without a prompt", trace.stats(), trace.block, trace.skipped);
    Ok(())
}

fn print(trace: Trace) -> Result<(), Box<dyn Error>> {
    let mut out = BufWriter::new(io::stdout().lock());
    for request in trace.opened().requests {
        let Start::At(us) = request.start else { unreachable!("opened") };
        let (ms, input, output, ids) = (us as f64 / 1e3, request.input, request.output, request.ids);
        writeln!(
            out,
            r#"{{"timestamp": {ms}, "input_length": {input}, "output_length": {output}, "hash_ids": {ids:?}}}"#
        )?;
    }
    Ok(out.flush()?)
}
