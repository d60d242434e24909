//! Grouped bar chart, and small multiples of bars on one scale.

use plotters::chart::ChartBuilder;
use plotters::element::{PathElement, Rectangle};
use plotters::style::{BLACK, Color};

use super::{Axis, Drawn, Sheet, color, font, printable, svg};
use crate::format::Unit;

/// A group for each column, in it a bar for each row.
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
        self.groups.push((name.into(), values.into_iter().collect()));
    }

    /// The chart as SVG.
    #[must_use]
    pub fn draw(&self) -> String {
        svg(&self.title, (700, 360), &self.rows, |area| {
            let width = 1.0 / (self.rows.len() + 1) as f64;
            let bars = self.groups.iter().enumerate().flat_map(|(group, (_, values))| {
                let bar = move |(row, value): (usize, &Option<f64>)| {
                    Some((group as f64 + row as f64 * width, row, (*value)?))
                };
                values.iter().enumerate().filter_map(bar)
            });
            let named = |place: f64| if place.fract() == 0.0 { self.groups.get(place as usize) } else { None };
            let name = |place: f64| named(place).map_or(String::new(), |group| group.0.clone());
            let bars = Bars { slots: self.groups.len(), width, bars: bars.collect(), name: &name, line: None };
            bars.draw(area, &Axis::new("").unit(self.unit))
        })
    }
}

/// Small multiples: a bar chart for each panel, all on one scale, the highest bar first, a line at the mean.
#[derive(Clone, Debug)]
pub struct Panels {
    title: String,
    unit: Unit,
    panels: Vec<(String, Vec<f64>)>,
}

impl Panels {
    /// Without panels.
    pub fn new(title: impl Into<String>, unit: Unit) -> Self {
        Self { title: title.into(), unit, panels: Vec::new() }
    }

    /// Adds a panel, its bars in any order.
    pub fn add(&mut self, name: impl Into<String>, note: impl Into<String>, bars: impl IntoIterator<Item = f64>) {
        let mut bars: Vec<f64> = bars.into_iter().filter(|bar| bar.is_finite()).collect();
        bars.sort_by(|a, b| b.total_cmp(a));
        self.panels.push((format!("{}: {}", name.into(), note.into()), bars));
    }

    /// The chart as SVG.
    #[must_use]
    pub fn draw(&self) -> String {
        let rows = self.panels.len().div_ceil(COLUMNS).max(1);
        svg(&self.title, (900, 40 + 170 * rows as u32), &[], |area| {
            let most = self.panels.iter().flat_map(|(_, bars)| bars.first()).copied().fold(0.0, f64::max);
            let axis = Axis::new("").unit(self.unit).within(0.0, if most > 0.0 { most } else { 1.0 });
            for (at, (cell, (name, bars))) in area.split_evenly((rows, COLUMNS)).iter().zip(&self.panels).enumerate() {
                // No more bars than can be seen.
                let step = bars.len().div_ceil(WIDEST).max(1);
                let shown: Vec<_> =
                    bars.iter().step_by(step).enumerate().map(|(slot, bar)| (slot as f64, at, *bar)).collect();
                let line = (!bars.is_empty()).then(|| bars.iter().sum::<f64>() / bars.len() as f64);
                let bars = Bars { slots: shown.len(), width: 1.0, bars: shown, name: &|_| String::new(), line };
                bars.draw(&cell.titled(&printable(name), font(12.0))?, &axis)?;
            }
            Ok(())
        })
    }
}

/// Bars as (left edge, colour, value), and a line across them.
struct Bars<'n> {
    slots: usize,
    width: f64,
    bars: Vec<(f64, usize, f64)>,
    /// What stands under a place.
    name: &'n dyn Fn(f64) -> String,
    line: Option<f64>,
}

impl Bars<'_> {
    fn draw(&self, area: &Sheet<'_>, axis: &Axis) -> Drawn {
        let y = axis.scale(self.bars.iter().map(|bar| bar.2));
        let slots = self.slots.max(1) as f64;
        let mut chart = ChartBuilder::on(area)
            .margin(4)
            .x_label_area_size(20)
            .y_label_area_size(52)
            .build_cartesian_2d(0.0..slots, y.range.clone())?;
        chart
            .configure_mesh()
            .disable_mesh()
            .label_style(font(11.0))
            .x_labels(self.slots.min(8) + 1)
            .y_labels(y.ticks())
            .x_label_formatter(&|slot| printable(&(self.name)(*slot)))
            .y_label_formatter(&|place| y.label(*place))
            .draw()?;
        let bars = self.bars.iter().filter_map(|&(left, at, value)| Some((left, at, y.place(value)?)));
        let bar = |(left, at, top): (f64, usize, f64)| {
            Rectangle::new([(left + 0.1 * self.width, top), (left + 0.9 * self.width, 0.0)], color(at).filled())
        };
        chart.draw_series(bars.map(bar))?;
        chart.draw_series(self.line.map(|mean| PathElement::new([(0.0, mean), (slots, mean)], BLACK)))?;
        Ok(())
    }
}

const COLUMNS: usize = 3;
const WIDEST: usize = 120;
