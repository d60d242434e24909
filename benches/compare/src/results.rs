//! Tables of measurements: typed cells, as Markdown and as JSON.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::Range;

use pointsman_benches::measure::Spread;
use pointsman_lab::format::{grouped, significant};
use pointsman_lab::table::TextTable;
use serde::{Serialize, Serializer};

/// One value of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Value {
    /// Words.
    Text(String),
    /// A count that is exact.
    Count(usize),
    /// A number worth three digits.
    Number(f64),
    /// Repeated measurements.
    Spread(Spread),
    /// Not measured.
    Missing,
}

/// Values of each kind.
macro_rules! value_from {
    ($($from:ty => $kind:ident),*) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Self::$kind(value.into())
            }
        }
    )*};
}

value_from!(&str => Text, String => Text, usize => Count, f64 => Number, Spread => Spread);

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}

impl Value {
    /// Its size, or that of the middle of repeated measurements.
    #[must_use]
    pub const fn number(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
            Self::Spread(spread) => Some(spread.median),
            Self::Text(_) | Self::Missing => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Count(count) => f.write_str(&grouped(count)),
            Self::Number(number) => f.write_str(&significant(*number)),
            Self::Spread(s) => write!(f, "{} ({}..{})", significant(s.median), significant(s.min), significant(s.max)),
            Self::Missing => f.write_str("–"),
        }
    }
}

/// One table with what there is to say about it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ResultTable {
    /// Its name in JSON.
    pub id: Cow<'static, str>,
    /// The question it answers, and in which unit.
    pub title: String,
    /// Names of its columns.
    pub columns: Vec<String>,
    /// Its rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
    /// Summaries and disagreements.
    pub findings: Vec<String>,
}

impl ResultTable {
    /// An empty table.
    #[must_use]
    pub fn new(
        id: impl Into<Cow<'static, str>>,
        title: &str,
        columns: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { id: id.into(), title: title.to_owned(), columns, ..Self::default() }
    }

    /// Which column bears this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Leading columns that name a row: words, and counts that are exact.
    #[must_use]
    pub fn labels(&self) -> usize {
        let names = |at: usize| self.rows.iter().all(|row| matches!(row[at], Value::Text(_) | Value::Count(_)));
        (0..self.columns.len()).take_while(|&at| names(at)).count()
    }

    /// What some columns say of a row: `64 pods, 16 blocks, hit`.
    #[must_use]
    pub fn case(&self, row: &[Value], columns: Range<usize>) -> String {
        let label = |at: usize| match &row[at] {
            Value::Text(text) => text.clone(),
            number => format!("{number} {}", self.columns[at]),
        };
        columns.map(label).collect::<Vec<_>>().join(", ")
    }

    /// The table as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut table = TextTable::new(&self.columns);
        for row in &self.rows {
            table.row(row.iter().map(Value::to_string));
        }
        let mut out = format!("### {}\n\n{}", self.title, table.markdown());
        if !self.findings.is_empty() {
            out.push('\n');
        }
        for finding in &self.findings {
            let _ = writeln!(out, "- {finding}");
        }
        out
    }
}

/// Every table as one JSON document.
///
/// # Panics
///
/// Never: the names of columns are text.
#[must_use]
pub fn json(command: &str, tables: &[ResultTable]) -> String {
    let document = Document { command, tables: tables.iter().map(JsonTable::new).collect() };
    serde_json::to_string(&document).expect("keys are text") + "\n"
}

#[derive(Serialize)]
struct Document<'t> {
    command: &'t str,
    tables: Vec<JsonTable<'t>>,
}

#[derive(Serialize)]
struct JsonTable<'t> {
    id: &'t str,
    title: &'t str,
    rows: Vec<JsonRow<'t>>,
    findings: &'t [String],
}

impl<'t> JsonTable<'t> {
    fn new(table: &'t ResultTable) -> Self {
        let rows = table.rows.iter().map(|row| JsonRow(&table.columns, row)).collect();
        Self { id: &table.id, title: &table.title, rows, findings: &table.findings }
    }
}

/// A row's values by their columns, in order.
struct JsonRow<'t>(&'t [String], &'t [Value]);

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().zip(self.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_prints_as_markdown_and_json() {
        let mut table = ResultTable::new("t", "Who \"wins\"", ["who", "ns"]);
        let spread = Spread::of(vec![1234.0, 9.0, 1.0]);
        table.rows.push(vec!["ours".into(), spread.into()]);
        table.rows.push(vec!["theirs".into(), Value::Missing]);
        let markdown = table.markdown();
        assert!(markdown.contains("|   ours | 9.00 (1.00..1,234) |"), "{markdown}");
        assert!(markdown.contains("| -----: | -----------------: |"), "{markdown}");
        let json = json("compare", &[table]);
        assert!(json.contains(r#""title":"Who \"wins\"","rows":[{"who":"ours","ns":{"median":9.0,"#), "{json}");
        assert!(json.contains(r#"{"who":"theirs","ns":null}"#), "{json}");
    }
}
