//! The few shapes that plots are made of, on a white sheet.

use std::fmt::Write as _;

/// A picture that grows shape by shape.
#[derive(Debug)]
pub(super) struct Svg {
    text: String,
    width: f64,
}

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
    /// A white sheet.
    pub(super) fn new(width: f64, height: f64) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"system-ui, sans-serif\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        Self { text, width }
    }

    /// A heading, as large as fits.
    pub(super) fn title(&mut self, text: &str) {
        let fits = (self.width - 2.0 * MARGIN) / (0.56 * text.chars().count().max(1) as f64);
        self.text((MARGIN, 24.0), Anchor::Start, fits.clamp(8.0, 15.0), INK, text);
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, colour: &str, text: &str) {
        let (anchor, text) = (anchor.name(), escaped(text));
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size:.1}\" fill=\"{colour}\">{text}</text>"
        );
    }

    pub(super) fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str, width: f64) {
        let _ = writeln!(
            self.text,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
        );
    }

    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        let _ = writeln!(
            self.text,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
        );
    }

    pub(super) fn dot(&mut self, (x, y): (f64, f64), colour: &str) {
        let _ = writeln!(self.text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
    }

    /// A line through points; `dashes` as SVG says them, empty for none.
    pub(super) fn path(&mut self, points: &[(f64, f64)], colour: &str, dashes: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>",
            points.join(" ")
        );
    }

    /// A dot and a name for each, in a row below the title.
    pub(super) fn legend<'a>(&mut self, entries: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let mut x = MARGIN;
        for (name, colour) in entries {
            self.dot((x + 4.0, 42.0), colour);
            self.text((x + 14.0, 46.0), Anchor::Start, 12.0, INK, name);
            x += 34.0 + 7.0 * name.chars().count() as f64;
        }
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for char in text.chars() {
        match char {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            char => out.push(char),
        }
    }
    out
}

/// A colour for each of several things, ours first; told apart by the colour-blind too.
pub(super) fn colour(at: usize) -> &'static str {
    const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"];
    COLOURS[at % COLOURS.len()]
}

pub(super) const INK: &str = "#222222";
pub(super) const GRID: &str = "#dddddd";
pub(super) const MARGIN: f64 = 16.0;

/// Where the drawing begins, below title and legend.
pub(super) const TOP: f64 = 76.0;
