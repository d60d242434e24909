//! Instruction counts of the hottest operations, against a baseline.
//!
//! Counts come from `valgrind --tool=callgrind`: they repeat where times do not. Each operation runs in a process of its
//! own, some times and twice as often; the difference has no set-up in it. Some are counted without another that is in them:
//! what a decision adds to its search. The rule: a rise over 3% fails.
//!
//! ```text
//! cargo run --release -p pointsman-hot             compares with counts.txt
//! cargo run --release -p pointsman-hot -- --bless  writes it
//! cargo run --release -p pointsman-hot -- NAME N   runs one operation N times, for a profiler
//! ```

mod baseline;
mod count;
mod decide;
mod operations;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::baseline::{Baseline, Change};
use crate::operations::OPERATIONS;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => compare(),
        ["--bless"] => bless(),
        [name, times] => operate(name, times),
        _ => Err("usage: pointsman-hot [--bless | NAME N]".to_owned()),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("pointsman-hot: {error}");
            ExitCode::FAILURE
        }
    }
}

fn operate(name: &str, times: &str) -> Result<ExitCode, String> {
    let operation = OPERATIONS.iter().find(|operation| operation.name == name).ok_or_else(|| {
        let names: Vec<&str> = OPERATIONS.iter().map(|operation| operation.name).collect();
        format!("no operation `{name}`: there are {}", names.join(", "))
    })?;
    let times: usize = times.parse().map_err(|_| format!("`{times}` is not a number"))?;
    // Printed, so that the work is not for nothing, and to see that it is the same each time.
    println!("{}", (operation.prepare)().run(times));
    Ok(ExitCode::SUCCESS)
}

fn compare() -> Result<ExitCode, String> {
    let path = path();
    let before = Baseline::read(&path)?;
    let now = measured()?;
    if before.toolchain != now.toolchain {
        println!("note: the baseline was counted with {}, this with {}", before.toolchain, now.toolchain);
    }
    let mut code = ExitCode::SUCCESS;
    for (name, count, change) in now.against(&before) {
        println!("{name:<24} {count:>12.1}  {change}");
        if matches!(change, Change::Rose(..) | Change::Missing) {
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

fn bless() -> Result<ExitCode, String> {
    let now = measured()?;
    let path = path();
    std::fs::write(&path, now.to_string()).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    print!("{now}");
    Ok(ExitCode::SUCCESS)
}

fn measured() -> Result<Baseline, String> {
    let mut counts: Vec<(String, f64)> = Vec::new();
    for operation in OPERATIONS {
        let whole = count::per_run(operation.name, operation.times)?;
        // What is left out was counted before.
        let other = counts.iter().find(|(name, _)| operation.without == Some(name));
        counts.push((operation.name.to_owned(), whole - other.map_or(0.0, |(_, count)| *count)));
    }
    Ok(Baseline { toolchain: count::toolchain()?, counts })
}

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.txt")
}
