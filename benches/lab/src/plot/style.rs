//! Palette: eight colours that the colour-blind tell apart, then the same ones dashed; light and dark.

use std::fmt::Write as _;

use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, RGBColor, ShapeStyle, TextStyle};

use super::{Drawn, Sheet};

pub(super) const SHEET: RGBColor = RGBColor(255, 255, 255);
pub(super) const INK: RGBColor = RGBColor(0x1c, 0x1c, 0x1c);
pub(super) const SOFT: RGBColor = RGBColor(0x5a, 0x5a, 0x5a);
pub(super) const GRID: RGBColor = RGBColor(0xde, 0xde, 0xde);
pub(super) const FAINT: RGBColor = RGBColor(0xf0, 0xf0, 0xf0);

/// Colours of series, and what each colour is on a dark sheet.
const SERIES: [(RGBColor, &str); 8] = [
    (RGBColor(0x00, 0x72, 0xb2), "#3b9be8"),
    (RGBColor(0xd5, 0x5e, 0x00), "#f5803a"),
    (RGBColor(0x00, 0x9e, 0x73), "#22c596"),
    (RGBColor(0xc8, 0x62, 0x9c), "#e39cc6"),
    (RGBColor(0xd9, 0x90, 0x00), "#f3bd3f"),
    (RGBColor(0x4f, 0xb0, 0xe8), "#a5dcff"),
    (RGBColor(0x7a, 0x7a, 0x7a), "#9a9a9a"),
    (INK, "#ececec"),
];

const SHEETS: [(RGBColor, &str); 4] = [(SHEET, "#16181c"), (SOFT, "#a9adb5"), (GRID, "#363a42"), (FAINT, "#24272d")];

/// Lengths of dashes and gaps; none for a whole line.
const DASHES: [Option<(i32, i32)>; 4] = [None, Some((7, 4)), Some((2, 3)), Some((12, 3))];

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Look {
    colour: usize,
    dashes: usize,
}

impl Look {
    /// Colour and dashes by numbers of their own.
    pub(super) const fn new(colour: usize, dashes: usize) -> Self {
        Self { colour: colour % SERIES.len(), dashes: dashes % DASHES.len() }
    }

    /// Of the `at`th series: those that share a colour differ in dashes.
    pub(super) const fn nth(at: usize) -> Self {
        Self::new(at, at / SERIES.len())
    }

    pub(super) const fn colour(self) -> RGBColor {
        SERIES[self.colour].0
    }

    pub(super) const fn dashes(self) -> Option<(i32, i32)> {
        DASHES[self.dashes]
    }

    pub(super) fn line(self) -> ShapeStyle {
        self.colour().stroke_width(2)
    }

    pub(super) fn filled(self) -> ShapeStyle {
        self.colour().filled()
    }
}

/// Text of so many pixels, anchored at this side of its place.
pub(super) fn text(pixels: f64, side: HPos, colour: &'static RGBColor) -> TextStyle<'static> {
    // The backend writes font sizes divided by this.
    let font = ("system-ui, sans-serif", pixels * 1.24).into_font();
    TextStyle::from(font).color(colour).pos(Pos::new(side, VPos::Center))
}

/// Text that markup can hold.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { '\u{fffd}' } else { char }).collect()
}

pub(super) fn heading(sheet: &Sheet<'_>, title: &str) -> Drawn {
    sheet.draw_text(&printable(title), &text(16.0, HPos::Left, &INK), (MARGIN, 20))
}

/// A sample of the `at`th line, to stand in a page's text beside the name.
#[must_use]
pub fn swatch(at: usize) -> String {
    let look = Look::nth(at);
    let dashes = look.dashes().map_or(String::new(), |(dash, gap)| format!(" stroke-dasharray=\"{dash} {gap}\""));
    format!(
        "<svg class=\"pm-plot pm-swatch\" viewBox=\"0 0 26 10\" width=\"26\" height=\"10\" aria-hidden=\"true\">\
         <line x1=\"1\" y1=\"5\" x2=\"25\" y2=\"5\" stroke=\"{}\" stroke-width=\"2\"{dashes}/></svg>",
        hex(look.colour())
    )
}

/// The colours of a dark theme, in place of those that shapes are drawn in.
pub(super) fn rules() -> String {
    let mut out = String::from("@media (prefers-color-scheme:dark){");
    for (light, dark) in SHEETS.iter().chain(&SERIES) {
        for what in ["fill", "stroke"] {
            let _ = write!(out, ".pm-plot [{what}=\"{}\"]{{{what}:{dark}}}", hex(*light));
        }
    }
    out + "}"
}

/// As the backend writes it.
fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// Pixels around a chart.
pub(super) const MARGIN: i32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_series_look_different() {
        let looks: std::collections::BTreeSet<_> = (0..30).map(Look::nth).collect();
        assert_eq!(looks.len(), 30);
        assert_eq!(crate::html::fault(&swatch(29)), None);
    }

    #[test]
    fn every_colour_has_a_dark_one() {
        let rules = rules();
        for at in 0..SERIES.len() {
            assert_eq!(rules.matches(&hex(Look::nth(at).colour())).count(), 2, "{rules}");
        }
        assert_eq!(rules.matches('{').count(), rules.matches('}').count());
    }
}
