//! Python semantics for chat templates: printing, `json.dumps`, `strftime`, the `generation` tag.

use std::fmt::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::value::{Value, ValueKind};

/// Writes a value as `str()` does.
pub(super) fn write_str(out: &mut dyn Write, value: &Value) -> fmt::Result {
    match value.as_str() {
        Some(text) => out.write_str(text),
        None => write_repr(out, value),
    }
}

/// Writes a value as `repr()` does, but for what is undefined: that is nothing, as in Jinja.
fn write_repr(out: &mut dyn Write, value: &Value) -> fmt::Result {
    match value.kind() {
        ValueKind::Undefined => Ok(()),
        ValueKind::None => out.write_str("None"),
        ValueKind::Bool => out.write_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => write_number(out, value, ["nan", "inf", "-inf"]),
        ValueKind::String => write_quoted(out, value.as_str().unwrap_or_default()),
        ValueKind::Seq | ValueKind::Iterable => {
            out.write_char('[')?;
            for (at, element) in value.try_iter().into_iter().flatten().enumerate() {
                out.write_str(if at > 0 { ", " } else { "" })?;
                write_repr(out, &element)?;
            }
            out.write_char(']')
        }
        ValueKind::Map => {
            out.write_char('{')?;
            for (at, key) in value.try_iter().into_iter().flatten().enumerate() {
                out.write_str(if at > 0 { ", " } else { "" })?;
                write_repr(out, &key)?;
                out.write_str(": ")?;
                write_repr(out, &value.get_item(&key).unwrap_or_default())?;
            }
            out.write_char('}')
        }
        _ => write!(out, "{value}"),
    }
}

/// A string in quotes: single ones, unless only those are in it.
fn write_quoted(out: &mut dyn Write, text: &str) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for char in text.chars() {
        match char {
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\\' => out.write_str("\\\\")?,
            char if char == quote => write!(out, "\\{quote}")?,
            char if char.is_control() => write!(out, "\\x{:02x}", u32::from(char))?,
            char => out.write_char(char)?,
        }
    }
    out.write_char(quote)
}

/// A number: whole ones as they are, others in the fewest digits that give them back, with an exponent where Python
/// turns to one.
fn write_number(out: &mut dyn Write, value: &Value, [nan, inf, minus_inf]: [&str; 3]) -> fmt::Result {
    if value.is_integer() {
        return write!(out, "{value}");
    }
    let number = f64::try_from(value.clone()).unwrap_or(f64::NAN);
    if number.is_nan() {
        return out.write_str(nan);
    }
    if number.is_infinite() {
        return out.write_str(if number > 0.0 { inf } else { minus_inf });
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return write!(out, "{digits}e{sign}{:02}", exponent.abs());
    }
    write!(out, "{number}")?;
    out.write_str(if number.fract() == 0.0 { ".0" } else { "" })
}

/// The options of `json.dumps` that templates use.
#[derive(Debug, Default)]
pub(super) struct Json {
    pub(super) indent: Option<usize>,
    pub(super) separators: Option<Vec<String>>,
    pub(super) ensure_ascii: bool,
    pub(super) sort_keys: bool,
}

impl Json {
    pub(super) fn dump(&self, value: &Value) -> String {
        let mut out = String::new();
        // Writing to a string does not fail.
        let _ = self.write(&mut out, value, 1);
        out
    }

    fn write(&self, out: &mut String, value: &Value, depth: usize) -> fmt::Result {
        match value.kind() {
            ValueKind::Bool => out.write_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => write_number(out, value, ["NaN", "Infinity", "-Infinity"]),
            ValueKind::String => self.write_string(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let elements: Vec<Value> = value.try_iter().into_iter().flatten().collect();
                self.write_all(out, ['[', ']'], &elements, depth, |out, element| self.write(out, element, depth + 1))
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter().into_iter().flatten().collect();
                if self.sort_keys {
                    keys.sort();
                }
                self.write_all(out, ['{', '}'], &keys, depth, |out, key| {
                    self.write_string(out, &key.to_string())?;
                    out.write_str(self.separator(1).unwrap_or(": "))?;
                    self.write(out, &value.get_item(key).unwrap_or_default(), depth + 1)
                })
            }
            _ => out.write_str("null"),
        }
    }

    fn write_all(
        &self,
        out: &mut String,
        [open, close]: [char; 2],
        items: &[Value],
        depth: usize,
        mut write: impl FnMut(&mut String, &Value) -> fmt::Result,
    ) -> fmt::Result {
        out.push(open);
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                out.push_str(self.separator(0).unwrap_or(if self.indent.is_some() { "," } else { ", " }));
            }
            self.break_line(out, depth);
            write(out, item)?;
        }
        if !items.is_empty() {
            self.break_line(out, depth - 1);
        }
        out.push(close);
        Ok(())
    }

    fn break_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent.min(MOST_INDENT) * depth));
        }
    }

    fn separator(&self, at: usize) -> Option<&str> {
        self.separators.as_ref()?.get(at).map(String::as_str)
    }

    fn write_string(&self, out: &mut String, text: &str) -> fmt::Result {
        for char in serde_json::Value::from(text).to_string().chars() {
            if char.is_ascii() || !self.ensure_ascii {
                out.push(char);
                continue;
            }
            for unit in char.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

/// Formats a time in UTC. Directives that are not known stay as they are.
pub(super) fn strftime(time: SystemTime, format: &str) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let nth = |names: &'static str, at: u64| names.split(' ').nth(at as usize).unwrap_or_default();
    let (month_name, week_day) = (nth(MONTHS, month - 1), nth(DAYS, days % 7));
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        // Writing to a string does not fail.
        let _ = match chars.next() {
            Some('Y') => write!(out, "{year}"),
            Some('y') => write!(out, "{:02}", year % 100),
            Some('m') => write!(out, "{month:02}"),
            Some('d') => write!(out, "{day:02}"),
            Some('e') => write!(out, "{day:2}"),
            Some('b') => out.write_str(&month_name[..3]),
            Some('B') => out.write_str(month_name),
            Some('a') => out.write_str(&week_day[..3]),
            Some('A') => out.write_str(week_day),
            Some('H') => write!(out, "{:02}", clock / 3_600),
            Some('M') => write!(out, "{:02}", clock / 60 % 60),
            Some('S') => write!(out, "{:02}", clock % 60),
            Some('%') | None => out.write_char('%'),
            Some(other) => write!(out, "%{other}"),
        };
    }
    out
}

/// Year, month and day of a day since 1970, in the Gregorian calendar: whole cycles of 400 years, each begun in March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (cycle, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (in_march, month_day) = (if month < 10 { month + 3 } else { month - 9 }, day - (153 * month + 2) / 5 + 1);
    (cycle * 400 + year + u64::from(in_march <= 2), in_march, month_day)
}

/// Turns `{% generation %}`, which marks what is trained on and prints nothing, into a block that Jinja knows.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let end = tag.find("%}").map_or(tag.len(), |end| end + 2);
        let (tag, after) = tag.split_at(end);
        let word = tag.trim_start_matches("{%").trim_end_matches("%}").trim_matches(['-', '+']).trim();
        match word {
            "generation" => out.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => out.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// No template indents further; a larger number would only fill the memory.
const MOST_INDENT: usize = 16;

const MONTHS: &str = "January February March April May June July August September October November December";
/// From the day that 1970 began with.
const DAYS: &str = "Thursday Friday Saturday Sunday Monday Tuesday Wednesday";
