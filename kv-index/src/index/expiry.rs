//! Expiry deadlines: when each pod's next speculated block expires, readable without its lock.

use std::time::{Duration, Instant};

use crate::pods::{PodId, PodSet};
use crate::sync::{AtomicU64, OnceLock, Ordering};

/// When each pod's next expiry is due, counted from the first deadline there ever was.
///
/// Written under the pod's lock, read without: a reader that is late asks again at its next call.
#[derive(Debug)]
pub(crate) struct Expiry {
    epoch: OnceLock<Instant>,
    /// By pod; [`NEVER`] where nothing is speculated.
    ticks: Box<[AtomicU64]>,
}

impl Expiry {
    pub(crate) fn new(pods: usize) -> Self {
        Self { epoch: OnceLock::new(), ticks: (0..pods).map(|_| AtomicU64::new(NEVER)).collect() }
    }

    /// Notes a pod's next expiry. The pod's lock is held.
    pub(crate) fn set(&self, pod: PodId, deadline: Option<Instant>) {
        let tick = deadline.map_or(NEVER, |deadline| since(*self.epoch.get_or_init(|| deadline), deadline));
        if let Some(place) = self.ticks.get(pod.index()) {
            // Relaxed: it says only whether to take the lock, under which the truth is.
            place.store(tick, Ordering::Relaxed);
        }
    }

    /// A time to compare with; none while nothing was ever speculated.
    pub(crate) fn tick(&self, now: Instant) -> Option<u64> {
        Some(since(*self.epoch.get()?, now))
    }

    /// Those of some pods that are due.
    #[inline]
    pub(crate) fn due<const WORDS: usize>(&self, pods: PodSet<WORDS>, now: u64) -> PodSet<WORDS> {
        let mut words = *pods.words();
        // A word at a time, so that it stays in a register: every decision asks, and mostly nobody is due.
        for (word, ticks) in words.iter_mut().zip(self.ticks.chunks(64)) {
            let mut asked = *word;
            while asked != 0 {
                let bit = asked & asked.wrapping_neg();
                let tick = ticks.get(asked.trailing_zeros() as usize);
                if tick.is_none_or(|tick| tick.load(Ordering::Relaxed) > now) {
                    *word ^= bit;
                }
                asked ^= bit;
            }
        }
        PodSet::from_words(words)
    }
}

/// Nanoseconds, those before the epoch too; in the order of time.
fn since(epoch: Instant, instant: Instant) -> u64 {
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(NEVER).min(EPOCH - 1);
    match instant.checked_duration_since(epoch) {
        Some(after) => EPOCH + nanos(after) - 1,
        None => EPOCH - 1 - nanos(epoch.saturating_duration_since(instant)),
    }
}

const EPOCH: u64 = 1 << 63;

/// Later than any time: [`since`] stays below it.
const NEVER: u64 = u64::MAX;

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use super::*;
    use crate::model::origin;

    #[test]
    fn ticks_are_in_the_order_of_time() {
        let epoch = origin() + Duration::from_secs(3600);
        let at = |millis: i64| {
            let span = Duration::from_millis(millis.unsigned_abs());
            if millis < 0 { epoch - span } else { epoch + span }
        };
        let ticks = [-3_000_000, -1, 0, 1, 2_000, 500_000_000_000].map(|millis| since(epoch, at(millis)));
        assert!(ticks.is_sorted_by(|a, b| a < b), "{ticks:?}");
        assert!(ticks[5] < NEVER);
    }

    #[test]
    fn a_pod_is_due_from_its_deadline_on_and_never_without_one() {
        let (due, pod, now) = (Expiry::new(2), PodId::new(1), origin());
        assert_eq!(due.tick(now), None);
        due.set(pod, Some(now));
        let tick = |nanos| due.tick(now + Duration::from_nanos(nanos)).expect("there was a deadline");
        due.set(pod, Some(now + Duration::from_nanos(5)));
        let both: PodSet<1> = [PodId::new(0), pod].into_iter().collect();
        let is_due = |now| due.due(both, now).iter().collect::<Vec<_>>();
        assert_eq!([4, 5, 6].map(|nanos| is_due(tick(nanos))), [vec![], vec![pod], vec![pod]]);
        assert!(due.due(PodSet::<1>::EMPTY, tick(6)).is_empty(), "nobody else is asked");
        due.set(pod, None);
        assert!(is_due(u64::MAX - 1).is_empty());
    }
}
