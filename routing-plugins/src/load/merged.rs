//! Load merging: own in-flight counts and an engine's last report as one figure.

use std::time::Duration;

use kv_index::Pod;
use routing_core::Load;

use super::PodLoad;
use super::cell::{Cell, Cells};

/// What pods have to do at one instant, by the rule of [`LoadTracker::load_of`](super::LoadTracker::load_of).
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergedLoads<'t> {
    cells: &'t Cells,
    now: i64,
    stale_after: u64,
}

impl<'t> MergedLoads<'t> {
    pub(super) fn new(cells: &'t Cells, now: i64, stale_after: Duration) -> Self {
        Self { cells, now, stale_after: u64::try_from(stale_after.as_nanos()).unwrap_or(u64::MAX) }
    }

    /// What a pod has to do; `elsewhere` counts if it did not report.
    #[inline]
    pub(crate) fn of(&self, pod: Pod, elsewhere: Load) -> PodLoad {
        let mut load = PodLoad::default();
        self.write(pod, elsewhere, &mut load);
        load
    }

    /// The same, written where it belongs: for hundreds of pods, copying would take longer than all the rest.
    #[inline]
    pub(crate) fn write(&self, pod: Pod, elsewhere: Load, load: &mut PodLoad) {
        let cell = self.cells.get(pod.id()).filter(|cell| cell.is_of(pod.generation()));
        let own = cell.map(Cell::in_flight).unwrap_or_default();
        let others = match cell.and_then(Cell::report) {
            Some(report) => {
                let age = self.now.saturating_sub(report.at).max(0).unsigned_abs();
                (load.age, load.stale) = (Some(Duration::from_nanos(age)), age > self.stale_after);
                (load.running, load.waiting, load.kv_used) = (report.running, report.waiting, share(report.kv_used));
                report.others
            }
            None => {
                (load.age, load.stale) = (None, false);
                (load.running, load.waiting) = (elsewhere.running, elsewhere.waiting);
                load.kv_used = share(elsewhere.kv_used);
                self.cells.others(pod, own, elsewhere)
            }
        };
        // The rule, rewritten: max(now, now + others) where others may be below 0 is now + max(0, others).
        load.requests = own.requests.saturating_add(others.requests);
        load.tokens = own.tokens().saturating_add(others.tokens);
        load.waiting_elsewhere = others.waiting;
        // One by one: a whole struct would be made elsewhere and copied.
        load.in_flight.requests = own.requests;
        load.in_flight.prefilling = own.prefilling;
        load.in_flight.prompt_tokens = own.prompt_tokens;
        load.in_flight.uncached_tokens = own.uncached_tokens;
        load.in_flight.output_tokens = own.output_tokens;
    }
}

/// How much of a KV cache is in use, 0..=1, whatever an engine says: what is not a number counts as full.
#[inline]
pub(crate) const fn share(number: f32) -> f32 {
    if number.is_nan() { 1.0 } else { number.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::load::{LoadTracker, Work, handles, start};

    const SECOND: Duration = Duration::from_secs(1);
    const REPORT: Load = Load { running: 6, waiting: 2, tokens: 1000, kv_used: 0.5 };

    #[test]
    fn others_count_and_so_does_what_was_sent_since() {
        let (tracker, pod, at) = (Arc::new(<LoadTracker>::default()), handles(1, 1)[0][0], start());
        let now = || tracker.view(at + SECOND, SECOND).of(pod, Load::default());
        let begin = || tracker.begin(pod, Work::of(60).output(40));
        let mut guards: Vec<_> = (0..3).map(|_| begin()).collect();
        assert_eq!((now().requests, now().tokens, now().age), (3, 300, None), "before the report");

        assert!(tracker.report(pod, REPORT, at));
        let reported = now();
        assert_eq!((reported.requests, reported.tokens), (8, 1000), "five of them and 700 tokens are of others");
        assert_eq!((reported.running, reported.waiting, reported.kv_used), (6, 2, 0.5));
        assert_eq!((reported.age, reported.stale), (Some(SECOND), false));
        assert_eq!(reported.in_flight, tracker.in_flight(pod.id()));

        guards.extend((0..4).map(|_| begin()));
        assert_eq!((now().requests, now().tokens), (12, 1400), "sent since");
        guards.clear();
        assert_eq!((now().requests, now().tokens), (5, 700), "done since");
    }

    #[test]
    fn never_fewer_than_are_under_way() {
        let (tracker, pod, at) = (Arc::new(<LoadTracker>::default()), handles(1, 1)[0][0], start());
        let mut guards: Vec<_> = (0..10).map(|_| tracker.begin(pod, Work::of(500))).collect();
        assert!(tracker.report(pod, REPORT, at), "it has not seen all of them");
        let now = || tracker.view(at, SECOND).of(pod, Load::default());
        assert_eq!((now().requests, now().tokens), (10, 5000));
        guards.truncate(1);
        assert_eq!((now().requests, now().tokens), (1, 500));
    }

    #[test]
    fn a_stale_report_still_says_most_and_is_told_from_others() {
        let (tracker, pod, at) = (Arc::new(<LoadTracker>::default()), handles(1, 1)[0][0], start());
        let _guard = tracker.begin(pod, Work::of(50));
        assert!(tracker.report(pod, REPORT, at));
        let after = |age| tracker.view(at + age, SECOND).of(pod, REPORT);
        assert_eq!((after(SECOND).requests, after(SECOND).stale), (8, false), "just young enough");
        let age = SECOND + Duration::from_nanos(1);
        let elsewhere = tracker.view(at + age, SECOND).of(pod, Load { running: 40, ..REPORT });
        assert_eq!(elsewhere, PodLoad { age: Some(age), stale: true, ..after(SECOND) }, "elsewhere is not asked");
        assert!(after(SECOND).is_reported() && !after(age).is_reported());
        let _second = tracker.begin(pod, Work::of(50));
        assert_eq!((after(age).requests, after(age).tokens), (9, 1050), "what is sent counts on top");
    }

    #[test]
    fn a_report_from_later_is_of_age_0() {
        let (tracker, pod, at) = (<LoadTracker>::default(), handles(1, 1)[0][0], start());
        assert!(tracker.report(pod, REPORT, at + SECOND));
        assert_eq!(tracker.view(at, Duration::ZERO).of(pod, Load::default()).age, Some(Duration::ZERO));
    }

    #[test]
    fn without_a_report_those_of_elsewhere_are_of_when_they_were_first_seen() {
        let (tracker, pods) = (Arc::new(<LoadTracker>::default()), handles(1, 2));
        let [pod, other] = [pods[0][0], pods[0][1]];
        let seen = |load| tracker.view(start(), SECOND).of(pod, load);
        let now = || seen(REPORT);
        let guard = tracker.begin(pod, Work::of(2000));
        assert_eq!((now().requests, now().tokens), (8, 2000), "the larger, at first sight");
        assert_eq!((now().running, now().waiting, now().kv_used, now().age), (6, 2, 0.5, None));
        let burst: Vec<_> = (0..5).map(|_| tracker.begin(pod, Work::of(10))).collect();
        assert_eq!((now().requests, now().tokens), (13, 2050), "sent since");
        let next = Load { running: 11, ..REPORT };
        assert_eq!((seen(next).requests, seen(next).tokens), (13, 2050), "other figures have the burst in them");
        drop(guard);
        drop(burst);
        assert_eq!((seen(next).requests, seen(next).tokens), (7, 0), "done since");
        assert_eq!((now().requests, now().tokens), (8, 1000));
        assert!(tracker.report(other, REPORT, start()));
        assert_eq!((now().age, now().stale), (None, false), "what another pod reported changes nothing");
    }

    #[test]
    fn what_was_seen_of_one_pod_is_not_of_the_next_with_its_id() {
        let (tracker, pods) = (Arc::new(<LoadTracker>::default()), handles(2, 1));
        let now = |pod| tracker.view(start(), SECOND).of(pod, REPORT).requests;
        let [old, new] = [pods[0][0], pods[1][0]];
        let before: Vec<_> = (0..8).map(|_| tracker.begin(old, Work::of(1))).collect();
        assert_eq!(now(old), 8, "all are from here");
        let _after = tracker.begin(new, Work::of(1));
        assert_eq!(now(new), 8, "seven of them are not from here");
        drop(before);
        assert_eq!((now(new), now(old)), (8, 8), "nothing is known of the old one, and eight are told");
    }

    #[test]
    fn odd_reports_do_no_harm() {
        let (tracker, pods, at) = (Arc::new(<LoadTracker>::default()), handles(1, 2), start());
        let pod = pods[0][0];
        let most = Load { running: u32::MAX, waiting: u32::MAX, tokens: u64::MAX, kv_used: f32::NAN };
        assert!(tracker.report(pod, most, at));
        let _guard = tracker.begin(pod, Work::of(5));
        for pod in [pods[0][0], pods[0][1]] {
            let load = tracker.view(at, SECOND).of(pod, most);
            assert_eq!((load.requests, load.tokens, load.kv_used), (u32::MAX, u64::MAX, 1.0));
        }
        for (told, taken) in [(-0.5, 0.0), (1.5, 1.0), (f32::INFINITY, 1.0), (0.25, 0.25)] {
            assert!(tracker.report(pod, Load { kv_used: told, ..REPORT }, at));
            assert_eq!(tracker.view(at, SECOND).of(pod, REPORT).kv_used, taken);
        }
    }
}
