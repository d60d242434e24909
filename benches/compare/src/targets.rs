//! Performance targets: held or missed, and the worst cell.
//!
//! The rule: a target is judged by what was measured in this run, and by nothing else; where nothing was
//! measured it says so.

use crate::results::{ResultTable, Value};
use pointsman_benches::measure::Spread;

/// Ratios with the cells they were measured in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cells(Vec<(String, f64)>);

impl Cells {
    /// Ratios of a column, named by the first `labels` columns.
    #[must_use]
    pub fn of(table: &ResultTable, labels: usize, column: &str) -> Self {
        Self::among(table, labels, column, |_| true)
    }

    /// The same, of rows that are wanted only.
    #[must_use]
    pub fn among(table: &ResultTable, labels: usize, column: &str, wanted: impl Fn(&[Value]) -> bool) -> Self {
        let Some(at) = table.column(column) else { return Self::default() };
        let rows = table.rows.iter().filter(|row| wanted(row));
        Self(rows.filter_map(|row| Some((table.case(row, labels), row[at].number()?))).collect())
    }

    /// Adds one.
    pub fn push(&mut self, case: &str, ratio: f64) {
        self.0.push((case.to_owned(), ratio));
    }

    /// Whether every cell reaches a bound: held or missed, and which cell is the worst.
    #[must_use]
    pub fn every(&self, what: &str, bound: f64, place: &str) -> String {
        let claim = format!("target: {what} ≥ {bound} in {place}");
        let Some((case, worst)) = self.0.iter().min_by(|a, b| a.1.total_cmp(&b.1)) else {
            return format!("{claim}: not measured");
        };
        let below = self.0.iter().filter(|(_, ratio)| *ratio < bound).count();
        let verdict = if below == 0 { "held".to_owned() } else { format!("MISSED in {below} of {}", self.0.len()) };
        format!("{claim}: {verdict}, worst {worst:.2} at {case}")
    }

    /// Whether the middle cell reaches a bound.
    #[must_use]
    pub fn middle(&self, what: &str, bound: f64, place: &str) -> String {
        let claim = format!("target: {what} ≥ {bound} in {place}");
        if self.0.is_empty() {
            return format!("{claim}: not measured");
        }
        let median = self.spread().median;
        let verdict = if median >= bound { "held" } else { "MISSED" };
        format!("{claim}: {verdict}, median {median:.2} of {}", self.0.len())
    }

    /// The ends and the middle of a column, and in how many cells ours is behind.
    #[must_use]
    pub fn summary(&self, what: &str) -> String {
        if self.0.is_empty() {
            return format!("{what}: nothing measured");
        }
        let Spread { min, median, max, .. } = self.spread();
        let behind = self.0.iter().filter(|(_, ratio)| *ratio < 1.0).count();
        let all = self.0.len();
        format!("{what}: min {min:.2}, median {median:.2}, max {max:.2}; ours is behind in {behind} of {all} cells")
    }

    fn spread(&self) -> Spread {
        Spread::of(self.0.iter().map(|(_, ratio)| *ratio).collect())
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
        let cells = Cells::of(&table(), 2, "smg ÷ ours");
        assert_eq!(
            cells.every("smg ÷ ours", 1.0, "every cell"),
            "target: smg ÷ ours ≥ 1 in every cell: MISSED in 1 of 3, worst 0.95 at 8 pods, hit"
        );
        assert_eq!(
            cells.middle("smg ÷ ours", 1.5, "the median cell"),
            "target: smg ÷ ours ≥ 1.5 in the median cell: held, median 1.50 of 3"
        );
        assert_eq!(
            cells.summary("smg ÷ ours"),
            "smg ÷ ours: min 0.95, median 1.50, max 3.00; ours is behind in 1 of 3 cells"
        );
    }

    #[test]
    fn a_target_is_judged_by_the_wanted_rows_alone() {
        let cells = Cells::among(&table(), 2, "smg ÷ ours", |row| row[0] == Value::Count(64));
        assert_eq!(
            cells.every("smg ÷ ours", 1.5, "cells of 64 pods"),
            "target: smg ÷ ours ≥ 1.5 in cells of 64 pods: held, worst 1.50 at 64 pods, cold"
        );
        assert!(cells.middle("smg ÷ ours", 4.0, "the median cell").contains("MISSED, median 3.00"));
    }

    #[test]
    fn nothing_measured_holds_nothing() {
        let cells = Cells::of(&table(), 2, "dynamo ÷ ours");
        assert_eq!(
            cells.every("dynamo ÷ ours", 4.0, "every cell"),
            "target: dynamo ÷ ours ≥ 4 in every cell: not measured"
        );
        assert!(cells.middle("dynamo ÷ ours", 4.0, "the median cell").ends_with("not measured"));
        assert!(cells.summary("dynamo ÷ ours").ends_with("nothing measured"));
    }
}
