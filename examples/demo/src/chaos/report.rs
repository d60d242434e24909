//! Chaos report: injected faults, request statistics, attempts, invariants.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::chaos::availability::Availability;
use crate::chaos::fault_schedule::FaultSchedule;
use crate::chaos::healing::Healing;
use crate::chaos::invariants::Invariant;
use crate::load_generator::{LoadStats, percentile};
use pointsman_lab::format::grouped;

/// The report of a chaos test.
#[derive(Clone, Debug)]
pub(crate) struct ChaosReport {
    /// The seed.
    pub(crate) seed: u64,
    /// Duration of fault injection.
    pub(crate) length: Duration,
    /// The injected faults.
    pub(crate) schedule: FaultSchedule,
    /// Statistics of the clients during fault injection.
    pub(crate) stats: LoadStats,
    /// Attempts by outcome.
    pub(crate) attempts: Vec<(String, u64)>,
    /// What became of requests, by what could have become of them.
    pub(crate) availability: Availability,
    /// Times to heal.
    pub(crate) healings: Vec<Healing>,
    /// The checked invariants.
    pub(crate) invariants: Vec<Invariant>,
}

impl ChaosReport {
    /// Whether every check holds.
    pub(crate) fn holds(&self) -> bool {
        self.invariants.iter().all(Invariant::holds)
    }

    /// The invariants that do not hold.
    pub(crate) fn violations(&self) -> Vec<String> {
        let violation = |invariant: &Invariant| {
            invariant.result.as_ref().err().map(|violations| format!("{}: {violations}", invariant.name))
        };
        self.invariants.iter().filter_map(violation).collect()
    }

    /// Times to heal by kinds of faults: how many were observed, the median and the slowest.
    fn healed(&self) -> Vec<(&'static str, String)> {
        let mut kinds: BTreeMap<&'static str, Vec<Duration>> = BTreeMap::new();
        for healing in &self.healings {
            kinds.entry(healing.kind).or_default().extend(healing.took);
        }
        let text = |took: &[Duration]| match (percentile(took, 50), percentile(took, 100)) {
            (Some(median), Some(slowest)) => {
                format!(
                    "{} times, median {:.1} s, slowest {:.1} s",
                    took.len(),
                    median.as_secs_f64(),
                    slowest.as_secs_f64()
                )
            }
            _ => "not observed: the pod's next fault came before".to_owned(),
        };
        kinds.into_iter().map(|(kind, took)| (kind, text(&took))).collect()
    }
}

impl fmt::Display for ChaosReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = &self.stats;
        writeln!(f, "faults, seed {}, {} s", self.seed, self.length.as_secs())?;
        for (kind, count) in self.schedule.kinds() {
            row(f, kind, &grouped(count))?;
        }
        writeln!(f, "\nrequests")?;
        row(f, "total", &grouped(stats.requests()))?;
        row(f, "answered", &grouped(stats.answered))?;
        for (kind, count) in &stats.failed {
            row(f, kind, &grouped(count))?;
        }
        row(f, "hit rate", &format!("{:.1}%", 100.0 * stats.hit_rate()))?;
        for percent in [50, 99] {
            let first = percentile(&stats.ttft, percent).unwrap_or_default();
            row(f, &format!("TTFT p{percent}"), &format!("{} ms", first.as_millis()))?;
        }
        let Availability { answered, failed, truncated, left, without_pods } = &self.availability;
        writeln!(f, "\navailability: {:.2}%", 100.0 * self.availability.share())?;
        row(f, "answered", &grouped(answered))?;
        for (kind, count) in failed {
            row(f, kind, &grouped(count))?;
        }
        for (kind, count) in [
            ("apart: streams that a fault of their pod ended", truncated),
            ("apart: the client left", left),
            ("apart: for a moment no pod could answer", without_pods),
        ] {
            row(f, kind, &grouped(count))?;
        }
        writeln!(f, "\ntime to heal")?;
        for (kind, text) in self.healed() {
            row(f, kind, &text)?;
        }
        writeln!(f, "\nattempts")?;
        for (result, count) in &self.attempts {
            row(f, result, &grouped(count))?;
        }
        writeln!(f, "\ninvariants")?;
        for invariant in &self.invariants {
            match &invariant.result {
                Ok(checked) => row(f, invariant.name, &format!("holds: {checked}"))?,
                Err(violations) => row(f, invariant.name, &format!("VIOLATED: {violations}"))?,
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
    use crate::load_generator::Failure;

    #[test]
    fn a_violated_invariant_stands_out_and_fails_the_report() {
        let length = Duration::from_secs(20);
        let mut report = ChaosReport {
            seed: 7,
            length,
            schedule: FaultSchedule::new(7, 8, length),
            stats: LoadStats::default(),
            attempts: vec![("silent".to_owned(), 3)],
            availability: Availability { answered: 3, truncated: 7, ..Availability::default() },
            healings: vec![Healing {
                kind: "hang",
                pod: 1,
                since: length,
                took: Some(Duration::from_millis(1_500)),
                observed: length,
                bound: length,
            }],
            invariants: vec![Invariant::new("nothing is left", "0 tasks".to_owned(), &[])],
        };
        report.stats.add(&Err(Failure::Status(502)));
        assert!(report.holds());
        let text = report.to_string();
        for line in [
            "seed 7",
            "partition events",
            "status 502",
            "silent",
            "holds: 0 tasks",
            "availability: 100.00%",
            "median 1.5 s",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        report.invariants.push(Invariant::new("x", String::new(), &["one".to_owned(), "two".to_owned()]));
        assert!(!report.holds());
        assert!(report.to_string().contains("VIOLATED: one; two"));
        assert_eq!(report.violations(), ["x: one; two"]);
    }
}
