//! Comparison table: a row a policy, the best of each column marked.
//!
//! The rule: what is marked as the best is what reads as the best. Values that print alike are marked alike, and a
//! column in which all are alike has no best.

use pointsman_lab::format::{grouped, significant};
use pointsman_lab::table::TextTable;
use serde::Serialize;

use crate::results::PolicyResult;

/// The table for a terminal; the best of a column has a `*`.
pub(crate) fn text(results: &[PolicyResult]) -> String {
    let table = PolicyTable::of(results);
    // A space for the star, so that digits stay under digits.
    let headings = |head: fn(&Column) -> &str| table.columns.iter().map(move |column| format!("{} ", head(column)));
    let first = |name: &str| std::iter::once(name.to_owned());
    let mut out = TextTable::new(first("").chain(headings(|column| column.name)))
        .heading(first("policy").chain(headings(|column| column.unit)));
    for (row, policy) in table.policies.iter().enumerate() {
        let star = |cell: &Cell| format!("{}{}", cell.text, if cell.best { '*' } else { ' ' });
        out.row(first(policy).chain(table.columns.iter().map(|column| star(&column.cells[row]))));
    }
    out.ruled_text(2)
}

/// The table as Markdown; the best of a column is bold.
pub(crate) fn markdown(results: &[PolicyResult]) -> String {
    let table = PolicyTable::of(results);
    let heads = table.columns.iter().map(Column::head).collect::<Vec<_>>().join(" | ");
    let mut out = format!("| policy | {heads} |\n|---|{}\n", "---:|".repeat(table.columns.len()));
    for (row, policy) in table.policies.iter().enumerate() {
        let bold = |cell: &Cell| if cell.best { format!("**{}**", cell.text) } else { cell.text.clone() };
        let cells: Vec<String> = table.columns.iter().map(|column| bold(&column.cells[row])).collect();
        out.push_str(&format!("| {} | {} |\n", policy.replace('|', "\\|").replace('\n', " "), cells.join(" | ")));
    }
    out
}

/// The table as data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct PolicyTable {
    /// Names of the rows.
    pub(crate) policies: Vec<String>,
    /// Columns after the name, each with a cell for each row.
    pub(crate) columns: Vec<Column>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: &'static str,
    /// The unit of its cells; may be empty.
    pub(crate) unit: &'static str,
    /// Its meaning.
    pub(crate) about: &'static str,
    /// A cell for each row.
    pub(crate) cells: Vec<Cell>,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Cell {
    /// The figure, in its own base unit.
    pub(crate) value: Option<f64>,
    /// As it is read, in the column's unit.
    pub(crate) text: String,
    /// Whether none of its column is better.
    pub(crate) best: bool,
}

impl PolicyTable {
    /// Of these results.
    pub(crate) fn of(results: &[PolicyResult]) -> Self {
        let policies = results.iter().map(|result| result.policy.clone()).collect();
        Self { policies, columns: SPECS.iter().map(|spec| spec.column(results)).collect() }
    }
}

impl Column {
    /// Name and unit.
    pub(crate) fn head(&self) -> String {
        if self.unit.is_empty() { self.name.to_owned() } else { format!("{} ({})", self.name, self.unit) }
    }
}

/// How a column is made.
struct Spec {
    name: &'static str,
    kind: Kind,
    about: &'static str,
    value: fn(&PolicyResult) -> Option<f64>,
}

#[derive(Clone, Copy)]
enum Kind {
    Share,
    Tokens,
    /// µs, read as ms or s.
    Time,
    /// µs, read as such.
    Micros,
    Rate(&'static str),
    Ratio,
    Count,
}

impl Spec {
    fn column(&self, results: &[PolicyResult]) -> Column {
        let values: Vec<Option<f64>> =
            results.iter().map(|result| (self.value)(result).filter(|value| value.is_finite())).collect();
        let most = values.iter().flatten().copied().fold(0.0, f64::max);
        let (unit, times) = self.kind.unit(most);
        let text = |value: &Option<f64>| value.map_or_else(|| "–".to_owned(), |value| self.kind.format(value * times));
        let texts: Vec<String> = values.iter().map(text).collect();
        let known = values.iter().zip(&texts).filter_map(|(value, text)| Some(((*value)?, text)));
        let better = |a: &(f64, _), b: &(f64, _)| a.0.total_cmp(&b.0);
        let best = if self.kind.is_gain() { known.max_by(better) } else { known.min_by(better) };
        let best = best.map(|(_, text)| text.clone());
        let alike = texts.iter().all(|text| Some(text) == texts.first());
        let cells = values.into_iter().zip(texts);
        let cells = cells.map(|(value, text)| Cell { value, best: !alike && best.as_ref() == Some(&text), text });
        Column { name: self.name, unit, about: self.about, cells: cells.collect() }
    }
}

impl Kind {
    /// Whether more is better.
    const fn is_gain(self) -> bool {
        matches!(self, Self::Share | Self::Rate(_))
    }

    /// The unit that reads best up to this value, and how many of it are one of the value's own.
    const fn unit(self, most: f64) -> (&'static str, f64) {
        match self {
            Self::Share => ("%", 100.0),
            Self::Tokens if most >= 1e9 => ("G tokens", 1e-9),
            Self::Tokens if most >= 1e5 => ("M tokens", 1e-6),
            Self::Tokens => ("k tokens", 1e-3),
            Self::Time if most >= 1e8 => ("s", 1e-6),
            Self::Time => ("ms", 1e-3),
            Self::Micros => ("µs", 1.0),
            Self::Rate(unit) => (unit, 1.0),
            Self::Ratio => ("×", 1.0),
            Self::Count => ("", 1.0),
        }
    }

    fn format(self, value: f64) -> String {
        match self {
            Self::Share => format!("{value:.1}"),
            Self::Ratio => format!("{value:.2}"),
            Self::Count => grouped(format_args!("{value:.0}")),
            _ => significant(value),
        }
    }
}

/// Columns, a row each: name, kind, meaning, value.
macro_rules! specs {
    ($($name:literal, $kind:expr, $about:literal: $value:expr;)*) => {
        &[$(Spec { name: $name, kind: $kind, about: $about, value: $value },)*]
    };
}

const SPECS: &[Spec] = specs! {
    "hit rate", Kind::Share, "whole blocks of prompts that the pod held that was asked":
        |result| (result.blocks > 0).then(|| result.hit_rate());
    "of bound", Kind::Share, "hits against those of an infinite cache shared by all pods":
        PolicyResult::share_of_bound;
    "prefill", Kind::Tokens, "tokens of prompts that had to be computed":
        |result| Some(result.prefill_tokens as f64);
    "TTFT p50", Kind::Time, "time to the first token that half of the requests stay within":
        |result| result.ttft.quantile(0.5);
    "TTFT p90", Kind::Time, "time to the first token that nine of ten requests stay within":
        |result| result.ttft.quantile(0.9);
    "TTFT p99", Kind::Time, "time to the first token that 99 of 100 requests stay within":
        |result| result.ttft.quantile(0.99);
    "slowdown p99", Kind::Ratio, "time to the first token against a cold, idle pod's that 99 of 100 requests stay within":
        |result| Some(result.slowdown.quantile(0.99)? / 1e3);
    "TPOT p99", Kind::Time, "time per output token after the first that 99 of 100 answers stay within":
        |result| result.per_token.quantile(0.99);
    "whole", Kind::Time, "time to the last token, in the mean":
        |result| (result.requests > 0).then(|| result.mean_whole());
    "goodput", Kind::Rate("/s"), "requests answered within the SLO in a virtual second":
        |result| Some(result.goodput());
    "inter-token p99", Kind::Time, "time between two tokens of an answer that 99 of 100 stay within":
        |result| result.between.quantile(0.99);
    "requests", Kind::Rate("/s"), "requests answered in a virtual second":
        |result| Some(result.throughput());
    "output", Kind::Rate("tokens/s"), "tokens generated in a virtual second":
        |result| Some(result.output_rate());
    "max/mean load", Kind::Ratio, "time that the busiest pod worked against the mean":
        |result| result.pods.iter().any(|pod| pod.busy_us > 0).then(|| result.imbalance());
    "router", Kind::Micros, "real time of one routing decision on one core, in the mean":
        |result| (result.decisions > 0).then(|| result.decision_us());
    "refused", Kind::Count, "requests that no pod could take":
        |result| Some(result.refused as f64);
};
