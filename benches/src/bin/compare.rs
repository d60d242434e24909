//! Ours and the peers, side by side: see `compare --help`.

use std::process::ExitCode;
use std::time::Instant;

use pointsman_benches::alloc::Counting;
use pointsman_benches::options::{HELP, Options, Request};
use pointsman_benches::{report, sections};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let command = format!("compare {}", args.join(" "));
    match Request::parse(args) {
        Ok(Request::Run(options)) => run(command.trim_end(), &options),
        Ok(_) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("compare: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &str, options: &Options) -> ExitCode {
    let start = Instant::now();
    let mut tell = |line: &str| eprintln!("[{:>5.0} s] {line}", start.elapsed().as_secs_f64());
    let mut tables = Vec::new();
    for &section in &options.sections {
        for table in sections::run(section, options, &mut tell) {
            println!("{}", table.markdown());
            tables.push(table);
        }
    }
    if let Some(path) = &options.json {
        if let Err(error) = std::fs::write(path, report::json(command, &tables)) {
            eprintln!("compare: cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
