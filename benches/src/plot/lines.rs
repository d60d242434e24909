//! Lines over the first column of a table: one a measured column and combination of further labels.

use super::scale::{Scale, short};
use super::svg::{Anchor, GRID, INK, MARGIN, Svg, TOP, colour};
use crate::report::Table;

pub(super) fn draw(table: &Table, labels: usize, columns: &[usize]) -> String {
    let series = series(table, labels, columns);
    let legend = 20.0 * series.len() as f64;
    let (left, right, bottom) = (MARGIN + 50.0, MARGIN + 50.0 + WIDTH, TOP + HEIGHT);
    let mut svg = Svg::new(right + LEGEND, (bottom + 50.0).max(TOP + legend + 20.0));
    svg.title(&table.title);
    let xs: Vec<f64> = table.rows.iter().filter_map(|row| row[0].number()).collect();
    let ys: Vec<f64> = series.iter().flat_map(|series| series.points.iter().map(|&(_, y)| y)).collect();
    let x_scale = Scale::log(xs.iter().copied(), (left, right));
    let y_scale = Scale::fitting(&ys, (bottom, TOP));
    for (value, y) in y_scale.ticks() {
        svg.line((left, y), (right, y), GRID, 1.0);
        svg.text((left - 6.0, y + 4.0), Anchor::End, 11.0, INK, &short(value));
    }
    let mut sizes = xs;
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    for size in sizes {
        if let Some(x) = x_scale.place(size) {
            svg.line((x, TOP), (x, bottom), GRID, 1.0);
            svg.text((x, bottom + 16.0), Anchor::Middle, 11.0, INK, &short(size));
        }
    }
    svg.line((left, bottom), (right, bottom), INK, 1.0);
    svg.line((left, TOP), (left, bottom), INK, 1.0);
    svg.text((right, bottom + 36.0), Anchor::End, 12.0, INK, &table.columns[0]);
    if let [column] = columns {
        svg.text((left, TOP - 10.0), Anchor::Start, 12.0, INK, &table.columns[*column]);
    }
    for (i, series) in series.iter().enumerate() {
        let place = |&(x, y): &(f64, f64)| Some((x_scale.place(x)?, y_scale.place(y)?));
        let points: Vec<(f64, f64)> = series.points.iter().filter_map(place).collect();
        svg.path(&points, series.colour, series.dashes);
        points.iter().for_each(|&point| svg.dot(point, series.colour));
        let y = TOP + 20.0 * (i as f64 + 0.5);
        svg.path(&[(right + 12.0, y), (right + 36.0, y)], series.colour, series.dashes);
        svg.text((right + 42.0, y + 4.0), Anchor::Start, 12.0, INK, &series.name);
    }
    svg.finish()
}

struct Series {
    name: String,
    colour: &'static str,
    dashes: &'static str,
    points: Vec<(f64, f64)>,
}

/// Colours tell columns apart and dashes the labels; with one column the labels have the colours.
fn series(table: &Table, labels: usize, columns: &[usize]) -> Vec<Series> {
    let case = |row: &Vec<crate::report::Value>| -> String {
        let words: Vec<String> = (1..labels)
            .map(|at| {
                if row[at].number().is_some() {
                    format!("{} {}", row[at], table.columns[at])
                } else {
                    row[at].to_string()
                }
            })
            .collect();
        words.join(", ")
    };
    let mut cases: Vec<String> = Vec::new();
    for row in &table.rows {
        let case = case(row);
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let mut all = Vec::new();
    for (i, &at) in columns.iter().enumerate() {
        for (j, name) in cases.iter().enumerate() {
            let rows = table.rows.iter().filter(|row| case(row) == *name);
            let points = rows.filter_map(|row| Some((row[0].number()?, row[at].number()?)));
            let points = points.filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
            let parts = if columns.len() == 1 { vec![name.as_str()] } else { vec![table.columns[at].as_str(), name] };
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let (colour, dashes) =
                if columns.len() == 1 { (colour(j), "") } else { (colour(i), DASHES[j % DASHES.len()]) };
            all.push(Series { name: parts.join(", "), colour, dashes, points });
        }
    }
    all
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 320.0;
const LEGEND: f64 = 260.0;
const DASHES: [&str; 4] = ["", "6 4", "2 3", "10 3 2 3"];
