//! Ratios as dots, a row for each case: left of the line 1 ours is behind.

use super::picture::Picture;
use super::scale::{Scale, short};
use super::style::colour;
use super::svg::{Anchor, HEADING, MARGIN, Svg, legend_height};

/// A picture of ratios.
#[derive(Clone, Debug)]
pub struct Ratios {
    title: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Option<f64>>)>,
}

impl Ratios {
    /// Of these columns, without rows.
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = String>) -> Self {
        Self { title: title.into(), columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row with a ratio for each column.
    pub fn add(&mut self, name: impl Into<String>, ratios: impl IntoIterator<Item = Option<f64>>) {
        self.rows.push((name.into(), ratios.into_iter().collect()));
    }

    /// The picture, on a logarithmic scale.
    #[must_use]
    pub fn draw(&self) -> Picture {
        let longest = self.rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let left = MARGIN + 12.0 + 6.2 * longest as f64;
        let right = left + WIDTH;
        let width = right + MARGIN * 2.0;
        let top = HEADING + legend_height(self.columns.iter().map(String::as_str), width) + 24.0;
        let bottom = top + ROW * self.rows.len() as f64 + 6.0;
        let mut svg = Svg::new(&self.title, width, bottom + 40.0);
        // Peers keep the colours they have beside ours elsewhere.
        svg.dots_legend(self.columns.iter().enumerate().map(|(at, name)| (name.as_str(), at + 1)));
        let values = self.rows.iter().flat_map(|(_, ratios)| ratios.iter().flatten().copied());
        let scale = Scale::log(values.chain([0.8, 2.0]), (left, right));
        for (value, x) in scale.ticks() {
            svg.line((x, top), (x, bottom), "pm-grid");
            svg.text((x, top - 6.0), Anchor::Middle, 11.0, &short(value));
            svg.text((x, bottom + 16.0), Anchor::Middle, 11.0, &short(value));
        }
        if let Some(one) = scale.place(1.0) {
            svg.line((one, top), (one, bottom), "pm-axis");
        }
        svg.note((right, bottom + 32.0), Anchor::End, "times ours; right of 1 ours is ahead");
        for (at, (name, ratios)) in self.rows.iter().enumerate() {
            let y = top + ROW * (at as f64 + 0.5) + 3.0;
            svg.line((left, y), (right, y), "pm-faint");
            svg.text((left - 8.0, y + 4.0), Anchor::End, 11.0, name);
            for (peer, ratio) in ratios.iter().enumerate() {
                if let Some(x) = ratio.and_then(|ratio| scale.place(ratio)) {
                    svg.dot((x, y), &colour(peer + 1));
                }
            }
        }
        svg.finish()
    }
}

const WIDTH: f64 = 560.0;
const ROW: f64 = 15.0;
