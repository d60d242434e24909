//! Number formatting: thousands separators, significant digits, SI suffixes, units.

use std::fmt::Display;

/// Digits with commas between thousands: `1,234,567`. Takes an integer, or a float written without decimals.
#[must_use]
pub fn grouped(number: impl Display) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three significant digits, or all of them before the point: `0.95`, `12.3`, `1,234`.
#[must_use]
pub fn significant(number: f64) -> String {
    match number.abs() {
        size if size >= 99.95 => grouped(format_args!("{number:.0}")),
        size if size >= 9.995 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A number in few characters, with an SI suffix: `300k`, `2.5M`, `0.5`.
#[must_use]
pub fn compact(number: f64) -> String {
    let (scaled, suffix) = match number.abs() {
        size if size >= 1e9 => (number / 1e9, "G"),
        size if size >= 1e6 => (number / 1e6, "M"),
        size if size >= 1e3 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    format!("{}{suffix}", trimmed(format!("{scaled:.2}")))
}

/// The unit of a quantity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Numbers: `300k`.
    #[default]
    Plain,
    /// µs, in the unit that reads best: `20 ms`.
    Micros,
    /// Shares of 1 as percentages: `20%`.
    Share,
}

impl Unit {
    /// A value in few characters.
    #[must_use]
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Plain => compact(value),
            Self::Share => format!("{}%", short(value * 100.0)),
            Self::Micros if value == 0.0 => "0".to_owned(),
            Self::Micros => {
                let (times, name) = match value.abs() {
                    size if size >= 1e6 => (1e-6, "s"),
                    size if size >= 1e3 => (1e-3, "ms"),
                    _ => (1.0, "µs"),
                };
                format!("{} {name}", short(value * times))
            }
        }
    }
}

fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 0.1 => trimmed(format!("{value:.2}")),
        _ => trimmed(format!("{value:.4}")),
    }
}

fn trimmed(text: String) -> String {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([-1, -100, -1_000].map(grouped), ["-1", "-100", "-1,000"]);
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        assert_eq!([0.954, 9.996, 12.34, 99.96, 1_234.5].map(significant), ["0.95", "10.0", "12.3", "100", "1,234"]);
        assert_eq!([0.5, 1.0, 300_000.0, 2_500_000.0].map(compact), ["0.5", "1", "300k", "2.5M"]);
    }

    #[test]
    fn values_are_written_in_the_unit_that_reads_best() {
        let micros = [0.0, 200.0, 20_000.0, 1_500_000.0].map(|us| Unit::Micros.format(us));
        assert_eq!(micros, ["0", "200 µs", "20 ms", "1.5 s"]);
        assert_eq!([0.0, 0.125, 0.001, 1.0].map(|share| Unit::Share.format(share)), ["0%", "12.5%", "0.1%", "100%"]);
        assert_eq!(Unit::Plain.format(2_500_000.0), "2.5M");
    }
}
