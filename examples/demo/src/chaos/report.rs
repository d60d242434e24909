//! What a chaos run prints: what was done, what came of it, what was checked.

use std::fmt;
use std::time::Duration;

use crate::chaos::check::{Check, Finding};
use crate::chaos::schedule::Schedule;
use crate::load::{Tally, percentile};
use pointsman_engine_sim::replay::table::grouped;

/// A run that is over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// What chance began with.
    pub seed: u64,
    /// How long faults went on.
    pub length: Duration,
    /// What went wrong.
    pub schedule: Schedule,
    /// What clients saw while it did.
    pub tally: Tally,
    /// What became of requests to pods: the outcome and how often.
    pub attempts: Vec<(String, u64)>,
    /// What was checked.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether every check holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.checks.iter().all(Check::holds)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tally = &self.tally;
        writeln!(f, "faults, seed {}, {} s", self.seed, self.length.as_secs())?;
        for (kind, count) in self.schedule.kinds() {
            row(f, kind, &grouped(count))?;
        }
        writeln!(f, "\nrequests")?;
        row(f, "in all", &grouped(tally.requests()))?;
        row(f, "answered whole", &grouped(tally.answered))?;
        for (kind, count) in &tally.failed {
            row(f, kind, &grouped(*count))?;
        }
        row(f, "hit rate", &format!("{:.1}%", 100.0 * tally.hit_rate()))?;
        for percent in [50, 99] {
            let first = percentile(&tally.firsts, percent).unwrap_or_default();
            row(f, &format!("TTFT p{percent}"), &format!("{} ms", first.as_millis()))?;
        }
        writeln!(f, "\nasked of pods")?;
        for (outcome, count) in &self.attempts {
            row(f, outcome, &grouped(*count as usize))?;
        }
        writeln!(f, "\nchecks")?;
        for check in &self.checks {
            match &check.finding {
                Finding::Holds(figures) => row(f, check.what, &format!("holds: {figures}"))?,
                Finding::Broken(how) => row(f, check.what, &format!("BROKEN: {how}"))?,
            }
        }
        Ok(())
    }
}

fn row(f: &mut fmt::Formatter<'_>, label: &str, value: &str) -> fmt::Result {
    writeln!(f, "  {label:<44}  {value}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Failure;

    #[test]
    fn a_broken_check_stands_out_and_is_the_verdict() {
        let length = Duration::from_secs(20);
        let mut report = Report {
            seed: 7,
            length,
            schedule: Schedule::new(7, 8, length),
            tally: Tally::default(),
            attempts: vec![("silent".to_owned(), 3)],
            checks: vec![Check::new("nothing is left", "0 tasks".to_owned(), &[])],
        };
        report.tally.add(&Err(Failure::Status(502)));
        assert!(report.holds());
        let text = report.to_string();
        for line in ["seed 7", "partition events", "status 502", "silent", "holds: 0 tasks"] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        report.checks.push(Check::new("x", String::new(), &["one".to_owned(), "two".to_owned()]));
        assert!(!report.holds());
        assert!(report.to_string().contains("BROKEN: one; two"));
    }
}
