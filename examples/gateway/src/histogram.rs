//! Histogram of durations with fixed buckets, as Prometheus has them: from 10 ms to 600 s, the longest request of the defaults.

use std::time::Duration;

/// Counts by bucket, and their sum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Histogram {
    /// One for each of [`BUCKETS`], and one beyond.
    counts: [u64; BUCKETS.len() + 1],
    micros: u64,
}

impl Histogram {
    pub(super) fn record(&mut self, duration: Duration) {
        self.counts[BUCKETS.iter().take_while(|bound| duration.as_secs_f64() > **bound).count()] += 1;
        self.micros = self.micros.saturating_add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
    }

    /// How many were at most as long as each bound, the last without one.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let bounds = BUCKETS.into_iter().map(Some).chain([None]);
        bounds.zip(self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn seconds(&self) -> f64 {
        self.micros as f64 / 1e6
    }
}

/// Upper bounds of the buckets, in seconds.
pub(super) const BUCKETS: [f64; 15] =
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_counts_in_every_bucket_from_its_own_on() {
        let mut histogram = Histogram::default();
        for seconds in [0.01, 0.02, 45.0, 599.0, 3600.0] {
            histogram.record(Duration::from_secs_f64(seconds));
        }
        let of = |bound| histogram.cumulative().find(|(known, _)| *known == bound).map(|(_, count)| count);
        assert_eq!(
            [Some(0.01), Some(0.025), Some(30.0), Some(60.0), Some(600.0), None].map(of),
            [1, 2, 2, 3, 4, 5].map(Some)
        );
        assert_eq!((histogram.count(), histogram.seconds().round()), (5, 4244.0));
    }
}
