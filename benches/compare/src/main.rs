//! Ours beside the peers: see `compare --help`.

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use pointsman_compare::options::Options;
use pointsman_compare::{output, results, sections};
use pointsman_test_support::alloc::{CountingAllocator, Process};

#[global_allocator]
static ALLOCATOR: CountingAllocator<Process> = CountingAllocator::new();

fn main() -> ExitCode {
    let (options, command) = (Options::parse(), shown(std::env::args().skip(1)));
    let (start, sections) = (Instant::now(), options.sections());
    let mut tables = Vec::new();
    for (at, &section) in sections.iter().enumerate() {
        let name = section.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let place = format!("[{}/{} {name}]", at + 1, sections.len());
        let mut tell = |line: &str| eprintln!("[{:>5.0} s] {place} {line}", start.elapsed().as_secs_f64());
        for table in sections::run(section, &options, &mut tell) {
            println!("{}", table.markdown());
            tables.push(table);
        }
    }
    let json = options.json.iter().map(|path| (path, std::fs::write(path, results::json(&command, &tables))));
    let out = options.out.iter().map(|folder| (folder, output::write(folder, &command, &options, &tables)));
    for (path, written) in json.chain(out) {
        if let Err(error) = written {
            eprintln!("compare: cannot write {}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// The command as results quote it: where they were written to does not matter.
fn shown(mut args: impl Iterator<Item = String>) -> String {
    let mut words = vec!["pointsman-compare".to_owned()];
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--out" | "--json" => drop(args.next()),
            _ => words.push(arg),
        }
    }
    words.join(" ")
}
