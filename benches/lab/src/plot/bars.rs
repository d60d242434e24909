//! Grouped bar chart: a group for each column, in it a bar for each row.

use plotters::chart::ChartBuilder;
use plotters::element::Rectangle;
use plotters::style::text_anchor::HPos;

use super::Picture;
use super::axis::Axis;
use super::legend::{Legend, Sample};
use super::style::{GRID, INK, Look, MARGIN, printable, text};
use crate::format::Unit;

/// A chart of bars side by side.
#[derive(Clone, Debug)]
pub struct BarChart {
    title: String,
    unit: Unit,
    rows: Vec<String>,
    groups: Vec<(String, Vec<Option<f64>>)>,
}

impl BarChart {
    /// Bars of these rows, without groups.
    pub fn new(title: impl Into<String>, unit: Unit, rows: impl IntoIterator<Item = String>) -> Self {
        Self { title: title.into(), unit, rows: rows.into_iter().collect(), groups: Vec::new() }
    }

    /// Adds a group with a value for each row.
    pub fn add(&mut self, name: impl Into<String>, values: impl IntoIterator<Item = Option<f64>>) {
        self.groups.push((name.into(), values.into_iter().map(|value| value.filter(|v| v.is_finite())).collect()));
    }

    /// The picture.
    #[must_use]
    pub fn draw(&self) -> Picture {
        let slots = (self.rows.len() + 1) * self.groups.len();
        let width = (62 + BAR * slots as i32 + MARGIN).max(700);
        let entries = self.rows.iter().enumerate().map(|(at, name)| (&**name, Sample::Dot(Look::nth(at))));
        let legend = Legend::new(entries, width);
        Picture::draw(&self.title, (width as u32, (legend.height() + HEIGHT) as u32), |sheet| {
            legend.draw(sheet)?;
            let (_, area) = sheet.split_vertically(legend.height());
            let y = Axis::new("").unit(self.unit).scale(self.groups.iter().flat_map(|(_, row)| row).flatten().copied());
            let mut chart = ChartBuilder::on(&area)
                .margin_top(24)
                .margin_right(MARGIN)
                .margin_bottom(34)
                .y_label_area_size(62)
                .build_cartesian_2d(0.0..slots.max(1) as f64, y.clone())?;
            let mut mesh = chart.configure_mesh();
            mesh.disable_x_mesh().axis_style(INK).bold_line_style(GRID).light_line_style(GRID);
            mesh.label_style(text(12.0, HPos::Left, &INK)).draw()?;
            let bar = |slot: f64, value: f64| (chart.backend_coord(&(slot, value)), chart.backend_coord(&(slot, 0.0)));
            for (group, (name, values)) in self.groups.iter().enumerate() {
                let first = (group * (self.rows.len() + 1)) as f64 + 0.5;
                let (_, (middle, bottom)) = bar(first + self.rows.len() as f64 / 2.0, 0.0);
                sheet.draw_text(&printable(name), &text(12.0, HPos::Center, &INK), (middle, bottom + 16))?;
                for (at, value) in values.iter().enumerate() {
                    let Some(value) = value.filter(|value| y.holds(*value)) else { continue };
                    let ((left, top), (_, bottom)) = bar(first + at as f64, value);
                    let shape = [(left, top), (left + BAR - 4, bottom)];
                    sheet.draw(&Rectangle::new(shape, Look::nth(at).filled()))?;
                    let above = (left + BAR / 2 - 2, top - 8);
                    sheet.draw_text(&self.unit.format(value), &text(10.0, HPos::Center, &INK), above)?;
                }
            }
            Ok(())
        })
    }
}

const BAR: i32 = 44;
const HEIGHT: i32 = 360;
