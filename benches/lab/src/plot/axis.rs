//! What is drawn along an edge, and in which unit.

use super::scale::{Scale, short};

/// What values of an axis are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Numbers: `300k`.
    #[default]
    Plain,
    /// µs, written in what reads best: `20 ms`.
    Micros,
    /// Shares of 1, written as `20%`.
    Share,
}

impl Unit {
    /// A value in few characters.
    #[must_use]
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Plain => short(value),
            Self::Share => format!("{}%", trimmed(value * 100.0)),
            Self::Micros if value == 0.0 => "0".to_owned(),
            Self::Micros => {
                let (times, name) = match value.abs() {
                    size if size >= 1e6 => (1e-6, "s"),
                    size if size >= 1e3 => (1e-3, "ms"),
                    _ => (1.0, "µs"),
                };
                format!("{} {name}", trimmed(value * times))
            }
        }
    }
}

/// One edge of a picture: its name, its unit, and how values become places.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) each: bool,
    kind: Kind,
    range: Option<(f64, f64)>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Linear,
    Log,
    Fitting,
}

impl Axis {
    /// From zero, linear.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), unit: Unit::Plain, each: false, kind: Kind::Linear, range: None }
    }

    /// In this unit.
    #[must_use]
    pub const fn unit(mut self, unit: Unit) -> Self {
        self.unit = unit;
        self
    }

    /// By ratio: values above zero alone are drawn.
    #[must_use]
    pub const fn log(mut self) -> Self {
        self.kind = Kind::Log;
        self
    }

    /// By ratio if the values are all above zero and far apart.
    #[must_use]
    pub const fn fitting(mut self) -> Self {
        self.kind = Kind::Fitting;
        self
    }

    /// From here to there, whatever the values; others are not drawn.
    #[must_use]
    pub const fn within(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }

    /// With a tick at each value that there is, in place of round ones.
    #[must_use]
    pub const fn at_each_value(mut self) -> Self {
        self.each = true;
        self
    }

    /// The scale that holds these values.
    pub(super) fn scale(&self, values: &[f64], places: (f64, f64)) -> Scale {
        let all = values.iter().copied();
        match (self.range, self.kind) {
            (Some(range), Kind::Log) => Scale::log_within(range, places),
            (Some(range), _) => Scale::linear_within(range, places),
            (None, Kind::Linear) => Scale::linear(all, places),
            (None, Kind::Log) => Scale::log(all, places),
            (None, Kind::Fitting) => Scale::fitting(values, places),
        }
    }

    /// Ticks: where, and what stands there. Those of each value leave out what would stand on another.
    pub(super) fn ticks(&self, scale: &Scale, values: &[f64]) -> Vec<(f64, String)> {
        let round = || scale.ticks().into_iter().map(|(value, place)| (place, self.unit.format(value))).collect();
        if !self.each {
            return round();
        }
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.dedup();
        let mut ticks: Vec<(f64, String)> = Vec::new();
        for value in sorted {
            let Some(place) = scale.place(value) else { continue };
            let text = self.unit.format(value);
            let room = 7.0 * text.chars().count().max(2) as f64 + 6.0;
            if ticks.last().is_none_or(|(last, _)| (place - last).abs() >= room) {
                ticks.push((place, text));
            }
        }
        if ticks.is_empty() { round() } else { ticks }
    }
}

fn trimmed(value: f64) -> String {
    let text = if value.abs() >= 100.0 || value == 0.0 {
        format!("{value:.0}")
    } else if value.abs() >= 0.1 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_what_reads_best() {
        assert_eq!(
            [0.0, 200.0, 20_000.0, 1_500_000.0].map(|us| Unit::Micros.format(us)),
            ["0", "200 µs", "20 ms", "1.5 s"]
        );
        assert_eq!([0.0, 0.125, 0.001, 1.0].map(|share| Unit::Share.format(share)), ["0%", "12.5%", "0.1%", "100%"]);
        assert_eq!(Unit::Plain.format(2_500_000.0), "2.5M");
    }

    #[test]
    fn ticks_at_each_value_do_not_stand_on_each_other() {
        let axis = Axis::new("weight").at_each_value();
        let values = [0.0, 0.001, 0.5, 1.0, 1.0, f64::NAN];
        let scale = axis.scale(&values, (0.0, 300.0));
        let names: Vec<String> = axis.ticks(&scale, &values).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["0", "0.5", "1"]);
    }
}
