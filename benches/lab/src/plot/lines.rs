//! Lines: one a series, each with its look.

use super::axis::Axis;
use super::labels::Labels;
use super::picture::Picture;
use super::style;
use super::svg::{Anchor, HEADING, MARGIN, Place, Sample, Svg, legend_height};

/// A picture of lines.
#[derive(Clone, Debug)]
pub struct Lines {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
}

#[derive(Clone, Debug)]
struct Series {
    name: String,
    /// Which colour and which dashes.
    look: (usize, &'static str),
    points: Vec<(f64, f64)>,
}

impl Lines {
    /// Without lines.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new() }
    }

    /// Adds a line that looks unlike those before it.
    pub fn add(&mut self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) {
        let at = self.series.len();
        self.push(name.into(), (at, style::dashes(at)), points);
    }

    /// Adds a line whose colour says one thing and whose dashes another.
    pub fn add_as(
        &mut self,
        name: impl Into<String>,
        colour: usize,
        dashes: usize,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) {
        self.push(name.into(), (colour, style::dash(dashes)), points);
    }

    /// The picture.
    #[must_use]
    pub fn draw(&self) -> Picture {
        let ends = (LEFT, LEFT + WIDTH);
        let width = ends.1 + MARGIN + 8.0;
        let top = HEADING + legend_height(self.series.iter().map(|series| &*series.name), width) + 31.0;
        let bottom = top + HEIGHT;
        let mut svg = Svg::new(&self.title, width, bottom + 48.0);
        let samples = self.series.iter().map(|series| Sample {
            name: &series.name,
            colour: style::colour(series.look.0),
            dashes: series.look.1,
        });
        svg.legend(&samples.collect::<Vec<_>>());
        let all = || self.series.iter().flat_map(|series| &series.points);
        let (xs, ys): (Vec<f64>, Vec<f64>) = all().copied().unzip();
        let (x_scale, y_scale) = (self.x.scale(&xs, ends), self.y.scale(&ys, (bottom, top)));
        for y in y_scale.between_ticks() {
            svg.line((ends.0, y), (ends.1, y), "pm-faint");
        }
        for x in x_scale.between_ticks() {
            svg.line((x, top), (x, bottom), "pm-faint");
        }
        for (y, text) in self.y.ticks(&y_scale, &ys) {
            svg.line((ends.0, y), (ends.1, y), "pm-grid");
            svg.text((ends.0 - 7.0, y + 4.0), Anchor::End, 12.0, &text);
        }
        for (x, text) in self.x.ticks(&x_scale, &xs) {
            svg.line((x, top), (x, bottom), "pm-grid");
            svg.text((x, bottom + 17.0), Anchor::Middle, 12.0, &text);
        }
        svg.line((ends.0, bottom), (ends.1, bottom), "pm-axis");
        svg.line((ends.0, top), (ends.0, bottom), "pm-axis");
        svg.note((ends.1, bottom + 37.0), Anchor::End, &self.x.name);
        svg.note((MARGIN, top - 11.0), Anchor::Start, &self.y.name);
        let place = |&(x, y): &(f64, f64)| Some((x_scale.place(x)?, y_scale.place(y)?));
        // Lines of a single point have their names beside it.
        let lone = self.series.iter().filter(|series| series.points.len() == 1);
        let lone: Vec<(&str, Place)> =
            lone.filter_map(|series| Some((&*series.name, place(series.points.first()?)?))).collect();
        let dots: Vec<Place> = lone.iter().map(|(_, dot)| *dot).collect();
        let mut labels = Labels::new((ends.0, top), (ends.1, bottom), &dots);
        for (name, dot) in lone {
            if let Some((at, anchor)) = labels.place(dot, name) {
                svg.text(at, anchor, 12.0, name);
            }
        }
        // Those that are named first lie on top.
        for series in self.series.iter().rev() {
            let points: Vec<Place> = series.points.iter().filter_map(place).collect();
            let colour = style::colour(series.look.0);
            svg.path(&thinned(&points), &colour, series.look.1, &series.name);
            if points.len() <= FEW {
                for (&(x, y), point) in series.points.iter().filter_map(|at| Some((at, place(at)?))) {
                    let about = format!("{}: {}, {}", series.name, self.x.unit.format(x), self.y.unit.format(y));
                    svg.point(point, &colour, &about);
                }
            }
        }
        svg.finish()
    }

    fn push(&mut self, name: String, look: (usize, &'static str), points: impl IntoIterator<Item = (f64, f64)>) {
        let points = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()).collect();
        self.series.push(Series { name, look, points });
    }
}

/// The points without those that would not be seen beside the last one kept; the ends stay.
fn thinned(points: &[Place]) -> Vec<Place> {
    let mut kept: Vec<Place> = Vec::new();
    for (at, &(x, y)) in points.iter().enumerate() {
        let near = kept.last().is_some_and(|last| (x - last.0).abs() < 0.8 && (y - last.1).abs() < 0.8);
        if !near || at + 1 == points.len() {
            kept.push((x, y));
        }
    }
    kept
}

const LEFT: f64 = MARGIN + 54.0;
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 300.0;

/// So many points are shown each.
const FEW: usize = 20;
