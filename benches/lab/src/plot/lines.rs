//! Line chart: a line a series, each with its look.

use plotters::chart::ChartBuilder;
use plotters::element::Circle;
use plotters::style::text_anchor::HPos;

use super::Picture;
use super::axis::Axis;
use super::legend::{Legend, Sample, draw_line, label_points};
use super::style::{FAINT, GRID, INK, Look, MARGIN, SOFT, text};

/// A chart of lines.
#[derive(Clone, Debug)]
pub struct LineChart {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    look: Look,
    points: Vec<(f64, f64)>,
}

impl LineChart {
    /// Without lines.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new() }
    }

    /// Adds a line that looks unlike those before it.
    pub fn add(&mut self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) {
        self.push(name.into(), Look::nth(self.series.len()), points);
    }

    /// Adds a line whose colour says one thing and whose dashes another.
    pub fn add_as(
        &mut self,
        name: impl Into<String>,
        colour: usize,
        dashes: usize,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) {
        self.push(name.into(), Look::new(colour, dashes), points);
    }

    /// The picture.
    #[must_use]
    pub fn draw(&self) -> Picture {
        let entries = self.series.iter().map(|series| match series.points.len() {
            1 => (&*series.name, Sample::Dot(series.look)),
            _ => (&*series.name, Sample::Line(series.look)),
        });
        let legend = Legend::new(entries, WIDTH);
        Picture::draw(&self.title, (WIDTH as u32, (legend.height() + HEIGHT) as u32), |sheet| {
            legend.draw(sheet)?;
            let (_, area) = sheet.split_vertically(legend.height());
            let points = || self.series.iter().flat_map(|series| &series.points);
            let (x, y) = (self.x.scale(points().map(|at| at.0)), self.y.scale(points().map(|at| at.1)));
            let mut chart = ChartBuilder::on(&area)
                .margin_top(24)
                .margin_right(MARGIN + 8)
                .margin_bottom(20)
                .x_label_area_size(24)
                .y_label_area_size(62)
                .build_cartesian_2d(x.clone(), y.clone())?;
            chart
                .configure_mesh()
                .axis_style(INK)
                .bold_line_style(GRID)
                .light_line_style(FAINT)
                .label_style(text(12.0, HPos::Left, &INK))
                .draw()?;
            let (columns, rows) = chart.plotting_area().get_pixel_range();
            let note = |side| text(12.0, side, &SOFT);
            sheet.draw_text(&self.y.name, &note(HPos::Left), (MARGIN, rows.start - 12))?;
            sheet.draw_text(&self.x.name, &note(HPos::Right), (columns.end, rows.end + 34))?;
            let place = |point: &&(f64, f64)| x.holds(point.0) && y.holds(point.1);
            let pixels = |series: &Series| -> Vec<(i32, i32)> {
                series.points.iter().filter(place).map(|point| chart.backend_coord(point)).collect()
            };
            let lone = self.series.iter().filter(|series| series.points.len() == 1);
            let lone: Vec<_> = lone.filter_map(|series| Some((&*series.name, *pixels(series).first()?))).collect();
            label_points(sheet, (columns.start, rows.start, columns.end, rows.end), &lone)?;
            // Those that are named first lie on top.
            for series in self.series.iter().rev() {
                let mut points = pixels(series);
                if points.len() <= FEW {
                    points.iter().try_for_each(|at| sheet.draw(&Circle::new(*at, 3, series.look.filled())))?;
                }
                points.dedup();
                if points.len() > 1 {
                    draw_line(sheet, points, series.look)?;
                }
            }
            Ok(())
        })
    }

    fn push(&mut self, name: String, look: Look, points: impl IntoIterator<Item = (f64, f64)>) {
        let points = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        self.series.push(Series { name, look, points });
    }
}

const WIDTH: i32 = 700;

/// Of the chart under its legend.
const HEIGHT: i32 = 380;

/// So many points are shown each.
const FEW: usize = 20;
