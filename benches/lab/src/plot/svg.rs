//! The few shapes that plots are made of.

use std::fmt::Write as _;

use super::picture::Picture;
use super::style::colour;
use crate::html::escaped;

/// A picture that grows shape by shape.
#[derive(Debug)]
pub(super) struct Svg {
    shapes: String,
    title: String,
    width: f64,
    height: f64,
}

/// A place: to the right, and down.
pub(super) type Place = (f64, f64);

/// Where a text is anchored.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

impl Svg {
    /// An empty sheet under a heading that is as large as fits.
    pub(super) fn new(title: &str, width: f64, height: f64) -> Self {
        let mut svg = Self { shapes: String::new(), title: title.to_owned(), width, height };
        let fits = (width - 2.0 * MARGIN) / (0.56 * title.chars().count().max(1) as f64);
        let (title, size) = (escaped(title), fits.clamp(8.0, 16.0));
        let _ = writeln!(
            svg.shapes,
            "<text x=\"{MARGIN:.1}\" y=\"26\" font-size=\"{size:.1}\" font-weight=\"600\" class=\"pm-ink\">{title}</text>"
        );
        svg
    }

    pub(super) fn text(&mut self, (x, y): Place, anchor: Anchor, size: f64, text: &str) {
        self.words((x, y), anchor, size, "pm-ink", text);
    }

    /// A text that steps back.
    pub(super) fn note(&mut self, (x, y): Place, anchor: Anchor, text: &str) {
        self.words((x, y), anchor, 12.0, "pm-soft", text);
    }

    fn words(&mut self, (x, y): Place, anchor: Anchor, size: f64, class: &str, text: &str) {
        let (anchor, text) = (anchor.name(), escaped(text));
        let _ = writeln!(
            self.shapes,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size:.1}\" class=\"{class}\">{text}</text>"
        );
    }

    pub(super) fn line(&mut self, (x1, y1): Place, (x2, y2): Place, class: &str) {
        let _ = writeln!(
            self.shapes,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        );
    }

    /// A bar that says what it is when pointed at.
    pub(super) fn bar(&mut self, (x, y): Place, (width, height): (f64, f64), colour: &str, about: &str) {
        let about = escaped(about);
        let _ = writeln!(
            self.shapes,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"{colour} pm-bar\">\
             <title>{about}</title></rect>"
        );
    }

    pub(super) fn dot(&mut self, (x, y): Place, colour: &str) {
        let _ = writeln!(self.shapes, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" class=\"{colour} pm-dot\"/>");
    }

    /// A dot that says what it is when pointed at.
    pub(super) fn point(&mut self, (x, y): Place, colour: &str, about: &str) {
        let about = escaped(about);
        let _ = writeln!(
            self.shapes,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" class=\"{colour} pm-dot\"><title>{about}</title></circle>"
        );
    }

    /// A line through points that says its name when pointed at; `dashes` as SVG says them, empty for none.
    pub(super) fn path(&mut self, points: &[Place], colour: &str, dashes: &str, name: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let (points, name) = (points.join(" "), escaped(name));
        let _ = writeln!(
            self.shapes,
            "<polyline points=\"{points}\" class=\"{colour} pm-line\" stroke-dasharray=\"{dashes}\">\
             <title>{name}</title></polyline>"
        );
    }

    /// A dot and a name for each, with the number of its colour, in rows below the heading.
    pub(super) fn dots_legend<'a>(&mut self, entries: impl IntoIterator<Item = (&'a str, usize)>) {
        let entries: Vec<(&str, usize)> = entries.into_iter().collect();
        let names: Vec<&str> = entries.iter().map(|(name, _)| *name).collect();
        for ((x, y), (name, at)) in legend_places(&names, self.width).into_iter().zip(entries) {
            self.dot((x + 16.0, y), &colour(at));
            self.text((x + SAMPLE, y + 4.0), Anchor::Start, 12.0, name);
        }
    }

    pub(super) fn finish(self) -> Picture {
        let size = (self.width.ceil() as u32, self.height.ceil() as u32);
        Picture::new(self.title, size, self.shapes)
    }
}

/// A sample of a line, its colour's class and its dashes.
#[derive(Debug)]
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    pub(super) colour: String,
    pub(super) dashes: &'static str,
}

impl Svg {
    /// A short line and a name for each, in rows below the heading.
    pub(super) fn legend(&mut self, samples: &[Sample<'_>]) {
        let names: Vec<&str> = samples.iter().map(|sample| sample.name).collect();
        for ((x, y), sample) in legend_places(&names, self.width).into_iter().zip(samples) {
            self.path(&[(x, y), (x + SAMPLE - 6.0, y)], &sample.colour, sample.dashes, sample.name);
            self.text((x + SAMPLE, y + 4.0), Anchor::Start, 12.0, sample.name);
        }
    }
}

/// Height of the rows that a legend takes.
pub(super) fn legend_height<'a>(names: impl IntoIterator<Item = &'a str>, width: f64) -> f64 {
    let names: Vec<&str> = names.into_iter().collect();
    legend_places(&names, width).last().map_or(0.0, |(_, y)| y + ROW / 2.0 - HEADING)
}

/// Where each name's sample begins. Columns of one width, so that many names read as a table.
fn legend_places(names: &[&str], width: f64) -> Vec<Place> {
    let room = width - 2.0 * MARGIN;
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let column = SAMPLE + 18.0 + 6.7 * longest as f64;
    let columns = ((room / column) as usize).clamp(1, names.len().max(1));
    let place = |at: usize| (MARGIN + column * (at % columns) as f64, HEADING + ROW * ((at / columns) as f64 + 0.5));
    (0..names.len()).map(place).collect()
}

pub(super) const MARGIN: f64 = 16.0;

/// Where the drawing or its legend begins, below the heading.
pub(super) const HEADING: f64 = 38.0;

const ROW: f64 = 19.0;
const SAMPLE: f64 = 30.0;
