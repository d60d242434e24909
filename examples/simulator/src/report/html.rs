//! Self-contained HTML report: no network, light and dark, for screens, phones and paper.
//!
//! Invariant: every text of the run is escaped, and nothing is fetched.

use minijinja::{Environment, Value, context};
use pointsman_lab::html::escaped;
use pointsman_lab::plot::swatch;
use serde::Serialize;

use super::ComparisonReport;
use super::plots::Figure;
use super::table::PolicyTable;

/// The page.
pub(crate) fn page(report: &ComparisonReport, figures: &[Figure]) -> String {
    let table = PolicyTable::of(&report.results);
    let (swept, pictures): (Vec<&Figure>, Vec<&Figure>) = figures.iter().partition(|figure| figure.sweep);
    let sweep = report.sweep.as_ref().map(|sweep| {
        context! { name => sweep.name, pictures => swept, rows => PolicyTable::of(&sweep.rows()) }
    });
    let (style, script) = (include_str!("page.css"), include_str!("page.js"));
    let values = context! { settings => report.settings, cards => cards(&table), policies => table, pictures, sweep, style, script };
    let page = environment().render_named_str("page.html", include_str!("page.html"), values);
    page.expect("the template is a constant, and all that it names is given")
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_keep_trailing_newline(true);
    environment.set_formatter(|out, _, value| match value.is_safe() {
        true => Ok(write!(out, "{value}")?),
        false => Ok(out.write_str(&escaped(&value.to_string()))?),
    });
    environment.add_filter("number", |number: f64| number.to_string());
    environment.add_function("swatch", |row: usize| Value::from_safe_string(swatch(row)));
    environment
}

/// Who is best by a metric.
#[derive(Debug, Serialize)]
struct Card<'t> {
    label: &'static str,
    value: &'t str,
    unit: &'static str,
    who: String,
}

/// The best policies by the main metrics; nothing for a single policy.
fn cards(table: &PolicyTable) -> Vec<Card<'_>> {
    let card = |(name, label): (&str, &'static str)| {
        let column = table.columns.iter().find(|column| column.name == name)?;
        let mut best = column.cells.iter().zip(&table.policies).filter(|(cell, _)| cell.best);
        let (cell, first) = best.next()?;
        let who = match best.count() {
            0 => first.clone(),
            others => format!("{first} and {others} more"),
        };
        Some(Card { label, value: &cell.text, unit: column.unit, who })
    };
    let metrics = [
        ("hit rate", "highest hit rate"),
        ("TTFT p99", "shortest TTFT p99"),
        ("inter-token p99", "shortest inter-token p99"),
        ("max/mean load", "most even load"),
    ];
    metrics.into_iter().filter_map(card).collect()
}
