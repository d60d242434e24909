//! Charts as SVG, drawn by `plotters`: lines, bars, small multiples of bars, ratios as dots beside the line 1.
//!
//! | module | idea |
//! |---|---|
//! | [`lines`] | a line a series, over a size, a time or a share |
//! | [`bars`] | a group for each column, in it a bar for each row |
//! | [`panels`] | small multiples: many bar charts on one scale |
//! | [`ratios`] | how many times ours |
//! | [`axis`] | an axis: its name, unit and scale |
//!
//! Colours are told apart by the colour-blind and follow the reader's light or dark theme; no fonts, scripts or
//! other files are needed. The rule: what is not a finite number within its axis is not drawn.

pub mod axis;
pub mod bars;
mod legend;
pub mod lines;
pub mod panels;
pub mod ratios;
mod style;

use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};

pub use self::style::swatch;
use crate::html::escaped;

/// A finished chart: a file of its own, or part of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    title: String,
    size: (u32, u32),
    shapes: String,
}

type Sheet<'s> = DrawingArea<SVGBackend<'s>, Shift>;
type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

impl Picture {
    fn draw(title: &str, size: (u32, u32), draw: impl FnOnce(&Sheet<'_>) -> Drawn) -> Self {
        let mut svg = String::new();
        {
            let sheet = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            let drawn = sheet.fill(&style::SHEET).and_then(|()| style::heading(&sheet, title));
            drawn.and_then(|()| draw(&sheet)).and_then(|()| sheet.present()).expect("a string takes every shape");
        }
        let (from, to) = (svg.find('>').map_or(0, |at| at + 1), svg.rfind("</svg>").unwrap_or(svg.len()));
        Self { title: title.to_owned(), size, shapes: svg[from..to].to_owned() }
    }

    /// Its heading.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// As the text of an SVG file.
    #[must_use]
    pub fn svg(&self) -> String {
        self.within("xmlns=\"http://www.w3.org/2000/svg\" ", &format!("<style>{}</style>", style::rules()))
    }

    /// As part of an HTML page that has the [rules](Self::rules) in its style.
    #[must_use]
    pub fn inline(&self) -> String {
        self.within("", "")
    }

    /// What a page's style must hold for pictures in it.
    #[must_use]
    pub fn rules() -> String {
        style::rules()
    }

    fn within(&self, namespace: &str, style: &str) -> String {
        let Self { title, size: (width, height), shapes } = self;
        let title = escaped(title);
        format!(
            "<svg {namespace}class=\"pm-plot\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             role=\"img\" aria-label=\"{title}\">{style}{shapes}</svg>\n"
        )
    }
}

#[cfg(test)]
mod tests;
