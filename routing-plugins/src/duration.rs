//! Durations with a unit, as Envoy and Kubernetes users write them: `250ms`, `30s`, `10m`, `1h`.
//!
//! A number without a unit is an error: seconds and milliseconds are mistaken for each other too easily.

use std::fmt;
use std::time::Duration;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};

/// For `#[serde(deserialize_with)]`.
///
/// # Errors
///
/// When it is none, or has no unit; the error says what to write.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    from.deserialize_any(DurationVisitor)
}

/// As it is written: for `#[serde(with)]`, beside [`deserialize`].
///
/// # Errors
///
/// Those of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
    let millis = duration.as_millis();
    match millis % 1000 {
        0 => to.collect_str(&format_args!("{}s", millis / 1000)),
        _ => to.collect_str(&format_args!("{millis}ms")),
    }
}

struct DurationVisitor;

impl Visitor<'_> for DurationVisitor {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with a unit, such as `250ms`, `30s`, `10m` or `1h`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Duration, E> {
        Err(E::custom(format_args!(
            "`{number}` has no unit: write `{number}s` for seconds or `{number}ms` for milliseconds"
        )))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Duration, E> {
        let millis = (number * 1000.0).round();
        Err(E::custom(format_args!("`{number}` has no unit: write `{millis}ms` for {number} seconds")))
    }
}

/// A whole or decimal number and a unit, nothing between.
fn parse(text: &str) -> Option<Duration> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    // Whole milliseconds: `0.1s` is 100 ms, not a nanosecond more.
    let millis = (number.parse::<f64>().ok()? * seconds * 1000.0).round();
    (millis <= MAX_MILLIS).then(|| Duration::from_millis(millis as u64))
}

/// The largest whole number that a float holds exactly; far above any limit that is checked later.
const MAX_MILLIS: f64 = 9_007_199_254_740_991.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_number_and_a_unit() {
        for (text, millis) in
            [("250ms", 250), ("30s", 30_000), ("0.1s", 100), ("1.5m", 90_000), ("1h", 3_600_000), ("0s", 0)]
        {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "30", "s", "-1s", "1 s", "1S", "1d", "1s2", ".s", "1.2.3s", "1e3s", "99999999999999999999h"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_without_a_unit_is_refused_with_the_right_form() {
        let read =
            |text: &str| super::deserialize(&mut serde_json::Deserializer::from_str(text)).unwrap_err().to_string();
        assert!(read("30").contains("write `30s` for seconds"), "{}", read("30"));
        assert!(read("0.25").contains("write `250ms`"), "{}", read("0.25"));
        assert!(read("\"soon\"").contains("such as `250ms`, `30s`"), "{}", read("\"soon\""));
        assert!(read("-1").contains("such as `250ms`, `30s`"), "{}", read("-1"));
    }
}
