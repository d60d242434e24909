//! Legend: a sample and a name for each series, in as many lines as they take; names beside lone points.

use plotters::element::{Circle, PathElement};
use plotters::series::DashedLineSeries;
use plotters::style::text_anchor::HPos;

use super::style::{INK, Look, MARGIN, printable, text};
use super::{Drawn, Sheet};

/// How a series is shown beside its name.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sample {
    Line(Look),
    Dot(Look),
}

/// Entries and where they stand.
#[derive(Debug)]
pub(super) struct Legend<'n> {
    entries: Vec<(&'n str, Sample, (i32, i32))>,
    height: i32,
}

impl<'n> Legend<'n> {
    /// For a sheet of this width, under its heading.
    pub(super) fn new(series: impl IntoIterator<Item = (&'n str, Sample)>, width: i32) -> Self {
        let (mut x, mut y) = (MARGIN, FIRST_LINE);
        let mut entries = Vec::new();
        for (name, sample) in series {
            let takes = SAMPLE + text_width(name) + GAP;
            if x > MARGIN && x + takes > width {
                (x, y) = (MARGIN, y + LINE);
            }
            entries.push((name, sample, (x, y)));
            x += takes;
        }
        Self { entries, height: y + LINE }
    }

    /// Where the chart may begin.
    pub(super) const fn height(&self) -> i32 {
        self.height
    }

    pub(super) fn draw(&self, sheet: &Sheet<'_>) -> Drawn {
        for &(name, sample, (x, y)) in &self.entries {
            match sample {
                Sample::Dot(look) => sheet.draw(&Circle::new((x + 12, y), 4, look.filled()))?,
                Sample::Line(look) => draw_line(sheet, vec![(x, y), (x + SAMPLE - 8, y)], look)?,
            }
            sheet.draw_text(&printable(name), &text(12.0, HPos::Left, &INK), (x + SAMPLE, y))?;
        }
        Ok(())
    }
}

/// A line through these pixels.
pub(super) fn draw_line(sheet: &Sheet<'_>, points: Vec<(i32, i32)>, look: Look) -> Drawn {
    match look.dashes() {
        None => sheet.draw(&PathElement::new(points, look.line())),
        Some((dash, gap)) => {
            DashedLineSeries::new(points, dash, gap, look.line()).into_iter().try_for_each(|line| sheet.draw(&line))
        }
    }
}

/// Names beside dots, where they cover neither a dot nor another name.
pub(super) fn label_points(sheet: &Sheet<'_>, frame: Frame, points: &[(&str, (i32, i32))]) -> Drawn {
    let mut taken: Vec<Frame> = points.iter().map(|(_, (x, y))| (x - 5, y - 5, x + 5, y + 5)).collect();
    for &(name, (x, y)) in points {
        let width = text_width(name);
        let beside = [(x + 8, y), (x - 8 - width, y), (x - width / 2, y - 13), (x - width / 2, y + 13)];
        let boxes = beside.map(|(x, y)| (x, y - 7, x + width, y + 7));
        let free = |place: &Frame| {
            let inside = place.0 >= frame.0 && place.1 >= frame.1 && place.2 <= frame.2 && place.3 <= frame.3;
            inside && !taken.iter().any(|other| overlap(*place, *other))
        };
        if let Some(place) = boxes.into_iter().find(free) {
            sheet.draw_text(&printable(name), &text(12.0, HPos::Left, &INK), (place.0, place.1 + 7))?;
            taken.push(place);
        }
    }
    Ok(())
}

/// Left, top, right, bottom.
pub(super) type Frame = (i32, i32, i32, i32);

const fn overlap(a: Frame, b: Frame) -> bool {
    a.0 < b.2 && b.0 < a.2 && a.1 < b.3 && b.1 < a.3
}

/// Pixels that a name of 12 pixels takes, about.
fn text_width(name: &str) -> i32 {
    (6.7 * name.chars().count() as f64) as i32
}

const FIRST_LINE: i32 = 44;
const LINE: i32 = 18;
const SAMPLE: i32 = 34;
const GAP: i32 = 16;
