//! What a hop costs, as a table: `hop`. See the library.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use pointsman_hop::{Figures, Places, Plan, Workload, measure};
use pointsman_lab::table::TextTable;

/// Gateways and proxies between one client and one pod: processor time and lateness of each.
#[derive(Debug, Parser)]
#[command(name = "hop")]
struct Args {
    /// Rounds that medians are taken over.
    #[arg(long, default_value = "5")]
    rounds: usize,
    /// Systems to measure, several with commas; all that are here by default.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// What to send, several with commas; all of it by default.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// A folder with `smg` and `vllm-router`, such as the `bin` of a Python environment.
    #[arg(long, value_name = "FOLDER")]
    peers: Option<PathBuf>,
    /// A share of the requests.
    #[arg(long, default_value = "1")]
    scale: f64,
}

fn main() -> ExitCode {
    let Args { rounds, only, workloads, peers, scale } = Args::parse();
    let programs = std::env::current_exe().ok().and_then(|file| Some(file.parent()?.to_path_buf())).unwrap_or_default();
    let plan = Plan { places: Places { programs, peers }, only, workloads, rounds, scale };
    let (start, folder) = (Instant::now(), std::env::temp_dir().join(format!("pointsman-hop-{}", std::process::id())));
    let measured = measure(&plan, &folder, &mut |line| eprintln!("[{:>4.0} s] {line}", start.elapsed().as_secs_f64()));
    let _ = std::fs::remove_dir_all(&folder);
    match measured {
        Ok(figures) => {
            let has_figures = |workload: &Workload| figures.iter().any(|figures| figures.workload == *workload);
            Workload::ALL.into_iter().filter(has_figures).for_each(|workload| print(workload, &figures));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("hop: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print(workload: Workload, figures: &[Figures]) {
    let mut table = TextTable::new(["hop", "CPU µs/request", "late p50 µs", "late p99 µs", "wrong"]);
    for figures in figures.iter().filter(|figures| figures.workload == workload) {
        let late = |at: usize| middle(figures.late.iter().map(|late| late[at]).collect());
        let wrong = figures.wrong.clone().unwrap_or_default();
        table.row([figures.system.to_owned(), middle(figures.cpu.clone()), late(0), late(1), wrong]);
    }
    println!("### {}\n\n{}", workload.name(), table.markdown());
}

/// The middle with its ends.
fn middle(mut samples: Vec<f64>) -> String {
    samples.sort_by(f64::total_cmp);
    match &samples[..] {
        [] => "–".to_owned(),
        [first, .., last] => format!("{:.1} ({first:.1}..{last:.1})", samples[samples.len() / 2]),
        [only] => format!("{only:.1}"),
    }
}
