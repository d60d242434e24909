//! Charts of result tables: dot plots of ratios, line charts over a size, bar charts.
//!
//! A plot is derived from a table alone. The rule: what is not a finite number is not drawn, so that a picture
//! is well-formed whatever was measured.

use pointsman_lab::format::Unit;
use pointsman_lab::plot::{Axis, BarChart, LineChart, RatioPlot};

use crate::results::ResultTable;
use crate::systems::NAMES;

/// One picture.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plot {
    /// Its file's name, without the ending.
    pub name: String,
    /// The picture as SVG.
    pub svg: String,
}

impl Plot {
    /// Every picture that a table gives: lines where its first column is a size that grows, bars where its rows
    /// are systems, and dots where it has ratios.
    #[must_use]
    pub fn of(table: &ResultTable) -> Vec<Self> {
        let labels = table.labels();
        let ratios: Vec<usize> = (labels..table.columns.len()).filter(|&at| is_ratio(table, at)).collect();
        let measured: Vec<usize> = (labels..table.columns.len()).filter(|&at| !is_ratio(table, at)).collect();
        let mut plots = Vec::new();
        if table.rows.is_empty() {
            return plots;
        }
        if table.columns.first().is_some_and(|name| SIZES.contains(&name.as_str())) {
            for columns in chart_columns(table, measured.clone()) {
                let about = columns.iter().all(|&at| is_system(&table.columns[at]));
                let about = if about { "" } else { table.columns[columns[0]].as_str() };
                plots.push(Self::new(table, about, Self::lines(table, labels, &columns)));
            }
        }
        if table.columns.first().is_some_and(|name| name == "system") {
            plots.push(Self::new(table, "", Self::bars(table, 0, &alike(table, &measured))));
        }
        if !ratios.is_empty() {
            plots.push(Self::new(table, "ratios", Self::ratios(table, labels, &ratios)));
        }
        plots
    }

    /// A dot a row and column of ratios, on a logarithmic scale around 1; rows are named by the first columns.
    #[must_use]
    pub fn ratios(table: &ResultTable, labels: usize, columns: &[usize]) -> String {
        let mut ratios = RatioPlot::new(&*table.title, columns.iter().map(|&at| table.columns[at].clone()));
        for row in &table.rows {
            ratios.add(table.case(row, 0..labels), columns.iter().map(|&at| row[at].number()));
        }
        ratios.draw()
    }

    /// A line a column, and one for each combination of further labels, over the first column.
    #[must_use]
    pub fn lines(table: &ResultTable, labels: usize, columns: &[usize]) -> String {
        let about = if let [column] = columns { &*table.columns[*column] } else { "" };
        let x = Axis::new(&*table.columns[0]).log(10.0);
        let mut lines = LineChart::new(&*table.title, x, Axis::new(about).fitting());
        let mut cases: Vec<String> = Vec::new();
        for row in &table.rows {
            let case = table.case(row, 1..labels);
            if !cases.contains(&case) {
                cases.push(case);
            }
        }
        for &at in columns {
            for name in &cases {
                let rows = table.rows.iter().filter(|row| table.case(row, 1..labels) == *name);
                let points = rows.filter_map(|row| Some((row[0].number()?, row[at].number()?)));
                let column = if columns.len() == 1 { "" } else { &*table.columns[at] };
                let parts = [column, name].into_iter().filter(|part| !part.is_empty());
                lines.add(parts.collect::<Vec<_>>().join(", "), points);
            }
        }
        lines.draw()
    }

    /// A group of bars a column, a bar a row.
    #[must_use]
    pub fn bars(table: &ResultTable, label: usize, columns: &[usize]) -> String {
        let mut bars = BarChart::new(&*table.title, Unit::Plain, table.rows.iter().map(|row| row[label].to_string()));
        for &at in columns {
            bars.add(&*table.columns[at], table.rows.iter().map(|row| row[at].number()));
        }
        bars.draw()
    }

    fn new(table: &ResultTable, about: &str, svg: String) -> Self {
        let words = about.split(|char: char| !char.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let parts: Vec<&str> = std::iter::once(&*table.id).chain(words).collect();
        Self { name: parts.join("_"), svg }
    }
}

fn is_ratio(table: &ResultTable, column: usize) -> bool {
    table.columns[column].contains('÷')
}

fn is_system(column: &str) -> bool {
    NAMES.iter().any(|name| column.starts_with(name))
}

/// Columns that share a picture: all of the systems, each of the others by itself.
fn chart_columns(table: &ResultTable, columns: Vec<usize>) -> Vec<Vec<usize>> {
    let (systems, others): (Vec<usize>, Vec<usize>) =
        columns.into_iter().partition(|&column| is_system(&table.columns[column]));
    let others = others.into_iter().map(|column| vec![column]);
    [systems].into_iter().filter(|columns| !columns.is_empty()).chain(others).collect()
}

/// Columns in the unit of the first whose name ends in one, so that bars can stand side by side.
fn alike(table: &ResultTable, columns: &[usize]) -> Vec<usize> {
    let unit = |at: usize| table.columns[at].rsplit(' ').next().unwrap_or_default();
    let Some(&first) = columns.first() else { return Vec::new() };
    columns.iter().copied().filter(|&at| unit(at) == unit(first)).collect()
}

/// First columns that are sizes to draw lines over.
const SIZES: [&str; 2] = ["conversations", "threads"];

#[cfg(test)]
mod tests;
