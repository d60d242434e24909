//! Charts as SVG, drawn by `plotters`: lines, grouped bars, small multiples of bars, dot plots of ratios.
//!
//! No fonts, scripts or other files are needed. The rule: what is not a finite number within its axis is not drawn, so that
//! a chart is well-formed whatever was measured.

mod axis;
mod bars;
mod lines;

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::Circle;
use plotters::style::{BLACK, Color, IntoFont, Palette, Palette99, PaletteColor, WHITE};

pub use self::axis::Axis;
pub use self::bars::{BarChart, Panels};
pub use self::lines::{LineChart, RatioPlot};

type Sheet<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

/// Draws a chart with its heading, and at the right a legend of `series`.
fn svg(title: &str, size: (u32, u32), series: &[String], draw: impl FnOnce(&Sheet<'_>) -> Drawn) -> String {
    let mut text = String::new();
    let (width, height) = (size.0, size.1.max(60 + ROW * series.len() as u32));
    let legend = if series.is_empty() { 0 } else { LEGEND };
    {
        let sheet = SVGBackend::with_string(&mut text, (width + legend, height)).into_drawing_area();
        let drawn = sheet.fill(&WHITE).and_then(|()| {
            let (chart, names) = sheet.titled(&printable(title), font(16.0))?.split_horizontally(width);
            for (at, name) in series.iter().enumerate() {
                let y = 12 + (ROW as usize * at) as i32;
                names.draw(&Circle::new((6, y), 4, color(at).filled()))?;
                names.draw_text(&printable(name), &font(12.0).color(&BLACK), (16, y - 6))?;
            }
            draw(&chart)
        });
        drawn.and_then(|()| sheet.present()).expect("a string takes every shape");
    }
    text
}

/// The colour of the `at`th series, in every chart the same.
fn color(at: usize) -> PaletteColor<Palette99> {
    Palette99::pick(at)
}

/// A sample of the `at`th series' colour, to stand in a page's text beside the name.
#[must_use]
pub fn swatch(at: usize) -> String {
    let (r, g, b) = Palette99::COLORS[at % Palette99::COLORS.len()];
    format!(
        "<svg viewBox=\"0 0 10 10\" width=\"10\" height=\"10\" aria-hidden=\"true\">\
         <circle cx=\"5\" cy=\"5\" r=\"4\" fill=\"#{r:02X}{g:02X}{b:02X}\"/></svg> "
    )
}

fn font(pixels: f64) -> plotters::style::TextStyle<'static> {
    ("system-ui, sans-serif", pixels).into_font().into()
}

/// Text that markup can hold.
fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

/// Pixels of a legend's line, and of the legend's width.
const ROW: u32 = 18;
const LEGEND: u32 = 240;

#[cfg(test)]
mod tests;
