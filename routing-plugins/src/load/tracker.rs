//! Load tracker: in-flight counts and last reports of all pods.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kv_index::{DEFAULT_POD_WORDS, Pod, PodId, PodSet};
use routing_core::{Fleet, Load};

use super::cell::{Cell, Cells, Summary};
use super::merged::MergedLoads;
use super::{BacklogBlock, Figures, InFlight, LoadGuard, PodLoad, Work};

/// Counts what was sent to each pod and is not done, and remembers what engines report.
///
/// A pod is told from others that had its id by its generation. The newest that something was sent to, or that reported,
/// has the figures: it begins with none, guards of older ones change nothing any more, and what is sent to older ones or
/// reported of them is not counted.
///
/// Sending, finishing and reporting lock the pod for a few stores. Reading waits for nobody; it notes figures from elsewhere
/// that it sees for the first time.
pub struct LoadTracker<const W: usize = DEFAULT_POD_WORDS> {
    cells: Cells,
    /// The first report's instant: a cell has no room for an instant, so reports are timed from there.
    origin: OnceLock<Instant>,
}

impl<const W: usize> LoadTracker<W> {
    /// Counts a request on a pod until its guard lets go.
    ///
    /// Each of the work's figures counts for 2³² − 1 tokens at most.
    pub fn begin(self: &Arc<Self>, pod: Pod, work: Work) -> LoadGuard<W> {
        LoadGuard::new(Arc::clone(self), pod, work)
    }

    /// Takes what a pod's engine reported at an instant; false if it says nothing new.
    ///
    /// That is a report that is older than one that was taken, or of an older generation. Call it as soon as the report is
    /// there: what is in flight from here at this moment is taken to be in the report.
    pub fn report(&self, pod: Pod, load: Load, at: Instant) -> bool {
        self.report_beside(pod, load, InFlight::default(), at)
    }

    /// The same, where some of what is counted here was not sent yet, and is not in the report: what waits before a router
    /// ([`PluginState::queued`](crate::PluginState::queued)).
    pub fn report_beside(&self, pod: Pod, load: Load, queued: InFlight, at: Instant) -> bool {
        let at = nanos(*self.origin.get_or_init(|| at), at);
        let writer = self.cell(pod).and_then(|cell| cell.enter(pod.generation()));
        writer.is_some_and(|writer| writer.report(load, queued, at))
    }

    /// Forgets what a pod's engine reported; false if there is nothing. For pods whose engine fell silent: sooner or later
    /// nothing is a better guess than old figures, and a pod that nobody sends to would never be found out to be idle.
    pub fn forget_report(&self, pod: Pod) -> bool {
        let writer = self.cell(pod).and_then(|cell| cell.enter_again(pod.generation()));
        writer.is_some_and(|writer| writer.forget())
    }

    /// What is in flight to a pod, whichever has the id.
    #[must_use]
    pub fn in_flight(&self, pod: PodId) -> InFlight {
        self.cells.get(pod).map(Cell::in_flight).unwrap_or_default()
    }

    /// The same of this pod, and of no other that has its id.
    pub(crate) fn in_flight_of(&self, pod: Pod) -> InFlight {
        self.cell(pod).filter(|cell| cell.is_of(pod.generation())).map(Cell::in_flight).unwrap_or_default()
    }

    /// What a pod has to do, as it is known at an instant. Reports that are older than `stale_after` are marked as stale;
    /// `elsewhere` counts if the pod did not report.
    ///
    /// For a pod that reported, with `own` for what is in flight from here:
    ///
    /// ```text
    /// requests = max(own now, running + waiting − own at the report + own now)
    /// tokens   = max(own now, reported tokens   − own at the report + own now)
    /// ```
    ///
    /// So requests of other gateways count, what is sent from here after the report counts at once, what is done since counts
    /// no more, and there are never fewer than are known here to be under way. Own tokens are [`InFlight::tokens`].
    ///
    /// A report that is older than that is merged like any other: old figures are a better guess than none.
    /// [`PodLoad::stale`] tells that it is old and [`PodLoad::age`] how old, and [`PodLoad::is_reported`] is false. A report
    /// from after the instant is of age 0.
    ///
    /// Of a pod that did not report to the tracker, figures from elsewhere are taken, such as the fleet's. When they were
    /// made is not known; they are taken to be of the moment when they were first asked for. So until other figures come,
    /// what is sent from here counts on top of them, and a burst between two snapshots of a fleet is seen. The same figures
    /// twice in a row are taken for one report.
    ///
    /// How much of a KV cache is in use is brought into 0..=1; what is not a number counts as full.
    ///
    /// Figures are of the pod that is asked for. If its id is another's for the tracker, nothing is in flight to it.
    #[must_use]
    pub fn load_of(&self, pod: Pod, elsewhere: Load, now: Instant, stale_after: Duration) -> PodLoad {
        self.view(now, stale_after).of(pod, elsewhere)
    }

    /// The same of many pods at one instant.
    pub(crate) fn view(&self, now: Instant, stale_after: Duration) -> MergedLoads<'_> {
        // Before the first report there is nothing that could be of any age.
        let now = self.origin.get().map_or(0, |&origin| nanos(origin, now));
        MergedLoads::new(&self.cells, now, stale_after)
    }

    /// The figures of pods 0, 1 and so on, as [`Self::load_of`] has them; 0 for pods that are not of the fleet.
    pub(crate) fn figures_into(&self, fleet: &Fleet<W>, figures: &mut [Figures]) {
        self.cells.figures_into(fleet.stamp(), figures, |at| self.merge(fleet, at).figures);
    }

    /// The same of backlogs, of so many pods.
    pub(crate) fn backlogs_into(&self, fleet: &Fleet<W>, pods: usize, blocks: &mut [BacklogBlock]) {
        self.cells.backlogs_into(fleet.stamp(), pods, blocks, |at| self.merge(fleet, at).backlog);
    }

    #[cold]
    fn merge(&self, fleet: &Fleet<W>, at: usize) -> Summary {
        let id = PodId::new(at as u16);
        let pod = fleet.handle(id);
        pod.and_then(|pod| self.cells.merge(fleet.stamp(), pod, fleet.load(id))).unwrap_or_default()
    }

    pub(super) fn cell(&self, pod: Pod) -> Option<Cell<'_>> {
        self.cells.get(pod.id())
    }
}

impl<const W: usize> Default for LoadTracker<W> {
    fn default() -> Self {
        Self { cells: Cells::new(PodSet::<W>::CAPACITY), origin: OnceLock::new() }
    }
}

impl<const W: usize> fmt::Debug for LoadTracker<W> {
    /// The pods that have something to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.cells.iter().map(Cell::in_flight).enumerate();
        f.write_str("LoadTracker ")?;
        f.debug_map().entries(figures.filter(|(_, figures)| *figures != InFlight::default())).finish()
    }
}

/// Nanoseconds from one instant to another, which may be the earlier one; 292 years are for ever.
fn nanos(from: Instant, to: Instant) -> i64 {
    let long = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    match to.checked_duration_since(from) {
        Some(after) => long(after),
        None => -long(from.saturating_duration_since(to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{handles, start};

    const ONE: Load = Load { running: 1, waiting: 0, tokens: 0, kv_used: 0.0 };

    fn load(tracker: &LoadTracker, pod: Pod, now: Instant) -> PodLoad {
        tracker.view(now, Duration::from_secs(10)).of(pod, Load::default())
    }

    #[test]
    fn a_new_generation_begins_with_nothing() {
        let tracker = Arc::new(<LoadTracker>::default());
        let (pods, at) = (handles(2, 2), start());
        let [old, new] = [pods[0][0], pods[1][0]];
        let mut before = tracker.begin(old, Work::of(10).output(1));
        let beside = tracker.begin(pods[0][1], Work::of(3));
        assert!(tracker.report(old, Load { running: 9, ..ONE }, at));
        assert_eq!(load(&tracker, new, at), PodLoad::default(), "what is known is of the old one");

        let after = tracker.begin(new, Work::of(20));
        let only_after = tracker.in_flight(new.id());
        assert_eq!((only_after.requests, only_after.prompt_tokens), (1, 20));
        assert_eq!(load(&tracker, new, at).requests, 1, "the old one's report is forgotten too");
        assert_eq!(load(&tracker, old, at), PodLoad::default(), "nothing is known of the old one");
        before.first_token();
        before.generated(100);
        drop(before);
        assert_eq!(tracker.in_flight(new.id()), only_after, "the old guard changes nothing");
        drop(after);
        assert_eq!(tracker.in_flight(new.id()), InFlight::default());
        assert_eq!(tracker.in_flight(beside.pod().id()).requests, 1, "other pods are not concerned");
    }

    #[test]
    fn an_old_generation_counts_nowhere() {
        let tracker = Arc::new(<LoadTracker>::default());
        let (pods, at) = (handles(2, 1), start());
        let [old, new] = [pods[0][0], pods[1][0]];
        assert!(tracker.report(new, ONE, at), "a report is enough to be known");
        assert!(!tracker.report(old, ONE, at + Duration::from_secs(1)));
        let mut guard = tracker.begin(old, Work::of(10));
        guard.generated(5);
        assert_eq!(tracker.in_flight(new.id()), InFlight::default());
        drop(guard);
        assert_eq!(tracker.in_flight(new.id()), InFlight::default());
        assert_eq!(load(&tracker, new, at).age, Some(Duration::ZERO));
    }

    #[test]
    fn reports_out_of_order_are_left_out() {
        let tracker = <LoadTracker>::default();
        let (pods, at) = (handles(1, 2), start());
        let second = Duration::from_secs(1);
        let [pod, other] = [pods[0][0], pods[0][1]];
        assert!(tracker.report(pod, Load { running: 1, ..ONE }, at + second));
        assert!(!tracker.report(pod, Load { running: 2, ..ONE }, at), "older");
        assert_eq!(load(&tracker, pod, at + second).running, 1);
        assert!(tracker.report(pod, Load { running: 3, ..ONE }, at + second), "as old: the last word counts");
        assert_eq!(load(&tracker, pod, at + second).running, 3);
        assert!(tracker.report(other, Load { running: 4, ..ONE }, at), "before the first of another pod");
        assert_eq!(load(&tracker, other, at + second).age, Some(second));
    }

    /// Four are on the pod and eight wait before the router: of twelve that the engine reports, eight are others'.
    #[test]
    fn what_was_not_sent_yet_is_in_no_report() {
        let (tracker, pods, at) = (Arc::new(<LoadTracker>::default()), handles(1, 1), start());
        let guards: Vec<_> = (0..12).map(|_| tracker.begin(pods[0][0], Work::of(10))).collect();
        let queued = InFlight { requests: 8, prefilling: 8, prompt_tokens: 80, uncached_tokens: 80, output_tokens: 0 };
        assert!(tracker.report_beside(pods[0][0], Load { running: 12, ..ONE }, queued, at));
        assert_eq!(load(&tracker, pods[0][0], at).requests, 20);
        drop(guards);
        assert_eq!(load(&tracker, pods[0][0], at).requests, 8);
    }

    #[test]
    fn a_report_can_be_forgotten() {
        let (tracker, pods, at) = (<LoadTracker>::default(), handles(2, 1), start());
        let [old, pod] = [pods[0][0], pods[1][0]];
        assert!(!tracker.forget_report(pod), "there is none");
        assert!(tracker.report(pod, Load { waiting: 7, ..ONE }, at));
        assert_eq!(load(&tracker, pod, at).backlog().waiting, 7.0);
        assert!(!tracker.forget_report(old) && tracker.forget_report(pod));
        assert_eq!(load(&tracker, pod, at), PodLoad::default());
        assert!(tracker.report(pod, ONE, at - Duration::from_secs(1)), "an older one is news then");
    }

    #[test]
    fn pods_beyond_the_width_count_nowhere() {
        let index: kv_index::Index<2> = kv_index::Index::with_width(kv_index::Config::default());
        let last = (0..128).map(|at| index.join(&format!("pod-{at}")).unwrap()).last().unwrap();
        let tracker = Arc::new(LoadTracker::<1>::default());
        let mut guard = tracker.begin(last, Work::of(10));
        guard.generated(1);
        assert!(!tracker.report(last, ONE, start()));
        assert_eq!(tracker.in_flight(last.id()), InFlight::default());
        drop(guard);
        assert_eq!(format!("{tracker:?}"), "LoadTracker {}");
    }

    #[test]
    fn debug_shows_the_busy() {
        let tracker = Arc::new(<LoadTracker>::default());
        let pods = handles(1, 5);
        let _guard = tracker.begin(pods[0][4], Work::of(77));
        let text = format!("{tracker:?}");
        assert!(text.contains("4: InFlight") && text.contains("77") && !text.contains("0: InFlight"), "{text}");
    }
}
