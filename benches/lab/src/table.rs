//! Text table: cells padded to columns, for terminals and as Markdown.

use std::fmt::Write as _;

/// Rows of cells under one or more rows of headings. The first column is aligned left, the others right.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    headings: usize,
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// Without rows.
    #[must_use]
    pub fn new(heading: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::default().heading(heading)
    }

    /// With one more row of headings, before any other row.
    #[must_use]
    pub fn heading(mut self, cells: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.row(cells);
        self.headings = self.rows.len();
        self
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// For a terminal, with so many spaces between columns.
    #[must_use]
    pub fn text(&self, gap: usize) -> String {
        self.lines(gap).iter().fold(String::new(), |out, line| out + line + "\n")
    }

    /// The same with a rule under the headings.
    #[must_use]
    pub fn ruled_text(&self, gap: usize) -> String {
        let width = self.widths().iter().map(|width| width + gap).sum::<usize>() - gap;
        let mut lines = self.lines(gap);
        lines.insert(self.headings, "─".repeat(width));
        lines.iter().fold(String::new(), |out, line| out + line + "\n")
    }

    /// As Markdown, padded; every column is aligned right.
    #[must_use]
    pub fn markdown(&self) -> String {
        let widths = self.widths();
        let mut out = String::new();
        let mut line = |cells: &[String]| {
            for (cell, &width) in cells.iter().zip(&widths) {
                let _ = write!(out, "| {cell:>width$} ");
            }
            out.push_str("|\n");
        };
        for (at, row) in self.rows.iter().enumerate() {
            line(row);
            if at + 1 == self.headings {
                line(&widths.iter().map(|&width| format!("{:->1$}:", "", width - 1)).collect::<Vec<_>>());
            }
        }
        out
    }

    fn lines(&self, gap: usize) -> Vec<String> {
        let widths = self.widths();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).enumerate();
            let cells = cells.map(|(at, (cell, &width))| match at {
                0 => format!("{cell:<width$}"),
                _ => format!("{:gap$}{cell:>width$}", ""),
            });
            cells.collect::<String>().trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
        (0..columns).map(|at| width(at).unwrap_or(0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> TextTable {
        let mut table = TextTable::new(["policy", "µs"]).heading(["", "p99"]);
        table.row(["a", "1,234"]);
        table.row(["longer", "5"]);
        table
    }

    #[test]
    fn columns_line_up_in_a_terminal() {
        assert_eq!(table().text(2), "policy     µs\n          p99\na       1,234\nlonger      5\n");
        assert_eq!(table().ruled_text(1).lines().nth(2), Some("────────────"));
    }

    #[test]
    fn columns_line_up_in_markdown() {
        let mut table = TextTable::new(["pods", "ns"]);
        table.row(["8", "1,234"]);
        assert_eq!(table.markdown(), "| pods |    ns |\n| ---: | ----: |\n|    8 | 1,234 |\n");
    }
}
