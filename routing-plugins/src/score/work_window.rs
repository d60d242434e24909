//! Sliding window of work: seconds sent to each pod lately, lock-free.
//!
//! Time is cut into slices, and a pod has one word for each of the last few: the slice's number, the pod's generation and
//! the work. So memory is bounded, nothing takes a lock, and what is too old is known by its number without being cleared.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kv_index::{DEFAULT_POD_WORDS, Pod, PodSet};

/// What was sent to each pod within a window of time, in seconds of work; owned by the host.
///
/// Written by [`RecentWorkRecorder`](crate::record::RecentWorkRecorder), read by
/// [`RecentWorkScorer`](super::RecentWorkScorer). What falls out of the window does so a sixteenth of it at a time: work
/// counts for at least 15/16 of the window, and never for longer than it. A new pod of an old id was sent nothing.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use kv_index::{Config, Index};
/// use routing_plugins::score::RecentWork;
///
/// let index: Index = Index::new(Config::default());
/// let (pod, start) = (index.join("a")?, Instant::now());
/// let recent: RecentWork = RecentWork::new(Duration::from_secs(160));
/// recent.add(pod, 1.5, start);
/// assert_eq!(recent.of(pod, start + Duration::from_secs(149)), 1.5);
/// assert_eq!(recent.of(pod, start + Duration::from_secs(160)), 0.0);
/// # Ok::<(), kv_index::JoinError>(())
/// ```
#[derive(Debug)]
pub struct RecentWork<const W: usize = DEFAULT_POD_WORDS> {
    /// Nanoseconds in a slice, at least 1.
    slice: u64,
    /// When the first work was sent: slices are counted from there.
    start: OnceLock<Instant>,
    pods: Box<[[AtomicU64; SLICES]]>,
}

const SLICES: usize = 16;

/// A word: the slice's number above, then some bits of the generation, then the work in tenths of milliseconds.
const WORK_BITS: u32 = 30;
const GENERATION_BITS: u32 = 10;
const WORK: u64 = (1 << WORK_BITS) - 1;
/// Of slices, the low bits: two that agree in them are 16 million slices apart, years at the default.
const NUMBER: u64 = (1 << (64 - WORK_BITS - GENERATION_BITS)) - 1;
const UNITS: f64 = 10_000.0;

impl<const W: usize> RecentWork<W> {
    /// Nothing was sent, and so much time counts as lately; no less than 16 nanoseconds.
    #[must_use]
    pub fn new(window: Duration) -> Self {
        let slice = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX) / SLICES as u64;
        let empty = |_| std::array::from_fn(|_| AtomicU64::new(0));
        Self { slice: slice.max(1), start: OnceLock::new(), pods: (0..PodSet::<W>::CAPACITY).map(empty).collect() }
    }

    /// Work is sent to a pod.
    ///
    /// A slice holds 29 hours of work, and no more. What is added with an instant before the window is lost.
    pub fn add(&self, pod: Pod, seconds: f64, now: Instant) {
        let number = self.number(now);
        let Some(place) = self.place(pod, number) else { return };
        // A cast from a float saturates, and takes what is no number for 0.
        let units = ((seconds * UNITS).round() as u64).min(WORK);
        let added = |word: u64| {
            let fresh = head(number, pod);
            let known = if word & !WORK == fresh { word & WORK } else { 0 };
            // Of two slices that share a word the later counts; a word of another generation gives way, and an empty one.
            let same = word != 0 && word >> WORK_BITS & ((1 << GENERATION_BITS) - 1) == generation(pod);
            let ahead = (number & NUMBER).wrapping_sub(word >> (WORK_BITS + GENERATION_BITS)) & NUMBER > NUMBER / 2;
            let later = same && ahead;
            (!later).then(|| fresh | (known + units).min(WORK))
        };
        // Relaxed: a count that publishes nothing. Where a later slice has the word, nothing is to be done.
        let _ = place.fetch_update(Ordering::Relaxed, Ordering::Relaxed, added);
    }

    /// Seconds of work that were sent to a pod lately.
    #[must_use]
    #[inline]
    pub fn of(&self, pod: Pod, now: Instant) -> f64 {
        self.within(pod, self.number(now))
    }

    /// The same, up to a slice: of many pods at one instant.
    #[inline]
    pub(super) fn within(&self, pod: Pod, number: u64) -> f64 {
        let Some(words) = self.pods.get(pod.id().index()) else { return 0.0 };
        let mut work = 0;
        for back in 0..(SLICES as u64).min(number) {
            let word = words[(number - back) as usize % SLICES].load(Ordering::Relaxed);
            if word & !WORK == head(number - back, pod) {
                work += word & WORK;
            }
        }
        work as f64 / UNITS
    }

    /// A slice's number, from 1 on; an instant before the first is in the first.
    pub(super) fn number(&self, now: Instant) -> u64 {
        let start = *self.start.get_or_init(|| now);
        let since = u64::try_from(now.saturating_duration_since(start).as_nanos()).unwrap_or(u64::MAX);
        since / self.slice + 1
    }

    fn place(&self, pod: Pod, number: u64) -> Option<&AtomicU64> {
        Some(&self.pods.get(pod.id().index())?[number as usize % SLICES])
    }
}

impl<const W: usize> Default for RecentWork<W> {
    /// Of three minutes.
    fn default() -> Self {
        Self::new(Duration::from_secs(180))
    }
}

/// What a pod's word of a slice has above the work.
#[inline]
fn head(number: u64, pod: Pod) -> u64 {
    (number & NUMBER) << (WORK_BITS + GENERATION_BITS) | generation(pod) << WORK_BITS
}

#[inline]
fn generation(pod: Pod) -> u64 {
    u64::from(pod.generation()) & ((1 << GENERATION_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::score::testing::Scene;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_new_pod_of_an_old_id_was_sent_nothing_and_takes_the_place() {
        let (mut scene, recent) = (Scene::new(1), <RecentWork>::new(16 * SECOND));
        let (old, now) = (scene.pod(0), scene.now);
        recent.add(old, 2.0, now);
        scene.replace(0);
        let new = scene.pod(0);
        assert_eq!((recent.of(old, now), recent.of(new, now)), (2.0, 0.0));
        recent.add(new, 3.0, now);
        assert_eq!((recent.of(old, now), recent.of(new, now)), (0.0, 3.0));
    }

    #[test]
    fn odd_work_does_no_harm() {
        let (scene, recent) = (Scene::new(2), <RecentWork>::default());
        for seconds in [f64::NAN, -1.0, f64::NEG_INFINITY] {
            recent.add(scene.pod(0), seconds, scene.now);
        }
        assert_eq!(recent.of(scene.pod(0), scene.now), 0.0);
        recent.add(scene.pod(1), f64::INFINITY, scene.now);
        recent.add(scene.pod(1), 1.0, scene.now);
        assert_eq!(recent.of(scene.pod(1), scene.now), WORK as f64 / UNITS);
    }

    #[test]
    fn what_comes_late_is_counted_in_its_own_time_or_not_at_all() {
        let (scene, recent) = (Scene::new(1), <RecentWork>::new(16 * SECOND));
        let (pod, start) = (scene.pod(0), scene.now);
        recent.add(pod, 1.0, start);
        recent.add(pod, 1.0, start + 20 * SECOND);
        recent.add(pod, 1.0, start + 10 * SECOND);
        assert_eq!(recent.of(pod, start + 20 * SECOND), 2.0);
        recent.add(pod, 1.0, start + 4 * SECOND);
        assert_eq!(recent.of(pod, start + 20 * SECOND), 2.0, "its word is of a later slice");
    }

    proptest! {
        /// As a list of all that was ever sent, with those of the last sixteen slices added up.
        #[test]
        fn it_is_the_sum_of_the_last_slices(
            sent in prop::collection::vec((0..3usize, 0..100u32, 0..9_000u64), 1..60),
            later in 0..30_000u64,
        ) {
            let (scene, recent) = (Scene::new(3), <RecentWork>::new(16 * SECOND));
            let (mut at, mut literal) = (0, Vec::new());
            for (pod, tenths, after) in sent {
                at += after;
                recent.add(scene.pod(pod), f64::from(tenths) / 10.0, scene.now + Duration::from_millis(at));
                literal.push((pod, at, f64::from(tenths) / 10.0));
                let asked = at + if literal.len() % 7 == 0 { later } else { 0 };
                for pod in 0..3 {
                    let slice = |millis: u64| (millis - literal[0].1) / 1_000;
                    let own = literal.iter().filter(|(to, when, _)| *to == pod && slice(*when) + 16 > slice(asked));
                    let expected: f64 = own.map(|(.., seconds)| seconds).sum();
                    let found = recent.of(scene.pod(pod), scene.now + Duration::from_millis(asked));
                    prop_assert!((found - expected).abs() < 1e-6, "{found} {expected}");
                }
            }
        }
    }
}
