//! Latency histogram with log-linear buckets: recorded without allocating, merged between threads, read as quantiles.
//!
//! The unit is the caller's: ns, unless said.
//!
//! The rule: a quantile is at most 1/64 above the true one, and never below.

/// Counts of latencies in buckets that widen with their size.
#[derive(Clone, Debug)]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    total: u64,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0 }
    }
}

impl LatencyHistogram {
    /// Counts one latency.
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Counts so many that took as long.
    pub fn record_many(&mut self, ns: u64, times: u64) {
        self.counts[bucket(ns)] += times;
        self.total += times;
    }

    /// Counts another table's too.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
    }

    /// How many were counted.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.total
    }

    /// Whether none was.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The latency in ns that this share of them stays within; nothing of nothing.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (self.total as f64 * share) as u64;
        let mut passed = 0;
        let at = self.counts.iter().position(|&count| {
            passed += count;
            passed > rank
        });
        at.or_else(|| self.counts.iter().rposition(|&count| count > 0)).map(|at| greatest(at) as f64)
    }
}

impl LatencyHistogram {
    /// The distribution's steps, from the shortest: a latency, and which share of them stays within it. The last share
    /// is 1; nothing of nothing.
    pub fn distribution(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let mut passed = 0;
        let full = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        full.map(move |(at, count)| {
            passed += count;
            (greatest(at) as f64, passed as f64 / self.total as f64)
        })
    }
}

/// Exact below [`FINE`]; above, every doubling is cut into [`FINE`] buckets.
fn bucket(ns: u64) -> usize {
    let ns = ns.min(LONGEST);
    let shift = (64 - ns.leading_zeros()).saturating_sub(FINE.trailing_zeros() + 1);
    shift as usize * FINE as usize + (ns >> shift) as usize
}

/// The greatest latency of a bucket.
fn greatest(bucket: usize) -> u64 {
    let shift = (bucket / FINE as usize).saturating_sub(1) as u64;
    let within = bucket as u64 - shift * FINE;
    ((within + 1) << shift) - 1
}

const FINE: u64 = 64;
const LONGEST: u64 = (1 << 40) - 1;
const BUCKETS: usize = FINE as usize * (40 - FINE.trailing_zeros() as usize + 1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_never_below_the_true_one_and_hardly_above() {
        let mut some = LatencyHistogram::default();
        let mut all: Vec<u64> = (0..5_000u64).map(|i| i * i % 7_919 + i * 1_000 * (i % 97)).collect();
        all.iter().for_each(|&ns| some.record(ns));
        all.sort_unstable();
        for share in [0.0, 0.1, 0.5, 0.99, 0.999, 1.0] {
            let truth = all[((all.len() as f64 * share) as usize).min(all.len() - 1)] as f64;
            let said = some.quantile(share).expect("there are some");
            assert!(said >= truth && said <= truth * (1.0 + 1.0 / 64.0) + 1.0, "{share}: {said} for {truth}");
        }
    }

    #[test]
    fn the_distribution_climbs_to_one_and_agrees_with_quantiles() {
        let mut some = LatencyHistogram::default();
        assert_eq!(some.distribution().next(), None);
        (0..3_000u64).for_each(|i| some.record(i * i % 50_021));
        some.record_many(7, 500);
        let points: Vec<(f64, f64)> = some.distribution().collect();
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "{points:?}");
        assert_eq!(points.last().map(|point| point.1), Some(1.0));
        for share in [0.1, 0.5, 0.9, 0.99] {
            let rank = (3_500.0 * share) as u64;
            let first = points.iter().find(|point| (point.1 * 3_500.0).round() as u64 > rank);
            assert_eq!(first.map(|point| point.0), some.quantile(share), "{share}");
        }
    }

    #[test]
    fn merged_tables_are_one() {
        let (mut left, mut right) = (LatencyHistogram::default(), LatencyHistogram::default());
        assert_eq!(left.quantile(0.5), None);
        left.record(10);
        right.record(30);
        right.record(u64::MAX);
        left.merge(&right);
        assert_eq!((left.len(), left.quantile(0.5)), (3, Some(30.0)));
        assert!(left.quantile(1.0) >= Some(LONGEST as f64));
    }
}
