//! From a value to a place on the sheet, and where the ticks are.

/// A scale between two places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    kind: Kind,
    from: f64,
    to: f64,
    /// Places of `from` and `to`.
    places: (f64, f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Linear,
    Log,
}

impl Scale {
    /// A logarithmic one that holds all of these values, with a little room; values above zero.
    pub(super) fn log(values: impl IntoIterator<Item = f64>, places: (f64, f64)) -> Self {
        let values = values.into_iter().filter(|value| value.is_finite() && *value > 0.0);
        let (from, to) = ends(values).unwrap_or((1.0, 10.0));
        Self { kind: Kind::Log, from: from / 1.15, to: to * 1.15, places }
    }

    /// A linear one from zero, or from below if a value is.
    pub(super) fn linear(values: impl IntoIterator<Item = f64>, places: (f64, f64)) -> Self {
        let (from, to) = ends(values.into_iter().filter(|value| value.is_finite())).unwrap_or((0.0, 1.0));
        Self { kind: Kind::Linear, from: from.min(0.0), to: if to > 0.0 { to * 1.08 } else { 1.0 }, places }
    }

    /// A linear one with these ends.
    pub(super) const fn linear_within((from, to): (f64, f64), places: (f64, f64)) -> Self {
        Self { kind: Kind::Linear, from, to, places }
    }

    /// A logarithmic one with these ends, above zero.
    pub(super) const fn log_within((from, to): (f64, f64), places: (f64, f64)) -> Self {
        Self { kind: Kind::Log, from, to, places }
    }

    /// Logarithmic if the values are above zero and far apart, linear otherwise.
    pub(super) fn fitting(values: &[f64], places: (f64, f64)) -> Self {
        match ends(values.iter().copied().filter(|value| value.is_finite())) {
            Some((from, to)) if from > 0.0 && to > FAR * from => Self::log(values.iter().copied(), places),
            _ => Self::linear(values.iter().copied(), places),
        }
    }

    /// Where a value lies; none for one that has no place between the ends.
    pub(super) fn place(&self, value: f64) -> Option<f64> {
        let share = match self.kind {
            Kind::Linear => (value - self.from) / (self.to - self.from),
            Kind::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        };
        // Rounding may put an end a little outside.
        let within = (-1e-9..=1.0 + 1e-9).contains(&share);
        within.then(|| self.places.0 + share.clamp(0.0, 1.0) * (self.places.1 - self.places.0))
    }

    /// Round values within, with their places.
    pub(super) fn ticks(&self) -> Vec<(f64, f64)> {
        let values: Vec<f64> = match self.kind {
            Kind::Linear => {
                let rough = (self.to - self.from) / 6.0;
                let decade = 10f64.powf(rough.log10().floor());
                let step =
                    [1.0, 2.0, 5.0, 10.0].into_iter().find(|times| times * decade >= rough).unwrap_or(10.0) * decade;
                let first = (self.from / step).ceil();
                (0..=10).map(|n| (first + f64::from(n)) * step).collect()
            }
            Kind::Log => {
                let (first, last) = (self.from.log10().floor() as i32, self.to.log10().ceil() as i32);
                let ratio = self.to / self.from;
                let steps: &[f64] = match ratio {
                    ratio if ratio > 2e3 => &[1.0],
                    ratio if ratio > 6.0 => &[1.0, 2.0, 5.0],
                    _ => &[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
                };
                (first..=last).flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade))).collect()
            }
        };
        values.into_iter().filter_map(|value| Some((value, self.place(value)?))).collect()
    }
}

impl Scale {
    /// Places between the ticks of a logarithmic scale, which show that it is one.
    pub(super) fn between_ticks(&self) -> Vec<f64> {
        if self.kind == Kind::Linear || self.to / self.from > 1e6 {
            return Vec::new();
        }
        let (first, last) = (self.from.log10().floor() as i32, self.to.log10().ceil() as i32);
        let all = (first..=last).flat_map(|decade| (2..10).map(move |step| f64::from(step) * 10f64.powi(decade)));
        all.filter_map(|value| self.place(value)).collect()
    }
}

/// A number in few characters: `300k`, `2.5M`, `0.5`.
pub(super) fn short(value: f64) -> String {
    let (number, unit) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{number:.2}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |ends, value| {
        Some(ends.map_or((value, value), |(from, to): (f64, f64)| (from.min(value), to.max(value))))
    })
}

/// How many times the least the greatest must be for a logarithmic scale.
const FAR: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_scale_places_by_ratio() {
        let scale = Scale::log([0.3, 3.0], (0.0, 100.0));
        assert!((scale.place(0.9_f64.sqrt()).expect("within") - 50.0).abs() < 1e-9);
        assert_eq!(scale.place(0.0), None);
        assert_eq!(scale.place(-1.0), None);
        assert_eq!(scale.ticks().iter().map(|(value, _)| *value).collect::<Vec<_>>(), [0.5, 1.0, 2.0]);
    }

    #[test]
    fn values_of_one_size_begin_at_zero() {
        let scale = Scale::fitting(&[3.0, 10.0, f64::NAN], (100.0, 0.0));
        assert_eq!(scale.place(0.0), Some(100.0));
        assert!(scale.place(10.0).is_some_and(|place| place > 0.0 && place < 20.0));
        assert!(Scale::fitting(&[], (0.0, 1.0)).place(0.5).is_some());
        assert!(Scale::fitting(&[1.0, 1e6], (0.0, 1.0)).place(0.0).is_none());
    }

    #[test]
    fn ticks_are_named_shortly() {
        assert_eq!([0.5, 1.0, 300_000.0, 2_500_000.0].map(short), ["0.5", "1", "300k", "2.5M"]);
    }
}
