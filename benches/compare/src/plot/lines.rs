//! Lines over the first column of a table: one a measured column and combination of further labels.

use pointsman_lab::plot::{Axis, LineChart};

use crate::results::{ResultTable, Value};

/// A line for each column and combination of labels.
pub(super) fn draw(table: &ResultTable, labels: usize, columns: &[usize]) -> String {
    let about = if let [column] = columns { &*table.columns[*column] } else { "" };
    let x = Axis::new(&*table.columns[0]).log(10.0);
    let mut lines = LineChart::new(&*table.title, x, Axis::new(about).fitting());
    let mut cases: Vec<String> = Vec::new();
    for row in &table.rows {
        let case = case(table, row, labels);
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    for &at in columns {
        for name in &cases {
            let rows = table.rows.iter().filter(|row| case(table, row, labels) == *name);
            let points = rows.filter_map(|row| Some((row[0].number()?, row[at].number()?)));
            let column = if columns.len() == 1 { "" } else { &*table.columns[at] };
            let parts = [column, name].into_iter().filter(|part| !part.is_empty());
            lines.add(parts.collect::<Vec<_>>().join(", "), points);
        }
    }
    lines.draw()
}

/// What the labels after the first say of a row.
fn case(table: &ResultTable, row: &[Value], labels: usize) -> String {
    let word = |at: usize| match row[at].number() {
        Some(_) => format!("{} {}", row[at], table.columns[at]),
        None => row[at].to_string(),
    };
    (1..labels).map(word).collect::<Vec<_>>().join(", ")
}
