//! Progress bar on standard error; without a terminal, a line every tenth of the way.

use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// How far a run has come.
#[derive(Debug)]
pub struct Progress<W> {
    out: W,
    style: Style,
    total: usize,
    /// Steps of the way last shown: percent on a bar, tenths as lines.
    shown: Option<usize>,
}

impl Progress<std::io::Stderr> {
    /// Progress to `total` on standard error.
    #[must_use]
    pub fn on_stderr(total: usize) -> Self {
        let out = std::io::stderr();
        let style = if out.is_terminal() { Style::Bar } else { Style::Lines };
        Self::new(out, style, total)
    }
}

impl<W: Write> Progress<W> {
    /// Progress to `total`, drawn to `out`.
    pub fn new(out: W, style: Style, total: usize) -> Self {
        Self { out, style, total: total.max(1), shown: None }
    }

    /// Draws how much is `done` and what is being done, if that has changed enough. Nothing depends on whether it can be drawn.
    pub fn show(&mut self, done: usize, doing: impl Display) {
        let steps = match self.style {
            Style::Bar => 100,
            Style::Lines => 10,
        };
        let step = done.min(self.total) * steps / self.total;
        if self.shown == Some(step) {
            return;
        }
        self.shown = Some(step);
        let _ = match self.style {
            Style::Bar => self.bar(step, &doing),
            Style::Lines if step == 0 => Ok(()),
            Style::Lines => writeln!(self.out, "{:>3}%  {}", step * 10, doing),
        };
    }

    /// Leaves a bar's line.
    pub fn end(&mut self) {
        if self.style == Style::Bar && self.shown.is_some() {
            let _ = writeln!(self.out);
        }
    }

    fn bar(&mut self, percent: usize, doing: &dyn Display) -> std::io::Result<()> {
        let filled = percent * WIDTH / 100;
        write!(self.out, "\r[{:<WIDTH$}] {percent:>3}%  {} ", "#".repeat(filled), doing)?;
        self.out.flush()
    }
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Style {
    /// One line, drawn over and over.
    Bar,
    /// A line every tenth of the way.
    Lines,
}

const WIDTH: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(style: Style) -> String {
        let mut out = Vec::new();
        let mut progress = Progress::new(&mut out, style, 1_000);
        for done in 0..=1_000 {
            progress.show(done, format_args!("{done} requests"));
        }
        progress.end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_file_gets_ten_lines() {
        let text = drawn(Style::Lines);
        assert_eq!(text.lines().count(), 10);
        assert!(text.starts_with(" 10%  100 requests"));
        assert!(text.ends_with("100%  1000 requests\n"));
    }

    #[test]
    fn a_terminal_gets_one_line_that_is_drawn_over() {
        let text = drawn(Style::Bar);
        assert_eq!((text.matches('\r').count(), text.matches('\n').count()), (101, 1));
    }
}
