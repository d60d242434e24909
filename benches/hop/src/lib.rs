//! What a hop costs: gateways and proxies between one client and one pod, side by side.
//!
//! Every hop runs on one core, client and pod on the others. Two figures: processor time of the hop a request, as the system
//! counts it, and how late the client gets what the pod sent. Rounds of all hops are taken in turn. What is not streamed
//! where it should be, or not answered whole, is told beside the figures.
//!
//! | module | idea |
//! |---|---|
//! | `workload` | what is sent |
//! | `pod`, `client` | both ends, in this process: chunks carry the time of their sending |
//! | `systems`, `process` | the hops, how each is configured, started and watched |

mod client;
mod pod;
mod process;
mod systems;
mod workload;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use client::Lap;
pub use process::Process;
pub use systems::Places;
use systems::System;
pub use workload::Workload;

/// How much is measured, and of whom.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "filled in by name")]
pub struct Plan {
    /// Where programs are.
    pub places: Places,
    /// Systems that are measured; all that are here, if none is named.
    pub only: Vec<String>,
    /// What is sent; all of it, if nothing is named.
    pub workloads: Vec<Workload>,
    /// Rounds that medians are taken over.
    pub rounds: usize,
    /// A share of the requests of a lap, for a look.
    pub scale: f64,
}

/// The figures of one hop under one workload, a round each.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "figures, read by name")]
pub struct Figures {
    /// The hop.
    pub system: &'static str,
    /// The workload.
    pub workload: Workload,
    /// Microseconds of processor time a request.
    pub cpu: Vec<f64>,
    /// Microseconds: the middle and the 99th percentile of whole answers, or of chunks.
    pub late: Vec<[f64; 2]>,
    /// What was not as it should be.
    pub wrong: Option<String>,
}

/// Measures. Files of the hops go into a folder.
///
/// # Errors
///
/// When a thread, a socket or a file cannot be had.
pub fn measure(plan: &Plan, folder: &Path, tell: &mut dyn FnMut(&str)) -> std::io::Result<Vec<Figures>> {
    let start = Instant::now();
    // Threads inherit it: from here on the first core is the hops'.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores > 1 {
        pin(&format!("1-{}", cores - 1));
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let (listener, address) = pod::bind().await.expect("a port");
            sender.send(address).expect("it is awaited");
            pod::serve(listener, start).await;
        });
    });
    let pod = receiver.recv().map_err(std::io::Error::other)?;
    let systems = systems::start(&plan.places, &plan.only, 0, pod, folder, tell)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut figures = Vec::new();
    let is_wanted = |workload: &Workload| plan.workloads.is_empty() || plan.workloads.contains(workload);
    for workload in Workload::ALL.into_iter().filter(is_wanted) {
        let mut row: Vec<Figures> = systems.iter().map(|system| Figures::new(system.name, workload)).collect();
        for round in 0..plan.rounds {
            tell(&format!("{}, round {} of {}", workload.name(), round + 1, plan.rounds));
            for at in (0..systems.len()).map(|at| (at + round) % systems.len()) {
                runtime.block_on(round_of(&systems[at], plan.scale, round, start, &mut row[at]));
            }
        }
        figures.append(&mut row);
    }
    if cores > 1 {
        pin(&format!("0-{}", cores - 1));
    }
    Ok(figures)
}

impl Figures {
    fn new(system: &'static str, workload: Workload) -> Self {
        Self { system, workload, cpu: Vec::new(), late: Vec::new(), wrong: None }
    }

    fn note(&mut self, lap: &Lap, requests: usize) {
        let whole = lap.answered == requests && (!matches!(self.workload, Workload::Paced) || lap.streamed == requests);
        if !whole {
            let text = lap.wrong.clone().unwrap_or_else(|| format!("{} of {requests} were streamed", lap.streamed));
            self.wrong.get_or_insert(text);
        }
    }
}

/// One round of one hop: warm up, count time as fast as it goes, then see how late things are when it is not pressed.
async fn round_of(system: &System, scale: f64, round: usize, start: Instant, figures: &mut Figures) {
    let workload = figures.workload;
    let requests = ((workload.requests() as f64 * scale) as usize).max(workload.connections());
    let first = round * 10 * requests;
    client::lap(system.address, workload, first, requests / 10 + 1, Duration::ZERO, start).await;
    let before = system.process.as_ref().map(process::Process::cpu);
    let lap = client::lap(system.address, workload, first + requests, requests, Duration::ZERO, start).await;
    if let (Some(process), Some(before)) = (&system.process, before) {
        figures.cpu.push((process.cpu() - before).as_secs_f64() * 1e6 / requests as f64);
    }
    figures.note(&lap, requests);
    // Paced streams do not press anybody.
    let lap = match workload {
        Workload::Paced => lap,
        _ => {
            let few = (requests / 4).max(workload.connections());
            let lap = client::lap(system.address, workload, first + 3 * requests, few, UNPRESSED, start).await;
            figures.note(&lap, few);
            lap
        }
    };
    let mut late = lap.late;
    late.sort_by(f64::total_cmp);
    let at = |share: f64| late.get(((late.len() as f64 * share) as usize).min(late.len().saturating_sub(1))).copied();
    figures.late.push([0.5, 0.99].map(|share| at(share).unwrap_or(f64::NAN)));
}

/// Between two requests of a connection where nobody is pressed.
const UNPRESSED: Duration = Duration::from_millis(20);

/// Moves this process to some cores.
fn pin(cores: &str) {
    let id = std::process::id().to_string();
    let _ = Command::new("taskset").args(["-pc", cores, &id]).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
