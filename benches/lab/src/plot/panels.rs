//! Small bar charts beside each other, all on one scale, so that shapes compare at a glance.

use super::axis::{Axis, Unit};
use super::picture::Picture;
use super::style::colour;
use super::svg::{Anchor, HEADING, MARGIN, Svg};

/// A picture of panels.
#[derive(Clone, Debug)]
pub struct Panels {
    title: String,
    unit: Unit,
    bar: String,
    panels: Vec<Panel>,
}

#[derive(Clone, Debug)]
struct Panel {
    name: String,
    note: String,
    /// Each bar's number, and its value.
    bars: Vec<(usize, f64)>,
}

impl Panels {
    /// Without panels; `bar` is what a bar is called when pointed at, before its number.
    pub fn new(title: impl Into<String>, unit: Unit, bar: impl Into<String>) -> Self {
        Self { title: title.into(), unit, bar: bar.into(), panels: Vec::new() }
    }

    /// Adds a panel with a note under its name. Bars are drawn from the greatest to the least, and their mean as a
    /// line.
    pub fn add(&mut self, name: impl Into<String>, note: impl Into<String>, values: impl IntoIterator<Item = f64>) {
        let values = values.into_iter().enumerate().filter(|(_, value)| value.is_finite());
        let mut bars: Vec<(usize, f64)> = values.collect();
        bars.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        self.panels.push(Panel { name: name.into(), note: note.into(), bars });
    }

    /// The picture.
    #[must_use]
    pub fn draw(&self) -> Picture {
        let rows = self.panels.len().div_ceil(COLUMNS);
        let width = LEFT + COLUMNS as f64 * (WIDTH + GAP) - GAP + MARGIN;
        let mut svg = Svg::new(&self.title, width, HEADING + rows as f64 * (HEIGHT + ABOVE) + MARGIN + 8.0);
        let values: Vec<f64> = self.panels.iter().flat_map(|panel| panel.bars.iter().map(|bar| bar.1)).collect();
        for (at, panel) in self.panels.iter().enumerate() {
            let left = LEFT + (at % COLUMNS) as f64 * (WIDTH + GAP);
            let top = HEADING + (at / COLUMNS) as f64 * (HEIGHT + ABOVE) + ABOVE;
            self.panel(&mut svg, (left, top), (at, panel), &values);
        }
        svg.finish()
    }

    fn panel(&self, svg: &mut Svg, (left, top): (f64, f64), (at, panel): (usize, &Panel), all: &[f64]) {
        let (right, bottom) = (left + WIDTH, top + HEIGHT);
        let axis = Axis::new("").unit(self.unit);
        let scale = axis.scale(all, (bottom, top));
        // Every other tick has its number: panels are low.
        for (tick, (y, text)) in axis.ticks(&scale, all).into_iter().enumerate() {
            svg.line((left, y), (right, y), "pm-grid");
            if at % COLUMNS == 0 && tick % 2 == 0 {
                svg.text((left - 6.0, y + 4.0), Anchor::End, 11.0, &text);
            }
        }
        let fits = WIDTH / (0.58 * panel.name.chars().count().max(1) as f64);
        svg.text((left, top - 22.0), Anchor::Start, fits.clamp(6.0, 13.0), &panel.name);
        svg.note((left, top - 7.0), Anchor::Start, &panel.note);
        let step = WIDTH / panel.bars.len().max(1) as f64;
        let gap = if step > 4.0 { step * 0.15 } else { 0.0 };
        for (place, &(number, value)) in shown(&panel.bars) {
            let Some(y) = scale.place(value) else { continue };
            let about = format!("{} {number}: {}", self.bar, self.unit.format(value));
            let x = left + step * place as f64 + gap / 2.0;
            svg.bar((x, y), ((step - gap).max(1.0), bottom - y), &colour(at), &about);
        }
        let mean = panel.bars.iter().map(|bar| bar.1).sum::<f64>() / panel.bars.len().max(1) as f64;
        if let Some(y) = scale.place(mean) {
            svg.line((left, y), (right, y), "pm-mean");
        }
        svg.line((left, bottom), (right, bottom), "pm-axis");
    }
}

/// So many bars as there are pixels to draw them on, each with its place.
fn shown(bars: &[(usize, f64)]) -> impl Iterator<Item = (usize, &(usize, f64))> {
    let each = (bars.len() as f64 / WIDTH).ceil().max(1.0) as usize;
    bars.iter().enumerate().step_by(each)
}

const COLUMNS: usize = 3;
const LEFT: f64 = MARGIN + 42.0;
const WIDTH: f64 = 194.0;
const HEIGHT: f64 = 84.0;
const GAP: f64 = 18.0;

/// Room above a panel, for its name and note.
const ABOVE: f64 = 56.0;
