//! Prefill queue estimate: when each pod is done with the prompts sent to it.
//!
//! A pod's queue is one word: when it is expected to end, and the pod's generation. Sending adds to the end, or to now if
//! that has passed, and time takes off by itself: nobody has to tell how far a prefill is.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kv_index::{DEFAULT_POD_WORDS, Pod, PodSet};

/// When each pod is expected to be done with the prompts that were sent to it; owned by the host.
///
/// Written by [`PrefillQueueRecorder`](crate::record::PrefillQueueRecorder), read by
/// [`FirstTokenScorer`](super::FirstTokenScorer). A new pod of an old id has no queue.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use kv_index::{Config, Index};
/// use routing_plugins::score::PrefillQueues;
///
/// let index: Index = Index::new(Config::default());
/// let (pod, start) = (index.join("a")?, Instant::now());
/// let queues: PrefillQueues = PrefillQueues::default();
/// assert_eq!(queues.of(pod, start), None);
/// queues.add(pod, 1.5, start);
/// queues.add(pod, 1.0, start + Duration::from_secs(1));
/// assert_eq!(queues.of(pod, start + Duration::from_secs(1)), Some(1.5));
/// assert_eq!(queues.of(pod, start + Duration::from_secs(9)), Some(0.0));
/// # Ok::<(), kv_index::JoinError>(())
/// ```
#[derive(Debug)]
pub struct PrefillQueues<const W: usize = DEFAULT_POD_WORDS> {
    /// When the first prompt was sent: ends are counted from there.
    start: OnceLock<Instant>,
    ends: Box<[AtomicU64]>,
    /// What was added in all, where peers are told: words as of ends.
    sent: OnceLock<Box<[AtomicU64]>>,
}

/// A word: some bits of the generation above, then one more than the end in microseconds. 0 is nothing sent.
const END_BITS: u32 = 54;
const END: u64 = (1 << END_BITS) - 1;

impl<const W: usize> Default for PrefillQueues<W> {
    fn default() -> Self {
        Self { start: OnceLock::new(), ends: words::<W>(), sent: OnceLock::new() }
    }
}

fn words<const W: usize>() -> Box<[AtomicU64]> {
    (0..PodSet::<W>::CAPACITY).map(|_| AtomicU64::new(0)).collect()
}

impl<const W: usize> PrefillQueues<W> {
    /// A prompt is sent to a pod that takes so long to compute.
    pub fn add(&self, pod: Pod, seconds: f64, now: Instant) {
        // A cast from a float saturates, and takes what is no number for 0.
        let more = (seconds * 1e6) as u64;
        if let Some(place) = self.sent.get().and_then(|sent| sent.get(pod.id().index())) {
            let longer = |word: u64| Some(word_of(pod, end(word, pod).unwrap_or(0).saturating_add(more)));
            let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer);
        }
        self.lengthen(pod, more, now);
    }

    /// The same of what a peer sent there, in microseconds.
    pub(crate) fn add_of_peer(&self, pod: Pod, micros: u64, now: Instant) {
        self.lengthen(pod, micros, now);
    }

    /// Microseconds that were added to a pod's queue from here, in all since this was asked for the first time.
    pub(crate) fn sent(&self, pod: Pod) -> u64 {
        let place = self.sent.get_or_init(words::<W>).get(pod.id().index());
        place.and_then(|place| end(place.load(Ordering::Relaxed), pod)).unwrap_or(0)
    }

    fn lengthen(&self, pod: Pod, more: u64, now: Instant) {
        let now = micros(*self.start.get_or_init(|| now), now);
        let Some(place) = self.ends.get(pod.id().index()) else { return };
        let longer = |word: u64| {
            let before = end(word, pod).unwrap_or(0);
            Some(word_of(pod, before.max(now).saturating_add(more)))
        };
        // Relaxed: an estimate that publishes nothing. It never fails.
        let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, longer);
    }

    /// Seconds until a pod is done; nothing of a pod that nothing was sent to.
    #[must_use]
    #[inline]
    pub fn of(&self, pod: Pod, now: Instant) -> Option<f64> {
        self.at(now).of(pod)
    }

    /// The queues at one instant, for who asks of many pods.
    #[inline]
    pub(super) fn at(&self, now: Instant) -> QueuesAt<'_> {
        // Before the first prompt there is no end that could be of any time.
        QueuesAt { ends: &self.ends, now: self.start.get().map_or(0, |start| micros(*start, now)) }
    }
}

/// Microseconds from the start to an instant.
fn micros(start: Instant, at: Instant) -> u64 {
    let after = at.saturating_duration_since(start);
    // As `as_micros`, without numbers of 128 bits.
    after.as_secs().saturating_mul(1_000_000).saturating_add(after.subsec_micros().into()).min(END - 1)
}

/// Queues at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuesAt<'q> {
    ends: &'q [AtomicU64],
    now: u64,
}

impl QueuesAt<'_> {
    #[inline]
    pub(super) fn of(&self, pod: Pod) -> Option<f64> {
        let word = self.ends.get(pod.id().index())?.load(Ordering::Relaxed);
        let end = end(word, pod)?;
        Some(end.saturating_sub(self.now) as f64 / 1e6)
    }
}

/// A word of a pod's generation and so many microseconds.
fn word_of(pod: Pod, micros: u64) -> u64 {
    generation(pod) << END_BITS | (micros.min(END - 1) + 1)
}

/// A pod's end, if the word is of its generation.
#[inline]
fn end(word: u64, pod: Pod) -> Option<u64> {
    (word != 0 && word >> END_BITS == generation(pod)).then(|| (word & END) - 1)
}

#[inline]
fn generation(pod: Pod) -> u64 {
    u64::from(pod.generation()) & (u64::MAX >> END_BITS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::{handles, start};

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_empty_queue_begins_now_and_time_works_it_off() {
        let (queues, pod, now) = (<PrefillQueues>::default(), handles(1, 1)[0][0], start());
        queues.add(pod, 2.0, now);
        assert_eq!(queues.of(pod, now), Some(2.0));
        assert_eq!(queues.of(pod, now + SECOND), Some(1.0));
        queues.add(pod, 3.0, now + SECOND);
        assert_eq!(queues.of(pod, now + SECOND), Some(4.0), "behind what is left");
        queues.add(pod, 1.0, now + 60 * SECOND);
        assert_eq!(queues.of(pod, now + 60 * SECOND), Some(1.0), "an idle pod begins at once");
    }

    #[test]
    fn pods_are_told_apart_and_so_are_generations() {
        let (queues, pods, now) = (<PrefillQueues>::default(), handles(2, 2), start());
        queues.add(pods[0][0], 2.0, now);
        assert_eq!((queues.of(pods[0][1], now), queues.of(pods[1][0], now)), (None, None));
        queues.add(pods[1][0], 1.0, now);
        assert_eq!((queues.of(pods[0][0], now), queues.of(pods[1][0], now)), (None, Some(1.0)));
    }

    #[test]
    fn no_number_is_too_much() {
        let (queues, pod, now) = (<PrefillQueues>::default(), handles(1, 1)[0][0], start());
        for seconds in [f64::NAN, -1.0] {
            queues.add(pod, seconds, now);
            assert_eq!(queues.of(pod, now), Some(0.0));
        }
        for _ in 0..3 {
            queues.add(pod, f64::MAX, now);
            assert!(queues.of(pod, now).is_some_and(|left| left > 1e9));
        }
    }
}
