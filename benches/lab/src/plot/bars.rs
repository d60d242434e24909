//! Bars: a group for each column, in it a bar for each row.

use super::axis::{Axis, Unit};
use super::picture::Picture;
use super::style::colour;
use super::svg::{Anchor, HEADING, MARGIN, Svg, legend_height};

/// A picture of bars side by side.
#[derive(Clone, Debug)]
pub struct Bars {
    title: String,
    unit: Unit,
    rows: Vec<String>,
    groups: Vec<(String, Vec<Option<f64>>)>,
}

impl Bars {
    /// Bars of these rows, without groups.
    pub fn new(title: impl Into<String>, unit: Unit, rows: impl IntoIterator<Item = String>) -> Self {
        Self { title: title.into(), unit, rows: rows.into_iter().collect(), groups: Vec::new() }
    }

    /// Adds a group with a value for each row.
    pub fn add(&mut self, name: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) {
        self.groups.push((name.into(), values.into_iter().collect()));
    }

    /// The picture.
    #[must_use]
    pub fn draw(&self) -> Picture {
        let group = BAR * (self.rows.len() as f64 + 1.0);
        let left = MARGIN + 54.0;
        let right = left + group * self.groups.len() as f64;
        let width = (right + MARGIN).max(700.0);
        let top = HEADING + legend_height(self.rows.iter().map(String::as_str), width) + 22.0;
        let bottom = top + HEIGHT;
        let mut svg = Svg::new(&self.title, width, bottom + 34.0);
        svg.dots_legend(self.rows.iter().enumerate().map(|(at, name)| (name.as_str(), at)));
        let values = self.groups.iter().flat_map(|(_, values)| values.iter().flatten().copied());
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let axis = Axis::new("").unit(self.unit);
        let scale = axis.scale(&values, (bottom, top));
        for (y, text) in axis.ticks(&scale, &values) {
            svg.line((left, y), (right, y), "pm-grid");
            svg.text((left - 7.0, y + 4.0), Anchor::End, 12.0, &text);
        }
        for (i, (name, values)) in self.groups.iter().enumerate() {
            let from = left + group * i as f64 + BAR / 2.0;
            let middle = from + BAR * self.rows.len() as f64 / 2.0;
            svg.text((middle, bottom + 19.0), Anchor::Middle, 12.0, name);
            for (j, (value, row)) in values.iter().zip(&self.rows).enumerate() {
                let Some((value, y)) = value.and_then(|value| Some((value, scale.place(value)?))) else { continue };
                let (x, text) = (from + BAR * j as f64, self.unit.format(value));
                svg.bar((x, y), (BAR - 4.0, bottom - y), &colour(j), &format!("{row}: {text}"));
                svg.text((x + BAR / 2.0 - 2.0, y - 4.0), Anchor::Middle, 10.0, &text);
            }
        }
        svg.line((left, bottom), (right, bottom), "pm-axis");
        svg.finish()
    }
}

const BAR: f64 = 44.0;
const HEIGHT: f64 = 280.0;
