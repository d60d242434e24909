//! How long programs pause between two turns, learned by kind, and how long a pause is worth keeping a context for.

/// Pauses of one kind: a histogram of half octaves that forgets.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    counts: [f32; BUCKETS],
    /// Programs that did not come back.
    over: f32,
}

impl Default for Gaps {
    fn default() -> Self {
        Self { counts: [0.0; BUCKETS], over: 0.0 }
    }
}

impl Gaps {
    /// A program came back after so many seconds.
    pub(super) fn back(&mut self, seconds: f64) {
        self.forget();
        self.counts[bucket(seconds)] += 1.0;
    }

    /// A program did not.
    pub(super) fn over(&mut self) {
        self.forget();
        self.over += 1.0;
    }

    fn forget(&mut self) {
        if self.counts.iter().sum::<f32>() + self.over >= REMEMBERED {
            self.counts.iter_mut().for_each(|count| *count *= 0.5);
            self.over *= 0.5;
        }
    }

    /// Seconds for which a context is kept, where all that the pod's cache holds takes so many seconds to compute.
    ///
    /// A context that is kept takes its share of the cache until its program is back. One that is not has to be computed again, which
    /// takes its share of those seconds. So of all times to give up after, the one is best at which the wait, and the seconds for those who
    /// come back later than that, are the fewest. Who never comes back costs the wait alone.
    pub(super) fn keep(&self, refill: f64) -> f64 {
        // Infinite, where a cache is as large as can be.
        let refill = refill.min(LONGEST);
        let back: f32 = self.counts.iter().sum();
        let all = f64::from(back + self.over);
        if all < LEAST_KNOWN {
            // Nothing is known: as for skis, to wait for as long as it would cost never costs more than twice what is best.
            return refill.min(upper(BUCKETS - 1));
        }
        let (mut best, mut keep) = (f64::from(back) * refill, 0.0);
        let (mut waited, mut later) = (0.0, f64::from(back));
        for (at, &count) in self.counts.iter().enumerate() {
            let count = f64::from(count);
            let (from, to) = (if at == 0 { 0.0 } else { upper(at - 1) }, upper(at));
            // Those who come within it wait half of it in the mean.
            waited += (to - from) * (later - count + f64::from(self.over) + count * 0.5);
            later -= count;
            let cost = waited + later.max(0.0) * refill;
            if cost < best {
                (best, keep) = (cost, to);
            }
        }
        keep
    }
}

/// Where pauses of a bucket end, in seconds.
fn upper(bucket: usize) -> f64 {
    SHORTEST * f64::exp2((bucket as f64 + 1.0) * 0.5)
}

fn bucket(seconds: f64) -> usize {
    // A cast from a float saturates, at 0 too.
    (((seconds / SHORTEST).log2() * 2.0) as usize).min(BUCKETS - 1)
}

/// From 10 ms to an hour and a half.
const SHORTEST: f64 = 0.01;
const BUCKETS: usize = 38;
/// Seconds that nothing takes longer than.
const LONGEST: f64 = 1e9;
/// Pauses that count in full at most.
const REMEMBERED: f32 = 4096.0;
/// Fewer say nothing.
const LEAST_KNOWN: f64 = 16.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pauses: &[(f64, usize)], over: usize) -> Gaps {
        let mut gaps = Gaps::default();
        pauses.iter().for_each(|&(seconds, times)| (0..times).for_each(|_| gaps.back(seconds)));
        (0..over).for_each(|_| gaps.over());
        gaps
    }

    #[test]
    fn short_pauses_are_waited_for_and_long_ones_are_not() {
        // Nine in ten are back within a second; for the tenth, ten minutes are too long whatever it costs to compute.
        let gaps = of(&[(1.0, 90), (600.0, 10)], 0);
        let keep = gaps.keep(60.0);
        assert!((1.0..2.0).contains(&keep), "{keep}");
        // Unless that takes an hour.
        assert!(gaps.keep(36_000.0) > 600.0);
        // What is computed at once is not kept at all.
        assert_eq!(gaps.keep(0.1), 0.0);
    }

    #[test]
    fn who_never_comes_back_is_waited_for_in_vain() {
        let (some, none) = (of(&[(30.0, 50)], 0).keep(40.0), of(&[(30.0, 50)], 500).keep(40.0));
        assert!((30.0..45.0).contains(&some) && none == 0.0, "{some} and {none}");
    }

    #[test]
    fn of_a_kind_that_is_not_known_what_it_costs_is_waited() {
        assert_eq!(Gaps::default().keep(25.0), 25.0);
        assert!(Gaps::default().keep(f64::INFINITY) < 10_000.0);
        assert!(of(&[(1.0, 90), (600.0, 10)], 0).keep(f64::INFINITY) > 600.0);
    }

    #[test]
    fn it_forgets() {
        let mut gaps = of(&[(100.0, 4_000)], 0);
        (0..20_000).for_each(|_| gaps.back(0.5));
        assert!(gaps.keep(60.0) < 1.0, "{}", gaps.keep(60.0));
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-9, 1e12] {
            gaps.back(seconds);
        }
        assert!(gaps.keep(60.0).is_finite());
    }
}
