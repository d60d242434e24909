//! Round-robin order over a changing set of pods: the least recently chosen one is next.

use std::sync::atomic::{AtomicU64, Ordering};

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};

/// When each pod was last chosen, counted in turns.
///
/// A turn goes to the candidate whose last turn is longest ago. For one set of candidates that is plain rotation. When
/// pods come and go, or requests differ in who may serve them, nobody is passed over: a bare counter would then jump, and
/// two kinds of requests in step could leave a pod out for ever.
///
/// Two calls never take the same turn: whoever is second sees the first one's pod as just served.
#[derive(Debug)]
pub struct RoundRobinOrder<const W: usize = DEFAULT_POD_WORDS> {
    next: AtomicU64,
    /// By pod; 0 for one that had no turn.
    last: Box<[AtomicU64]>,
}

impl<const W: usize> RoundRobinOrder<W> {
    /// Nobody had a turn.
    #[must_use]
    pub fn new() -> Self {
        let last = (0..PodSet::<W>::CAPACITY).map(|_| AtomicU64::new(0)).collect();
        Self { next: AtomicU64::new(1), last }
    }

    /// Gives the next turn to one of these pods; none if there are none.
    pub(super) fn take(&self, pods: PodSet<W>) -> Option<PodId> {
        loop {
            let (last, pod) = pods.iter().map(|pod| (self.last(pod), pod)).min()?;
            let turn = self.next.fetch_add(1, Ordering::Relaxed);
            // Turns of a pod only grow, so an unchanged one is still the lowest of all that were read. Release: whoever sees
            // this turn counts on from it; pairs with `last`.
            let place = self.last.get(pod.index())?;
            if place.compare_exchange(last, turn, Ordering::Release, Ordering::Relaxed).is_ok() {
                return Some(pod);
            }
        }
    }

    /// A pod's last turn.
    #[inline]
    pub(super) fn last(&self, pod: PodId) -> u64 {
        // Acquire: a turn drawn after this is later than the one that is read; pairs with `take`.
        self.last.get(pod.index()).map_or(u64::MAX, |last| last.load(Ordering::Acquire))
    }
}

impl<const W: usize> Default for RoundRobinOrder<W> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// No turn is given twice: in n·k turns from several threads, each of n pods has exactly k.
    #[test]
    fn turns_taken_at_once_are_different_ones() {
        const THREADS: usize = 4;
        const EACH: usize = 200_000;
        let (turns, start) = (RoundRobinOrder::<1>::new(), Barrier::new(THREADS));
        let pods: PodSet<1> = (0..5).map(PodId::new).collect();
        let take = || {
            start.wait();
            let mut counts = [0; 5];
            (0..EACH).for_each(|_| counts[turns.take(pods).unwrap().index()] += 1);
            counts
        };
        #[expect(clippy::disallowed_methods, reason = "turns that are taken at once are what is tested")]
        let counts = thread::scope(|scope| {
            let threads = [(); THREADS].map(|()| scope.spawn(take));
            threads.map(|thread| thread.join().unwrap())
        });
        let sums: Vec<usize> = (0..5).map(|pod| counts.iter().map(|counts| counts[pod]).sum()).collect();
        assert_eq!(sums, [THREADS * EACH / 5; 5]);
        assert_eq!(turns.take(PodSet::EMPTY), None);
    }
}
