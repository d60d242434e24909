//! Line chart, and the dot plot of ratios.

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement};
use plotters::style::{BLACK, Color, RGBColor};

use super::{Axis, ROW, color, font, printable, svg};

/// A line for each series; the points of short ones are dots, a lone point has its name beside it.
#[derive(Clone, Debug)]
pub struct LineChart {
    title: String,
    x: Axis,
    y: Axis,
    names: Vec<String>,
    series: Vec<Vec<(f64, f64)>>,
}

impl LineChart {
    /// Without lines.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, names: Vec::new(), series: Vec::new() }
    }

    /// Adds a line.
    pub fn add(&mut self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) {
        self.names.push(name.into());
        self.series.push(points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect());
    }

    /// The chart as SVG.
    #[must_use]
    pub fn draw(&self) -> String {
        svg(&self.title, (700, 400), &self.names, |area| {
            let points = || self.series.iter().flatten();
            let (x, y) = (self.x.scale(points().map(|at| at.0)), self.y.scale(points().map(|at| at.1)));
            let mut chart = ChartBuilder::on(area)
                .margin(12)
                .x_label_area_size(44)
                .y_label_area_size(72)
                .build_cartesian_2d(x.range.clone(), y.range.clone())?;
            chart
                .configure_mesh()
                .max_light_lines(1)
                .bold_line_style(GRID)
                .label_style(font(12.0))
                .x_desc(printable(&self.x.name))
                .y_desc(printable(&self.y.name))
                .x_labels(x.ticks())
                .y_labels(y.ticks())
                .x_label_formatter(&|place| x.label(*place))
                .y_label_formatter(&|place| y.label(*place))
                .draw()?;
            let (dx, dy) = area.get_base_pixel();
            for (at, series) in self.series.iter().enumerate() {
                let placed = series.iter().filter_map(|point| Some((x.place(point.0)?, y.place(point.1)?)));
                let pixels = placed.map(|place| chart.backend_coord(&place)).map(|(x, y)| (x - dx, y - dy));
                let mut pixels: Vec<(i32, i32)> = pixels.collect();
                if pixels.len() <= FEW {
                    pixels.iter().try_for_each(|&at_pixel| area.draw(&Circle::new(at_pixel, 3, color(at).filled())))?;
                }
                if let [(x, y)] = pixels[..] {
                    area.draw_text(&printable(&self.names[at]), &font(11.0), (x + 6, y - 6))?;
                }
                pixels.dedup();
                area.draw(&PathElement::new(pixels, color(at).stroke_width(2)))?;
            }
            Ok(())
        })
    }
}

/// A row of dots for each case, on a logarithmic scale: left of the line 1 ours is behind.
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

    /// The chart as SVG.
    #[must_use]
    pub fn draw(&self) -> String {
        let count = self.rows.len().max(1);
        svg(&self.title, (800, 90 + ROW * count as u32), &self.columns, |area| {
            let values = self.rows.iter().flat_map(|(_, ratios)| ratios.iter().flatten().copied());
            let x = Axis::new("").log(2.0).scale(values.chain([0.8, 1.6]));
            let mut chart = ChartBuilder::on(area)
                .margin(12)
                .x_label_area_size(44)
                .y_label_area_size(260)
                .build_cartesian_2d(x.range.clone(), count as f64..0.0)?;
            chart
                .configure_mesh()
                .max_light_lines(1)
                .disable_y_mesh()
                .label_style(font(11.0))
                .x_desc("times ours; right of 1 ours is ahead")
                .x_labels(x.ticks())
                .x_label_formatter(&|place| x.label(*place))
                .y_labels(0)
                .draw()?;
            chart.draw_series([PathElement::new([(0.0, 0.0), (0.0, count as f64)], BLACK)])?;
            let (dx, dy) = area.get_base_pixel();
            for (at, (name, ratios)) in self.rows.iter().enumerate() {
                let y = at as f64 + 0.5;
                let (left, middle) = chart.backend_coord(&(x.range.start, y));
                area.draw_text(&printable(name), &font(11.0), (left - dx - 250, middle - dy - 6))?;
                let dots = ratios.iter().enumerate().filter_map(|(peer, ratio)| Some((peer, x.place((*ratio)?)?)));
                chart.draw_series(dots.map(|(peer, place)| Circle::new((place, y), 4, color(peer).filled())))?;
            }
            Ok(())
        })
    }
}

const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

/// So many points are shown each.
const FEW: usize = 20;
