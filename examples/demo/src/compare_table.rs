//! Comparison table of profiles, and a commentary on it.

use std::iter;
use std::time::Duration;

use crate::compare::ProfileResult;
use crate::load_generator::percentile;
use pointsman_lab::format::grouped;
use pointsman_lab::table::TextTable;

/// The results as a table: metrics in rows, profiles in columns.
pub(crate) fn table(results: &[ProfileResult]) -> String {
    let profiles = results.iter().map(|result| result.profile.clone());
    let mut table = TextTable::new(iter::once(String::new()).chain(profiles));
    let mut row = |label: &str, value: fn(&ProfileResult) -> String| {
        table.row(iter::once(label.to_owned()).chain(results.iter().map(value)));
    };
    row("requests", |result| grouped(result.stats.requests()));
    row("prompt tokens", |result| grouped(result.stats.prompt_tokens));
    row("  hit rate", |result| format!("{:.1}%", 100.0 * result.stats.hit_rate()));
    row("  computed", |result| grouped(result.computed_tokens()));
    row("  saved", |result| grouped(result.saved_tokens()));
    row("TTFT p50", |result| millis(percentile(&result.stats.ttft, 50)));
    row("TTFT p99", |result| millis(percentile(&result.stats.ttft, 99)));
    row("inter-token p50", |result| millis(percentile(&result.stats.inter_token, 50)));
    row("inter-token p99", |result| millis(percentile(&result.stats.inter_token, 99)));
    row("prefill imbalance", |result| format!("{:.2}", result.imbalance()));
    row("elapsed", |result| format!("{:.1} s", result.elapsed.as_secs_f64()));
    row("errors", |result| grouped(result.stats.failures()));
    table.text(3)
}

/// What the table shows and why, if it has the three profiles.
pub(crate) fn commentary(results: &[ProfileResult]) -> Option<String> {
    let of = |profile: &str| results.iter().find(|result| result.profile.starts_with(profile));
    let (blind, aware, split) = (of("round_robin")?, of("cache_aware")?, of("prefill_decode")?);
    let computed = |result: &ProfileResult| grouped(result.computed_tokens());
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
        ms => format!("{} ms", grouped(format_args!("{ms:.0}"))),
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
    fn a_commentary_needs_the_profiles_that_it_compares() {
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
        let text = table(&[result("one", 250, 1_234), result("a_longer_one", 600, 5)]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.len() == lines[0].len()), "{text}");
        let row = |label: &str| {
            let line = lines.iter().find(|line| line.trim_start().starts_with(label)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().split_off(label.split(' ').count()).join(" ")
        };
        assert_eq!(row("hit rate"), "25.0% 60.0%");
        assert_eq!(row("TTFT p99"), "1,234 ms 5.0 ms");
        assert_eq!(row("inter-token p50"), "- -");
        assert_eq!(row("saved"), "600 600");
        assert_eq!(row("prefill imbalance"), "1.50 1.50");
        assert_eq!(row("errors"), "0 0");
    }
}
