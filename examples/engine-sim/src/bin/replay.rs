//! Plays multi-turn traffic over 64 modelled engines, routes it by an index that their events keep up to date,
//! and checks the index against the engines.
//!
//! Exits with 0 if they agree, 1 if they differ, 2 if the arguments make no sense.

use std::error::Error;
use std::process::ExitCode;

use pointsman_engine_sim::replay::options::{Command, Options};
use pointsman_engine_sim::replay::play::replay;
use pointsman_engine_sim::replay::table::{Table, grouped};
use pointsman_example_common::progress::Progress;

fn main() -> ExitCode {
    match Options::parse(std::env::args().skip(1)) {
        Ok(Command::Run(options)) => run(&options).unwrap_or_else(|error| fail(&*error)),
        Ok(_) => {
            print!("{}", Options::help());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("replay: {error}\nTry `replay --help`.");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let mut progress = Progress::on_stderr((options.conversations * options.turns) as usize);
    let outcome = replay(options, |counts| {
        let (requests, events) = (grouped(counts.requests), grouped(counts.events.total()));
        progress.show(counts.turns, format_args!("{requests} requests, {events} events"));
    })?;
    progress.end();
    print!("{}", Table::of(&outcome));
    if outcome.holds() {
        println!("\nThe index agrees with every engine.");
        Ok(ExitCode::SUCCESS)
    } else {
        println!("\nThe index DISAGREES with the engines; run again with `--seed {}`.", options.seed);
        Ok(ExitCode::FAILURE)
    }
}

fn fail(error: &dyn Error) -> ExitCode {
    eprint!("replay: {error}");
    let mut cause = error.source();
    while let Some(inner) = cause {
        eprint!(": {inner}");
        cause = inner.source();
    }
    eprintln!();
    ExitCode::FAILURE
}
