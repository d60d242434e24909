//! The table a run prints in the end: what was done, what was found, how long it took.

use std::fmt::{self, Display, Write};

use crate::replay::outcome::{End, Outcome};

/// Labels and values in two columns.
#[derive(Debug, Default)]
pub struct Table {
    rows: Vec<(&'static str, String)>,
}

impl Table {
    /// What a run has to show.
    #[must_use]
    pub fn of(outcome: &Outcome) -> Self {
        let mut table = Self::default();
        table.traffic(outcome);
        table.events(outcome);
        table.contents(outcome);
        table.speed(outcome);
        table.verdict(outcome);
        table
    }

    fn traffic(&mut self, outcome: &Outcome) {
        let counts = &outcome.tally.counts;
        self.title("traffic");
        self.row("requests", grouped(counts.requests));
        self.row("  routed again", grouped(counts.rerouted));
        self.row("  diverted by load", grouped(counts.diverted));
        self.row("prompt tokens", grouped(counts.tokens));
        self.row("blocks hit / asked", {
            let (hit, asked) = (counts.blocks_hit, counts.blocks_asked);
            format!("{} / {} ({:.1}%)", grouped(hit), grouped(asked), percent(hit, asked))
        });
        if outcome.end == End::OutOfTime {
            self.row("cut short", "by the time limit: other runs will differ".to_owned());
        }
    }

    fn events(&mut self, outcome: &Outcome) {
        let counts = &outcome.tally.counts;
        let events = &counts.events;
        self.title("events");
        self.row("stored", grouped(events.stored));
        self.row("removed", grouped(events.removed));
        self.row("cleared", grouped(events.cleared));
        self.row("batches applied", grouped(events.batches));
        self.row("  duplicates left out", grouped(events.duplicates));
        self.row("  of an earlier life, left out", grouped(events.stale));
        self.row(
            "  gaps / batches asked for again",
            format!("{} / {}", grouped(events.gaps), grouped(events.asked_again)),
        );
        self.row("  gaps given up", grouped(events.given_up));
        self.row("  lost tails found by digest", grouped(counts.healed));
        self.row("  of a retired pod, refused", grouped(events.late));
        self.row("engine restarts / told by a verdict", format!("{} / {}", counts.restarts, events.restarts));
        self.row("pods retired / swept", format!("{} / {}", counts.retired, counts.swept));
        self.row(
            "blocks speculated / run out",
            format!("{} / {}", grouped(counts.speculated), grouped(counts.expired)),
        );
    }

    fn contents(&mut self, outcome: &Outcome) {
        let stats = &outcome.stats;
        self.title("index in the end");
        self.row("pods", grouped(stats.pods));
        self.row("blocks", grouped(stats.blocks));
        self.row("holders of blocks", grouped(stats.block_replicas));
        self.row("physical copies", grouped(outcome.census.copies));
        self.row("bytes per block", format!("{:.1}", ratio(stats.bytes, stats.blocks)));
    }

    fn speed(&mut self, outcome: &Outcome) {
        let (counts, timings) = (&outcome.tally.counts, &outcome.tally.timings);
        self.title("speed");
        self.row("searches", grouped(timings.searches()));
        self.row("  p50, hashing included", format!("{} ns", grouped(timings.search_percentile(50) as usize)));
        self.row("  p99, hashing included", format!("{} ns", grouped(timings.search_percentile(99) as usize)));
        self.row("  probes per search", format!("{:.1}", ratio(counts.probes, timings.searches())));
        let rate = counts.events.total() as f64 / timings.feeding.as_secs_f64().max(f64::MIN_POSITIVE);
        self.row("events per second of feeding", grouped(rate as usize));
        self.row("whole run", format!("{:.1} s", timings.total.as_secs_f64()));
    }

    fn verdict(&mut self, outcome: &Outcome) {
        let (counts, verdict) = (&outcome.tally.counts, &outcome.verdict);
        self.title("checks");
        self.row("search against scan, on the way", right(counts.spot_checks, counts.spot_mismatches));
        self.row("search against scan, in the end", right(verdict.prompts, verdict.unlike_scan));
        self.row("search against the engines", right(verdict.prompts, verdict.unlike_engines));
        self.row("  prompts that some pod holds", grouped(verdict.held));
        let counts = if outcome.counts_agree() { "equal" } else { "DIFFER" };
        self.row("blocks and holders against the engines", counts.to_owned());
        self.row("digests against the engines", right(outcome.census.pods, verdict.unlike_digests));
    }

    fn title(&mut self, title: &'static str) {
        self.rows.push((title, String::new()));
    }

    fn row(&mut self, label: &'static str, value: String) {
        self.rows.push((label, value));
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0) + 2;
        for (nth, (label, value)) in self.rows.iter().enumerate() {
            if value.is_empty() {
                let gap = if nth == 0 { "" } else { "\n" };
                writeln!(f, "{gap}{label}")?;
            } else {
                writeln!(f, "  {label:<labels$}{value}")?;
            }
        }
        Ok(())
    }
}

/// A number with its thousands set apart.
#[must_use]
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn right(checked: usize, wrong: usize) -> String {
    let mut text = format!("{} equal", grouped(checked - wrong));
    if wrong > 0 {
        let _ = write!(text, ", {} DIFFER", grouped(wrong));
    }
    text
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * ratio(part, whole)
}

fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn values_line_up_and_a_difference_stands_out() {
        let mut table = Table::default();
        table.title("checks");
        table.row("short", right(1_000, 0));
        table.row("a longer one", right(5, 2));
        assert_eq!(table.to_string(), "checks\n  short         1,000 equal\n  a longer one  3 equal, 2 DIFFER\n");
    }
}
