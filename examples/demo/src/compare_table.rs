//! What profiles did, side by side.

use std::fmt;
use std::time::Duration;

use crate::compare::ProfileResult;
use crate::load_generator::percentile;
use pointsman_lab::format::grouped;

/// Figures in rows, profiles in columns.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<String>,
    rows: Vec<(&'static str, Vec<String>)>,
}

impl Table {
    /// What came of each profile.
    pub(crate) fn of(results: &[ProfileResult]) -> Self {
        let mut table = Self { head: results.iter().map(|result| result.profile.clone()).collect(), rows: Vec::new() };
        let mut row = |label, value: fn(&ProfileResult) -> String| {
            table.rows.push((label, results.iter().map(value).collect()));
        };
        row("requests", |o| grouped(o.stats.requests()));
        row("prompt tokens", |o| grouped(o.stats.prompt_tokens));
        row("  hit rate", |o| format!("{:.1}%", 100.0 * o.stats.hit_rate()));
        row("  computed", |o| grouped(o.computed_tokens() as usize));
        row("  saved", |o| grouped(o.saved_tokens() as usize));
        row("TTFT p50", |o| millis(percentile(&o.stats.ttft, 50)));
        row("TTFT p99", |o| millis(percentile(&o.stats.ttft, 99)));
        row("between tokens p50", |o| millis(percentile(&o.stats.inter_token, 50)));
        row("between tokens p99", |o| millis(percentile(&o.stats.inter_token, 99)));
        row("imbalance of prefill", |o| format!("{:.2}", o.imbalance()));
        row("whole run", |o| format!("{:.1} s", o.elapsed.as_secs_f64()));
        row("errors", |o| grouped(o.stats.failures()));
        table
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.rows.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        let width = |column: usize| {
            let values = self.rows.iter().map(|(_, values)| values[column].len());
            values.chain([self.head[column].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut line = |label: &str, values: &[String]| {
            write!(f, "{label:<labels$}")?;
            for (value, width) in values.iter().zip(&widths) {
                write!(f, "   {value:>width$}")?;
            }
            writeln!(f)
        };
        line("", &self.head)?;
        self.rows.iter().try_for_each(|(label, values)| line(label, values))
    }
}

/// What the table shows and why, where it has the profiles that tell it.
pub(crate) fn commentary(results: &[ProfileResult]) -> Option<String> {
    let of = |profile: &str| results.iter().find(|result| result.profile.starts_with(profile));
    let (blind, aware, split) = (of("round_robin")?, of("cache_aware")?, of("prefill_decode")?);
    let computed = |result: &ProfileResult| grouped(result.computed_tokens() as usize);
    let first = |result: &ProfileResult| millis(percentile(&result.stats.ttft, 50));
    let gap = |result: &ProfileResult| millis(percentile(&result.stats.inter_token, 99));
    Some(format!(
        "Cache aware routing sends a conversation back to the pod that holds it, so {} prompt tokens were computed instead of\n\
         {}, and half of the first tokens came within {} instead of {}. With prefill on pods of its own, fewer\n\
         pods share it and first tokens wait ({}), but no prefill holds up an answer under way: {} between tokens\n\
         at p99 instead of {}.",
        computed(aware),
        computed(blind),
        first(aware),
        first(blind),
        first(split),
        gap(split),
        gap(aware),
    ))
}

fn millis(time: Option<Duration>) -> String {
    time.map_or("-".to_owned(), |time| match time.as_secs_f64() * 1000.0 {
        ms if ms < 10.0 => format!("{ms:.1} ms"),
        ms => format!("{} ms", grouped(ms.round() as usize)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_generator::LoadStats;

    fn result(profile: &str, cached: usize, first: u64) -> ProfileResult {
        ProfileResult {
            profile: profile.to_owned(),
            stats: LoadStats {
                answered: 2,
                prompt_tokens: 1_000,
                cached_tokens: cached,
                ttft: vec![Duration::from_millis(first); 2],
                ..LoadStats::default()
            },
            computed: vec![100, 300],
            elsewhere: 0,
            elapsed: Duration::from_millis(1_250),
        }
    }

    #[test]
    fn a_reading_needs_all_it_speaks_of() {
        let mut results = vec![result("round_robin", 250, 1_234), result("cache_aware", 600, 5)];
        assert_eq!(commentary(&results), None);
        results.push(result("prefill_decode", 600, 77));
        let text = commentary(&results).unwrap();
        for figure in ["400 prompt tokens", "within 5.0 ms instead of 1,234 ms", "(77 ms)"] {
            assert!(text.contains(figure), "{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 120), "{text}");
    }

    #[test]
    fn columns_line_up_and_figures_are_the_outcomes() {
        let text = Table::of(&[result("one", 250, 1_234), result("a_longer_one", 600, 5)]).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
        let row = |label: &str| {
            let line = lines.iter().find(|line| line.trim_start().starts_with(label)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().split_off(label.split(' ').count()).join(" ")
        };
        assert_eq!(row("hit rate"), "25.0% 60.0%");
        assert_eq!(row("TTFT p99"), "1,234 ms 5.0 ms");
        assert_eq!(row("between tokens p50"), "- -");
        assert_eq!(row("saved"), "600 600");
        assert_eq!(row("imbalance of prefill"), "1.50 1.50");
        assert_eq!(row("errors"), "0 0");
    }
}
