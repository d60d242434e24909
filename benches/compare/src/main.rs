//! Ours beside the peers: see `pointsman-compare --help`.

use std::process::ExitCode;
use std::time::Instant;

use pointsman_compare::options::{Command, HELP, Options};
use pointsman_compare::{output, results, sections};
use pointsman_test_support::alloc::{CountingAllocator, Process};

#[global_allocator]
static ALLOCATOR: CountingAllocator<Process> = CountingAllocator::new();

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let command = shown(&args);
    match Command::parse(args) {
        Ok(Command::Run(options)) => run(&command, &options),
        Ok(_) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("pointsman-compare: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The command as results quote it: where they were written to does not matter.
fn shown(args: &[String]) -> String {
    let mut words = vec!["pointsman-compare"];
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--out" | "--json" => drop(args.next()),
            arg => words.push(arg),
        }
    }
    words.join(" ")
}

fn run(command: &str, options: &Options) -> ExitCode {
    let (start, sections) = (Instant::now(), &options.sections);
    let mut tables = Vec::new();
    for (at, &section) in sections.iter().enumerate() {
        let place = format!("[{}/{} {}]", at + 1, sections.len(), section.name());
        let mut tell = |line: &str| eprintln!("[{:>5.0} s] {place} {line}", start.elapsed().as_secs_f64());
        for table in sections::run(section, options, &mut tell) {
            println!("{}", table.markdown());
            tables.push(table);
        }
    }
    let json = options.json.iter().map(|path| (path, std::fs::write(path, results::json(command, &tables))));
    let out = options.out.iter().map(|folder| (folder, output::write(folder, command, options, &tables)));
    for (path, written) in json.chain(out) {
        if let Err(error) = written {
            eprintln!("pointsman-compare: cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
