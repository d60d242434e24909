//! Performance targets: held or missed, and the worst cell.
//!
//! The rule: a target is judged by what was measured in this run, and by nothing else; where nothing was
//! measured it says so.

use crate::results::{ResultTable, Value};
use pointsman_benches::measure::Spread;

/// Ratios of one kind with the cells they were measured in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cells {
    what: String,
    ratios: Vec<(String, f64)>,
}

impl Cells {
    /// Ratios of a column.
    #[must_use]
    pub fn of(table: &ResultTable, column: &str) -> Self {
        Self::among(table, column, |_| true)
    }

    /// The same, of rows that are wanted only.
    #[must_use]
    pub fn among(table: &ResultTable, column: &str, wanted: impl Fn(&[Value]) -> bool) -> Self {
        let (at, labels) = (table.columns.iter().position(|name| name == column), table.labels());
        let rows = table.rows.iter().filter(|row| wanted(row));
        let ratio = |row: &Vec<Value>| Some((table.case(row, 0..labels), row[at?].number()?));
        Self { what: column.to_owned(), ratios: rows.filter_map(ratio).collect() }
    }

    /// These ratios.
    #[must_use]
    pub fn new(what: &str, ratios: impl IntoIterator<Item = (&'static str, f64)>) -> Self {
        let ratios = ratios.into_iter().map(|(case, ratio)| (case.to_owned(), ratio)).collect();
        Self { what: what.to_owned(), ratios }
    }

    /// Whether every cell reaches a bound: held or missed, and which cell is the worst.
    #[must_use]
    pub fn every(&self, bound: f64, place: &str) -> String {
        let worst = self.ratios.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        let below = self.ratios.iter().filter(|(_, ratio)| *ratio < bound).count();
        self.judged(bound, place, |all| {
            let verdict = if below == 0 { "held".to_owned() } else { format!("MISSED in {below} of {all}") };
            worst.map_or_else(String::new, |(case, worst)| format!("{verdict}, worst {worst:.2} at {case}"))
        })
    }

    /// Whether the middle cell reaches a bound.
    #[must_use]
    pub fn middle(&self, bound: f64, place: &str) -> String {
        self.judged(bound, place, |all| {
            let median = self.spread().median;
            let verdict = if median >= bound { "held" } else { "MISSED" };
            format!("{verdict}, median {median:.2} of {all}")
        })
    }

    /// The ends and the middle, and in how many cells ours is behind.
    #[must_use]
    pub fn summary(&self) -> String {
        let (what, all) = (&self.what, self.ratios.len());
        if all == 0 {
            return format!("{what}: nothing measured");
        }
        let Spread { min, median, max, .. } = self.spread();
        let behind = self.ratios.iter().filter(|(_, ratio)| *ratio < 1.0).count();
        format!("{what}: min {min:.2}, median {median:.2}, max {max:.2}; ours is behind in {behind} of {all} cells")
    }

    fn judged(&self, bound: f64, place: &str, verdict: impl FnOnce(usize) -> String) -> String {
        let all = self.ratios.len();
        let verdict = if all == 0 { "not measured".to_owned() } else { verdict(all) };
        format!("target: {} ≥ {bound} in {place}: {verdict}", self.what)
    }

    fn spread(&self) -> Spread {
        Spread::of(self.ratios.iter().map(|(_, ratio)| *ratio).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> ResultTable {
        let mut table = ResultTable::new("t", "t", ["pods", "query", "ns", "smg ÷ ours"]);
        for (pods, query, ratio) in [(8usize, "hit", 0.954), (64, "hit", 3.0), (64, "cold", 1.5)] {
            table.rows.push(vec![pods.into(), query.into(), 10.0.into(), ratio.into()]);
        }
        table.rows.push(vec![8usize.into(), "cold".into(), 10.0.into(), Value::Missing]);
        table
    }

    #[test]
    fn a_missed_target_names_its_worst_cell() {
        let cells = Cells::of(&table(), "smg ÷ ours");
        assert_eq!(
            cells.every(1.0, "every cell"),
            "target: smg ÷ ours ≥ 1 in every cell: MISSED in 1 of 3, worst 0.95 at 8 pods, hit"
        );
        assert_eq!(
            cells.middle(1.5, "the median cell"),
            "target: smg ÷ ours ≥ 1.5 in the median cell: held, median 1.50 of 3"
        );
        assert_eq!(cells.summary(), "smg ÷ ours: min 0.95, median 1.50, max 3.00; ours is behind in 1 of 3 cells");
    }

    #[test]
    fn a_target_is_judged_by_the_wanted_rows_alone() {
        let cells = Cells::among(&table(), "smg ÷ ours", |row| row[0] == Value::Count(64));
        assert_eq!(
            cells.every(1.5, "cells of 64 pods"),
            "target: smg ÷ ours ≥ 1.5 in cells of 64 pods: held, worst 1.50 at 64 pods, cold"
        );
        assert!(cells.middle(4.0, "the median cell").contains("MISSED, median 3.00"));
    }

    #[test]
    fn nothing_measured_holds_nothing() {
        let cells = Cells::of(&table(), "dynamo ÷ ours");
        assert_eq!(cells.every(4.0, "every cell"), "target: dynamo ÷ ours ≥ 4 in every cell: not measured");
        assert!(cells.middle(4.0, "the median cell").ends_with("not measured"));
        assert!(cells.summary().ends_with("nothing measured"));
    }
}
