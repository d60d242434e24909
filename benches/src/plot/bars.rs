//! Bars: a group for each column, in it a bar for each row.

use super::scale::{Scale, short};
use super::svg::{Anchor, GRID, INK, MARGIN, Svg, TOP, colour};
use crate::report::Table;

pub(super) fn draw(table: &Table, label: usize, columns: &[usize]) -> String {
    let group = BAR * (table.rows.len() as f64 + 1.0);
    let (left, bottom) = (MARGIN + 50.0, TOP + HEIGHT);
    let right = left + group * columns.len() as f64;
    let mut svg = Svg::new((right + MARGIN).max(760.0), bottom + 40.0);
    svg.title(&table.title);
    let names: Vec<String> = table.rows.iter().map(|row| row[label].to_string()).collect();
    svg.legend(names.iter().enumerate().map(|(i, name)| (name.as_str(), colour(i))));
    let values = table.rows.iter().flat_map(|row| columns.iter().filter_map(|&at| row[at].number()));
    let scale = Scale::linear(values, (bottom, TOP));
    for (value, y) in scale.ticks() {
        svg.line((left, y), (right, y), GRID, 1.0);
        svg.text((left - 6.0, y + 4.0), Anchor::End, 11.0, INK, &short(value));
    }
    for (i, &at) in columns.iter().enumerate() {
        let from = left + group * i as f64 + BAR / 2.0;
        let middle = from + BAR * table.rows.len() as f64 / 2.0;
        svg.text((middle, bottom + 18.0), Anchor::Middle, 12.0, INK, &table.columns[at]);
        for (j, row) in table.rows.iter().enumerate() {
            let Some(value) = row[at].number().filter(|value| value.is_finite()) else { continue };
            let Some(y) = scale.place(value) else { continue };
            let x = from + BAR * j as f64;
            svg.rect((x, y), (BAR - 4.0, bottom - y), colour(j));
            svg.text((x + BAR / 2.0 - 2.0, y - 4.0), Anchor::Middle, 10.0, INK, &short(value));
        }
    }
    svg.line((left, bottom), (right, bottom), INK, 1.0);
    svg.finish()
}

const BAR: f64 = 44.0;
const HEIGHT: f64 = 300.0;
