//! A finished picture: a file of its own, or part of a page.
//!
//! The rule: it needs nothing from elsewhere.

use super::style;
use crate::html::escaped;

/// One picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    title: String,
    width: u32,
    height: u32,
    shapes: String,
}

impl Picture {
    pub(super) const fn new(title: String, (width, height): (u32, u32), shapes: String) -> Self {
        Self { title, width, height, shapes }
    }

    /// Its heading.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// As the text of an SVG file.
    #[must_use]
    pub fn svg(&self) -> String {
        self.within("xmlns=\"http://www.w3.org/2000/svg\" ", &format!("<style>{}</style>\n", style::rules()))
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
        let Self { title, width, height, shapes } = self;
        let title = escaped(title);
        format!(
            "<svg {namespace}viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" \
             aria-label=\"{title}\" font-family=\"system-ui, sans-serif\">\n{style}\
             <rect width=\"{width}\" height=\"{height}\" class=\"pm-sheet\"/>\n{shapes}</svg>\n"
        )
    }
}
