//! Event delay and loss: how far a policy degrades when cache events come late or never.

use std::fmt::{self, Write};

use super::{Cell, grid, ttft_p99};
use crate::SimulateError;
use crate::options::Options;
use crate::policy::DEFAULT;
use crate::results::PolicyResult;
use crate::workload::Workload;

/// Runs the experiment, with the default policy unless others are named.
pub(crate) fn run(options: &Options) -> Result<String, SimulateError> {
    let workloads = Workload::all(options)?;
    let policies = options.policies_or([DEFAULT])?;
    let mut faults = Vec::new();
    for (delay, loss) in EVENT_FAULTS {
        let mut faulty = workloads.clone();
        for workload in &mut faulty {
            (workload.config.event_delay_us, workload.config.event_loss) = (delay * 1_000, loss);
        }
        faults.push((delay, loss, grid(&faulty, &policies, options)?));
    }
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_table(&mut text, &workloads, &faults);
    Ok(text)
}

fn write_table(text: &mut String, workloads: &[Workload], faults: &[(u64, f64, Vec<Cell>)]) -> fmt::Result {
    writeln!(text, "| trace | load | policy | events | p99 | against the first | hits | against the first |")?;
    writeln!(text, "|---|---|---|---|---|---|---|---|")?;
    let Some((.., baseline)) = faults.first() else { return Ok(()) };
    for (at, first) in baseline.iter().enumerate() {
        for (delay, loss, cells) in faults {
            let cell = &cells[at];
            let (p99, hits) = (cell.median(ttft_p99), cell.median(PolicyResult::hit_rate));
            writeln!(
                text,
                "| {} | {}% | `{}` | {delay} ms late, {:.0}% lost | {p99:.2} s | {:.2} | {:.1}% | {:.2} |",
                workloads[cell.workload].name,
                cell.load,
                cell.policy(),
                loss * 100.0,
                p99 / first.median(ttft_p99).max(f64::MIN_POSITIVE),
                hits * 100.0,
                hits / first.median(PolicyResult::hit_rate).max(f64::MIN_POSITIVE),
            )?;
        }
    }
    Ok(())
}

/// Milliseconds until an event is known, and the share that never is; the first is as good as it gets.
const EVENT_FAULTS: [(u64, f64); 6] = [(1, 0.0), (100, 0.0), (1_000, 0.0), (1, 0.01), (1, 0.1), (1_000, 0.1)];
