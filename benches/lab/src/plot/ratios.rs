//! Dot plot of ratios, a row for each case: left of the line 1 ours is behind.

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement};
use plotters::style::text_anchor::HPos;

use super::Picture;
use super::axis::Axis;
use super::legend::{Legend, Sample};
use super::style::{FAINT, GRID, INK, Look, MARGIN, SOFT, printable, text};

/// A picture of ratios.
#[derive(Clone, Debug)]
pub struct RatioPlot {
    title: String,
    columns: Vec<String>,
    rows: Vec<(String, Vec<Option<f64>>)>,
}

impl RatioPlot {
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
        let left = MARGIN + 12 + (6.2 * longest as f64) as i32;
        let width = left + WIDTH + 2 * MARGIN;
        // Peers keep the colours they have beside ours elsewhere.
        let entries = self.columns.iter().enumerate().map(|(at, name)| (&**name, Sample::Dot(Look::nth(at + 1))));
        let legend = Legend::new(entries, width);
        let height = legend.height() + ROW * self.rows.len().max(1) as i32 + 76;
        Picture::draw(&self.title, (width as u32, height as u32), |sheet| {
            legend.draw(sheet)?;
            let (_, area) = sheet.split_vertically(legend.height());
            let values = self.rows.iter().flat_map(|(_, ratios)| ratios.iter().flatten().copied());
            let x = Axis::new("").log().scale(values.chain([0.8, 2.0]));
            let mut chart = ChartBuilder::on(&area)
                .margin_left(left)
                .margin_right(2 * MARGIN)
                .margin_bottom(20)
                .top_x_label_area_size(24)
                .x_label_area_size(24)
                .build_cartesian_2d(x.clone(), self.rows.len().max(1) as f64..0.0)?;
            let mut mesh = chart.configure_mesh();
            mesh.disable_y_mesh().axis_style(GRID).bold_line_style(GRID).light_line_style(FAINT);
            mesh.label_style(text(11.0, HPos::Left, &INK)).draw()?;
            let (columns, rows) = chart.plotting_area().get_pixel_range();
            let one = chart.backend_coord(&(1.0, 0.0)).0;
            sheet.draw(&PathElement::new([(one, rows.start), (one, rows.end)], INK))?;
            let note = "times ours; right of 1 ours is ahead";
            sheet.draw_text(note, &text(12.0, HPos::Right, &SOFT), (columns.end, rows.end + 34))?;
            for (at, (name, ratios)) in self.rows.iter().enumerate() {
                let place = |ratio: f64| chart.backend_coord(&(ratio, at as f64 + 0.5));
                let y = place(x.start()).1;
                sheet.draw(&PathElement::new([(columns.start, y), (columns.end, y)], FAINT))?;
                sheet.draw_text(&printable(name), &text(11.0, HPos::Right, &INK), (columns.start - 8, y))?;
                for (peer, ratio) in ratios.iter().enumerate() {
                    if let Some(ratio) = ratio.filter(|ratio| x.holds(*ratio)) {
                        sheet.draw(&Circle::new(place(ratio), 4, Look::nth(peer + 1).filled()))?;
                    }
                }
            }
            Ok(())
        })
    }
}

const WIDTH: i32 = 560;
const ROW: i32 = 15;
