//! Axis: its name, its unit, and its scale, linear or logarithmic.

use std::ops::Range;

use crate::format::Unit;

/// One axis of a chart, from zero and linear unless said.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(super) name: String,
    unit: Unit,
    kind: Kind,
    range: Option<Range<f64>>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Linear,
    /// Ticks at the powers of this number.
    Log(f64),
    Fitting,
}

impl Axis {
    /// From zero, linear.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), unit: Unit::Plain, kind: Kind::Linear, range: None }
    }

    /// In this unit.
    #[must_use]
    pub fn unit(self, unit: Unit) -> Self {
        Self { unit, ..self }
    }

    /// Logarithmic, with ticks at the powers of `base`: values above zero alone are drawn.
    #[must_use]
    pub fn log(self, base: f64) -> Self {
        Self { kind: Kind::Log(base), ..self }
    }

    /// Logarithmic if the values are all above zero and far apart.
    #[must_use]
    pub fn fitting(self) -> Self {
        Self { kind: Kind::Fitting, ..self }
    }

    /// From here to there, whatever the values; others are not drawn.
    #[must_use]
    pub fn within(self, from: f64, to: f64) -> Self {
        Self { range: Some(from..to), ..self }
    }

    /// The scale that holds these values.
    pub(super) fn scale(&self, values: impl Iterator<Item = f64>) -> Scale {
        let finite: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let least = |floor: f64| finite.iter().copied().filter(|value| *value > floor).fold(f64::INFINITY, f64::min);
        let most = finite.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let base = match self.kind {
            Kind::Linear => None,
            Kind::Log(base) => Some(base),
            Kind::Fitting => {
                let lowest = least(f64::NEG_INFINITY);
                (lowest > 0.0 && most > FAR * lowest && !finite.is_empty()).then_some(10.0)
            }
        };
        let range = match (&self.range, base) {
            (Some(range), Some(base)) => range.start.log(base)..range.end.log(base),
            (Some(range), None) => range.clone(),
            (None, Some(base)) if most > 0.0 => {
                let (from, to) = (least(0.0).log(base).floor(), most.log(base).ceil());
                from..to.max(from + 1.0)
            }
            (None, Some(_)) => 0.0..1.0,
            (None, None) => least(f64::NEG_INFINITY).min(0.0)..if most > 0.0 { most * 1.08 } else { 1.0 },
        };
        Scale { range, base, unit: self.unit }
    }
}

/// From a value to its coordinate, which a linear axis of `plotters` draws.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) range: Range<f64>,
    base: Option<f64>,
    unit: Unit,
}

impl Scale {
    /// The coordinate of a value, if it has one.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let place = self.base.map_or(value, |base| value.log(base));
        let slack = (self.range.end - self.range.start) * 1e-9;
        (self.range.start - slack..=self.range.end + slack).contains(&place).then_some(place)
    }

    /// The value at a coordinate, for readers.
    pub(super) fn label(&self, place: f64) -> String {
        self.unit.format(self.base.map_or(place, |base| base.powf(place)))
    }

    /// At most so many ticks: a logarithmic scale has them at whole powers.
    pub(super) fn ticks(&self) -> usize {
        if self.base.is_some() { (self.range.end - self.range.start).ceil() as usize + 1 } else { 8 }
    }
}

/// How many times the least the greatest must be for a logarithmic scale.
const FAR: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_scale_places_by_ratio() {
        let scale = Axis::new("").log(10.0).scale([0.3, 3.0].into_iter());
        assert_eq!((scale.range.clone(), scale.place(1.0)), (-1.0..1.0, Some(0.0)));
        assert_eq!((scale.place(0.0), scale.place(-1.0), scale.label(-1.0)), (None, None, "0.1".to_owned()));
        let halves = Axis::new("").log(2.0).scale([0.8, 5.0].into_iter());
        assert_eq!((halves.range.clone(), halves.ticks()), (-1.0..3.0, 5));
    }

    #[test]
    fn values_of_one_size_begin_at_zero() {
        let scale = Axis::new("").fitting().scale([3.0, 10.0, f64::NAN].into_iter());
        assert_eq!((scale.place(0.0), scale.place(10.0)), (Some(0.0), Some(10.0)));
        assert!(Axis::new("").fitting().scale([].into_iter()).place(0.5).is_some());
        assert!(Axis::new("").fitting().scale([1.0, 1e6].into_iter()).place(0.0).is_none());
    }
}
