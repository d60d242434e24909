//! Ratios as dots, a row for each row of the table: left of the line 1 ours is behind.

use super::scale::{Scale, short};
use super::svg::{Anchor, GRID, INK, MARGIN, Svg, TOP, colour};
use crate::report::Table;

pub(super) fn draw(table: &Table, labels: usize, columns: &[usize]) -> String {
    let cases: Vec<String> = table.rows.iter().map(|row| table.case(row, labels)).collect();
    let longest = cases.iter().map(|case| case.chars().count()).max().unwrap_or(0);
    let left = MARGIN + 12.0 + 6.2 * longest as f64;
    let (right, bottom) = (left + WIDTH, TOP + ROW * cases.len() as f64 + 6.0);
    let mut svg = Svg::new(right + MARGIN * 2.0, bottom + 40.0);
    svg.title(&table.title);
    // Peers keep the colours they have beside ours elsewhere.
    let names = columns.iter().enumerate().map(|(i, &at)| (table.columns[at].as_str(), colour(i + 1)));
    svg.legend(names);
    let values = table.rows.iter().flat_map(|row| columns.iter().filter_map(|&at| row[at].number()));
    let scale = Scale::log(values.chain([0.8, 2.0]), (left, right));
    for (value, x) in scale.ticks() {
        svg.line((x, TOP), (x, bottom), GRID, 1.0);
        svg.text((x, TOP - 6.0), Anchor::Middle, 11.0, INK, &short(value));
        svg.text((x, bottom + 16.0), Anchor::Middle, 11.0, INK, &short(value));
    }
    if let Some(one) = scale.place(1.0) {
        svg.line((one, TOP), (one, bottom), INK, 1.5);
    }
    svg.text((right, bottom + 32.0), Anchor::End, 11.0, INK, "times ours; right of 1 ours is ahead");
    for (i, (row, case)) in table.rows.iter().zip(&cases).enumerate() {
        let y = TOP + ROW * (i as f64 + 0.5) + 3.0;
        svg.line((left, y), (right, y), FAINT, 1.0);
        svg.text((left - 8.0, y + 4.0), Anchor::End, 11.0, INK, case);
        for (peer, &at) in columns.iter().enumerate() {
            let place = row[at].number().filter(|ratio| ratio.is_finite()).and_then(|ratio| scale.place(ratio));
            if let Some(x) = place {
                svg.dot((x, y), colour(peer + 1));
            }
        }
    }
    svg.finish()
}

const WIDTH: f64 = 560.0;
const ROW: f64 = 15.0;
const FAINT: &str = "#f2f2f2";
