//! What became of a batch, in figures.

use std::fmt;
use std::time::Duration;

use crate::Summary;
use pointsman_engine_sim::replay::table::grouped;

/// A batch in figures: the whole, then pod by pod.
#[derive(Debug)]
pub struct Table<'s>(pub &'s Summary);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(summary) = self;
        let progress = &summary.progress;
        let mut line = |label: &str, value: String| writeln!(f, "{label:<22} {value:>12}");
        line("requests", grouped(progress.requests))?;
        line("  answered before", grouped(progress.resumed.saturating_sub(summary.failed_before)))?;
        if summary.failed_before > 0 {
            line("  failed before", grouped(summary.failed_before))?;
        }
        line("  answered", grouped(progress.succeeded))?;
        line("  failed", grouped(progress.failed))?;
        line("bad lines", grouped(summary.bad))?;
        line("prompt tokens", grouped(progress.prompt_tokens as usize))?;
        line("  from caches", share(progress.cached_tokens, progress.prompt_tokens))?;
        line("output tokens", grouped(progress.output_tokens as usize))?;
        line("sent again", grouped(progress.retries))?;
        line("plans made anew", grouped(progress.replans))?;
        line("whole run", seconds(progress.elapsed))?;
        writeln!(
            f,
            "\n{:<22} {:>9} {:>13} {:>7} {:>11} {:>9}",
            "pod", "requests", "prompt tokens", "cached", "output", "done after"
        )?;
        for (name, pod) in summary.names.iter().zip(&progress.pods) {
            let name = if pod.is_living { name.clone() } else { format!("{name} (dead)") };
            let (requests, cached) = (grouped(pod.succeeded), share(pod.cached_tokens, pod.prompt_tokens));
            let (prompt, output) = (grouped(pod.prompt_tokens as usize), grouped(pod.output_tokens as usize));
            let busy = seconds(pod.busy);
            writeln!(f, "{name:<22} {requests:>9} {prompt:>13} {cached:>7} {output:>11} {busy:>9}")?;
        }
        Ok(())
    }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 { "-".to_owned() } else { format!("{:.1}%", 100.0 * part as f64 / whole as f64) }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
