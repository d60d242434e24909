//! A histogram with buckets that are given, as Prometheus has them.

/// Counts by bucket, and their sum.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one beyond.
    counts: Box<[u64]>,
    sum: f64,
}

impl Histogram {
    /// Upper bounds of the buckets, in their order.
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1].into(), sum: 0.0 }
    }

    pub(super) fn record(&mut self, value: f64) {
        self.counts[self.bounds.partition_point(|bound| *bound < value)] += 1;
        self.sum += value;
    }

    /// Adds what another with the same buckets has.
    pub(super) fn add(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
        self.sum += other.sum;
    }

    /// How many were at most each bound, the last without one.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        bounds.zip(&self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_counts_in_every_bucket_from_its_own_on() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        [0.5, 1.0, 1.5, 9.0].iter().for_each(|value| histogram.record(*value));
        let mut twice = histogram.clone();
        twice.add(&histogram);
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(Some(1.0), 2), (Some(2.0), 3), (None, 4)]);
        assert_eq!((twice.count(), twice.sum()), (8, 24.0));
    }
}
