//! Axis: its name, its unit, and its scale, linear or logarithmic.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;

use crate::format::Unit;

/// One axis of a chart.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(super) name: String,
    unit: Unit,
    each: bool,
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

    /// Logarithmic: values above zero alone are drawn.
    #[must_use]
    pub const fn log(mut self) -> Self {
        self.kind = Kind::Log;
        self
    }

    /// Logarithmic if the values are all above zero and far apart.
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
    pub(super) fn scale(&self, values: impl IntoIterator<Item = f64>) -> Scale {
        let mut values: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let ends = |values: &[f64]| Some((*values.first()?, *values.last()?));
        let log = match self.kind {
            Kind::Linear => false,
            Kind::Log => true,
            Kind::Fitting => ends(&values).is_some_and(|(least, most)| least > 0.0 && most > FAR * least),
        };
        let above_zero = values.partition_point(|value| *value <= 0.0);
        let range = match (self.range, log) {
            (Some((from, to)), _) => from..to,
            (None, true) => ends(&values[above_zero..]).map_or(1.0..10.0, |(from, to)| from / 1.15..to * 1.15),
            (None, false) => {
                let (from, to) = ends(&values).unwrap_or((0.0, 1.0));
                from.min(0.0)..if to > 0.0 { to * 1.08 } else { 1.0 }
            }
        };
        let ticks = if self.each { values } else { Vec::new() };
        let mut scale = Scale { range, log, unit: self.unit, ticks };
        scale.thin_ticks();
        scale
    }
}

/// From a value to its place; a one-dimensional coordinate of `plotters`.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    range: Range<f64>,
    log: bool,
    unit: Unit,
    /// Where ticks are; round values if this is empty.
    ticks: Vec<f64>,
}

impl Scale {
    /// Whether a value has a place.
    pub(super) fn holds(&self, value: f64) -> bool {
        // Rounding may put an end a little outside.
        (-1e-9..=1.0 + 1e-9).contains(&self.share(value))
    }

    pub(super) const fn start(&self) -> f64 {
        self.range.start
    }

    fn share(&self, value: f64) -> f64 {
        let Range { start, end } = self.range;
        if self.log { (value / start).ln() / (end / start).ln() } else { (value - start) / (end - start) }
    }

    /// Leaves out ticks whose names would stand on the one before.
    fn thin_ticks(&mut self) {
        for value in std::mem::take(&mut self.ticks) {
            if !self.holds(value) {
                continue;
            }
            let room = 0.012 * self.unit.format(value).chars().count().max(2) as f64 + 0.01;
            if self.ticks.last().is_none_or(|last| self.share(value) - self.share(*last) >= room) {
                self.ticks.push(value);
            }
        }
    }

    /// Round values of a logarithmic scale: decades, or parts of them where there are few.
    fn log_ticks(&self, all: bool) -> Vec<f64> {
        let Range { start, end } = self.range;
        let steps: &[f64] = match end / start {
            ratio if all && ratio < 1e6 => &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
            ratio if ratio > 2e3 => &[1.0],
            ratio if ratio > 6.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        };
        let decades = start.log10().floor() as i32..=end.log10().ceil() as i32;
        let values = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        values.filter(|value| self.holds(*value)).collect()
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.share(*value).clamp(0.0, 1.0) * f64::from(to - from)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, hint: H) -> Vec<f64> {
        match (self.ticks.is_empty(), self.log) {
            (false, _) => self.ticks.clone(),
            (true, true) => self.log_ticks(hint.weight().allow_light_points()),
            // Lines between ticks show that a scale is logarithmic; this one is not.
            (true, false) if hint.weight().allow_light_points() => Vec::new(),
            (true, false) => RangedCoordf64::from(self.range.clone()).key_points(hint),
        }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        self.unit.format(*value)
    }
}

/// How many times the least the greatest must be for a logarithmic scale.
const FAR: f64 = 20.0;

#[cfg(test)]
mod tests {
    use plotters::coord::ranged1d::BoldPoints;

    use super::*;

    #[test]
    fn a_log_scale_places_by_ratio() {
        let scale = Axis::new("").log().scale([0.3, 3.0]);
        assert_eq!(scale.map(&0.9_f64.sqrt(), (0, 100)), 50);
        assert!(!scale.holds(0.0) && !scale.holds(-1.0));
        assert_eq!(scale.key_points(BoldPoints(10)), [0.5, 1.0, 2.0]);
    }

    #[test]
    fn values_of_one_size_begin_at_zero() {
        let scale = Axis::new("").fitting().scale([3.0, 10.0, f64::NAN]);
        assert_eq!(scale.map(&0.0, (100, 0)), 100);
        assert!((0..20).contains(&scale.map(&10.0, (100, 0))));
        assert!(Axis::new("").fitting().scale([]).holds(0.5));
        assert!(!Axis::new("").fitting().scale([1.0, 1e6]).holds(0.0));
    }

    #[test]
    fn ticks_at_each_value_do_not_stand_on_each_other() {
        let scale = Axis::new("weight").at_each_value().scale([0.0, 0.001, 0.5, 1.0, 1.0, f64::NAN]);
        assert_eq!(scale.key_points(BoldPoints(10)), [0.0, 0.5, 1.0]);
    }
}
