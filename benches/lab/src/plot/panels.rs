//! Small multiples: bar charts beside each other, all on one scale, so that shapes compare at a glance.

use plotters::chart::ChartBuilder;
use plotters::element::Rectangle;
use plotters::series::DashedLineSeries;
use plotters::style::text_anchor::HPos;

use super::axis::{Axis, Scale};
use super::style::{GRID, INK, Look, MARGIN, SOFT, printable, text};
use super::{Drawn, Picture, Sheet};
use crate::format::Unit;

/// A picture of panels.
#[derive(Clone, Debug)]
pub struct Panels {
    title: String,
    unit: Unit,
    panels: Vec<Panel>,
}

#[derive(Clone, Debug)]
struct Panel {
    name: String,
    note: String,
    /// Greatest first.
    bars: Vec<f64>,
}

impl Panels {
    /// Without panels.
    pub fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, panels: Vec::new() }
    }

    /// Adds a panel with a note under its name. Bars are drawn from the greatest to the least, and their mean as a
    /// line.
    pub fn add(&mut self, name: impl Into<String>, note: impl Into<String>, values: impl IntoIterator<Item = f64>) {
        let mut bars: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        bars.sort_by(|a, b| b.total_cmp(a));
        self.panels.push(Panel { name: name.into(), note: note.into(), bars });
    }

    /// The picture.
    #[must_use]
    pub fn draw(&self) -> Picture {
        let rows = self.panels.len().div_ceil(COLUMNS) as i32;
        let size = (COLUMNS as i32 * WIDTH + MARGIN, TOP + rows * HEIGHT + MARGIN);
        let scale = Axis::new("").unit(self.unit).scale(self.panels.iter().flat_map(|panel| panel.bars.clone()));
        Picture::draw(&self.title, (size.0 as u32, size.1 as u32), |sheet| {
            for (at, panel) in self.panels.iter().enumerate() {
                let (column, row) = ((at % COLUMNS) as i32, (at / COLUMNS) as i32);
                let area = sheet.clone().shrink((column * WIDTH, TOP + row * HEIGHT), (WIDTH, HEIGHT));
                panel.draw(&area, at, &scale)?;
            }
            Ok(())
        })
    }
}

impl Panel {
    fn draw(&self, area: &Sheet<'_>, at: usize, scale: &Scale) -> Drawn {
        let name = printable(&self.name);
        let fits = f64::from(WIDTH - LABELS) / (0.58 * name.chars().count().max(1) as f64);
        area.draw_text(&name, &text(fits.clamp(6.0, 13.0), HPos::Left, &INK), (LABELS, 12))?;
        area.draw_text(&printable(&self.note), &text(12.0, HPos::Left, &SOFT), (LABELS, 28))?;
        let count = self.bars.len().max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .margin_top(38)
            .margin_bottom(18)
            .margin_right(6)
            .y_label_area_size(LABELS)
            .build_cartesian_2d(0.0..count, scale.clone())?;
        let mut mesh = chart.configure_mesh();
        mesh.disable_x_mesh().axis_style(INK).bold_line_style(GRID).light_line_style(GRID).y_labels(4);
        mesh.label_style(text(11.0, HPos::Left, &INK)).draw()?;
        // No more bars than there are pixels to draw them on.
        let each = (count / f64::from(WIDTH - LABELS)).ceil().max(1.0);
        let gap = if count < 50.0 { 0.15 } else { 0.0 };
        let bars = self.bars.iter().enumerate().step_by(each as usize).filter(|(_, value)| scale.holds(**value));
        let bar = |(place, value): (usize, &f64)| {
            let left = place as f64;
            Rectangle::new([(left + gap / 2.0, *value), (left + each - gap / 2.0, 0.0)], Look::nth(at).filled())
        };
        chart.draw_series(bars.map(bar))?;
        let mean = self.bars.iter().sum::<f64>() / count;
        chart.draw_series(DashedLineSeries::new([(0.0, mean), (count, mean)], 3, 3, INK.into()))?;
        Ok(())
    }
}

const COLUMNS: usize = 3;
const WIDTH: i32 = 228;
const HEIGHT: i32 = 146;
const TOP: i32 = 44;

/// Room for numbers at the left.
const LABELS: i32 = 46;
