//! Tables of measurements: typed cells, as Markdown and as JSON.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use pointsman_benches::measure::Spread;
use pointsman_lab::format::{grouped, significant};
use pointsman_lab::table::TextTable;

/// One value of a table.
#[derive(Clone, Debug, PartialEq)]
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

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Spread> for Value {
    fn from(spread: Spread) -> Self {
        Self::Spread(spread)
    }
}

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

    /// Where a row stands, in the words of the first `labels` columns: `64 pods, 16 blocks, hit`.
    #[must_use]
    pub fn case(&self, row: &[Value], labels: usize) -> String {
        let label = |(value, column): (&Value, &String)| match value {
            Value::Text(text) => text.clone(),
            number => format!("{number} {column}"),
        };
        row.iter().zip(&self.columns).take(labels).map(label).collect::<Vec<_>>().join(", ")
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

    fn json(&self, out: &mut String) {
        let _ = write!(out, "{{\"id\":{},\"title\":{},\"rows\":[", quoted(&self.id), quoted(&self.title));
        for (i, row) in self.rows.iter().enumerate() {
            out.push_str(if i == 0 { "{" } else { ",{" });
            for (j, (name, value)) in self.columns.iter().zip(row).enumerate() {
                let comma = if j == 0 { "" } else { "," };
                let _ = write!(out, "{comma}{}:{}", quoted(name), json_value(value));
            }
            out.push('}');
        }
        let findings: Vec<String> = self.findings.iter().map(|finding| quoted(finding)).collect();
        let _ = write!(out, "],\"findings\":[{}]}}", findings.join(","));
    }
}

/// Every table as one JSON document.
#[must_use]
pub fn json(command: &str, tables: &[ResultTable]) -> String {
    let mut out = format!("{{\"command\":{},\"tables\":[", quoted(command));
    for (i, table) in tables.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        table.json(&mut out);
    }
    out.push_str("]}\n");
    out
}

fn json_value(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Count(count) => count.to_string(),
        Value::Number(number) => json_number(*number),
        Value::Spread(Spread { median, min, max }) => {
            let [median, min, max] = [median, min, max].map(|number| json_number(*number));
            format!("{{\"median\":{median},\"min\":{min},\"max\":{max}}}")
        }
        Value::Missing => "null".to_owned(),
    }
}

fn json_number(number: f64) -> String {
    if number.is_finite() { format!("{number:.4}") } else { "null".to_owned() }
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            char if char < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out.push('"');
    out
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
        assert!(json.contains(r#""title":"Who \"wins\"","rows":[{"who":"ours","ns":{"median":9.0000"#), "{json}");
        assert!(json.contains(r#"{"who":"theirs","ns":null}"#), "{json}");
    }
}
