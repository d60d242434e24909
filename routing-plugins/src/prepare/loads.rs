//! Load snapshot: one view of all loads for all plugins of a decision.

use std::sync::Arc;
use std::time::Duration;

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};
use routing_core::{Declare, Fleet, Parts, PluginError, PrepareContext, Preparer, Slot, Write};

use crate::load::{Backlog, BacklogBlock, Figures, LANES, LoadTracker, MergedLoads, PodLoad};
use crate::parameters::parameters;

/// What every pod has to do.
///
/// A plugin that needs no more than [`Figures`] declares to read [`Loads::FIGURES`], and reads [`LoadTable::figures`]; one that
/// needs [`Backlog`]s declares [`Loads::BACKLOGS`], and reads [`LoadTable::backlog`]. Where no plugin needs more, the rest is not gathered.
#[derive(Debug)]
pub struct Loads;

impl Loads {
    /// Requests on each pod, and how much of its KV cache is in use.
    pub const FIGURES: Parts = Parts::number(0);

    /// What stands before a new prompt's first token on each pod.
    pub const BACKLOGS: Parts = Parts::number(1);
}

impl Slot for Loads {
    type Value = LoadTable;
    const NAME: &'static str = "fleet.loads";

    fn clear(value: &mut LoadTable) {
        value.figures.clear();
        value.backlogs.clear();
        value.pods.clear();
    }
}

/// The loads of all pods of a fleet, by pod.
///
/// # Examples
///
/// By hand, for a test or a preparer of one's own:
///
/// ```
/// use kv_index::PodId;
/// use routing_plugins::load::PodLoad;
/// use routing_plugins::prepare::LoadTable;
///
/// let busy = PodLoad { requests: 7, ..PodLoad::default() };
/// let table: LoadTable = [(PodId::new(3), busy)].into_iter().collect();
/// assert_eq!(table.of(PodId::new(3)).requests, 7);
/// assert_eq!(table.of(PodId::new(4)), PodLoad::default());
/// ```
#[derive(Clone, Debug, Default)]
pub struct LoadTable {
    /// What most plugins read, side by side.
    figures: Row<Figures>,
    /// In blocks of some pods.
    backlogs: Row<BacklogBlock>,
    /// Everything, where somebody reads more.
    pods: Row<PodLoad>,
}

impl LoadTable {
    /// What a pod has to do; nothing, if it is not of the fleet, or if everybody declared to read no more than parts.
    #[must_use]
    #[inline]
    pub fn of(&self, pod: PodId) -> PodLoad {
        self.pods.get().get(pod.index()).copied().unwrap_or_default()
    }

    /// The figures of pods 0, 1 and so on; pods beyond the end have nothing to do.
    #[must_use]
    #[inline]
    pub fn figures(&self) -> &[Figures] {
        self.figures.get()
    }

    /// What stands before a new prompt's first token on a pod; nothing, if the pod is not of the fleet, or if nobody declared to read
    /// backlogs.
    #[must_use]
    #[inline]
    pub fn backlog(&self, pod: PodId) -> Backlog {
        let (block, lane) = (pod.index() / LANES, pod.index() % LANES);
        self.backlogs.get().get(block).map(|block| block.get(lane)).unwrap_or_default()
    }

    /// The same of pods 0, 1 and so on, side by side; pods beyond the end have none, and all if nobody declared to read them.
    #[inline]
    pub(crate) fn backlogs(&self) -> &[BacklogBlock] {
        self.backlogs.get()
    }

    /// Everything that is known of a fleet's pods.
    fn fill_whole<const W: usize>(&mut self, fleet: &Fleet<W>, view: MergedLoads<'_>) {
        let count = ids(fleet);
        let capacity = PodSet::<W>::CAPACITY;
        let pods = self.pods.begin(count, capacity).iter_mut().zip(self.figures.begin(count, capacity));
        let blocks = self.backlogs.begin(count.div_ceil(LANES), capacity / LANES);
        blocks.last_mut().into_iter().for_each(|last| *last = BacklogBlock::default());
        for (at, (load, figures)) in pods.enumerate() {
            let id = PodId::new(at as u16);
            match fleet.handle(id) {
                Some(pod) => view.write(pod, fleet.load(id), load),
                None => *load = PodLoad::default(),
            }
            *figures = load.figures();
            blocks[at / LANES].set(at % LANES, &load.backlog());
        }
    }
}

/// From id 0 to the last of a fleet.
fn ids<const W: usize>(fleet: &Fleet<W>) -> usize {
    let last = fleet.pods().words().iter().enumerate().rfind(|(_, word)| **word != 0).map(|(at, word)| (at, *word));
    last.map_or(0, |(at, word)| (at + 1) * 64 - word.leading_zeros() as usize)
}

/// Something of each pod, by pod. The list is made once and written again and again.
#[derive(Clone, Debug, Default)]
struct Row<T> {
    list: Vec<T>,
    /// How many are of this fleet; what is beyond is memory of earlier ones.
    used: usize,
}

impl<T: Copy + Default> Row<T> {
    fn clear(&mut self) {
        self.used = 0;
    }

    #[inline]
    fn get(&self) -> &[T] {
        &self.list[..self.used]
    }

    /// The first `used` of them, to be written, all of them: they are of an earlier fleet. There are never more than `most`.
    fn begin(&mut self, used: usize, most: usize) -> &mut [T] {
        if self.list.len() < most {
            // All at once, so that a fleet that grows does not make a later decision allocate.
            self.list.resize(most, T::default());
        }
        self.used = used;
        &mut self.list[..used]
    }

    fn at(&mut self, at: usize) -> &mut T {
        self.used = self.used.max(at + 1);
        self.list.resize(self.used, T::default());
        &mut self.list[at]
    }
}

impl FromIterator<(PodId, PodLoad)> for LoadTable {
    /// Of two loads of one pod the later counts.
    fn from_iter<T: IntoIterator<Item = (PodId, PodLoad)>>(loads: T) -> Self {
        let mut table = Self::default();
        for (pod, load) in loads {
            let at = pod.index();
            *table.pods.at(at) = load;
            *table.figures.at(at) = load.figures();
            table.backlogs.at(at / LANES).set(at % LANES, &load.backlog());
        }
        table
    }
}

parameters! {
    /// What [`LoadPreparer`] takes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LoadParameters {
        /// How old, in milliseconds, a report may be before it is [stale](PodLoad::stale); 10 000 unless given. With 0, all
        /// are but those of the decision's own instant.
        pub stale_after_ms: u32 = 10_000,
    }
}

/// Writes [`Loads`]: for every pod of the fleet, what was sent to it from here and what its engine reported, as
/// [`LoadTracker::load_of`] merges them, at the request's instant.
///
/// Of pods that did not report to the tracker, [`Fleet::load`](routing_core::Fleet::load) is taken, as of the first decision
/// that saw these figures: what is sent from here after it counts on top. Figures are those of the
/// pod that the fleet has under an id: what is in flight to one that had the id before does not weigh on it.
#[derive(Debug)]
pub struct LoadPreparer<const W: usize = DEFAULT_POD_WORDS> {
    tracker: Arc<LoadTracker<W>>,
    stale_after: Duration,
    loads: Write<Loads>,
}

impl<const W: usize> LoadPreparer<W> {
    /// Declares that it writes loads.
    pub fn declare(declare: &mut Declare<'_>, parameters: LoadParameters, tracker: Arc<LoadTracker<W>>) -> Self {
        let stale_after = Duration::from_millis(u64::from(parameters.stale_after_ms));
        Self { tracker, stale_after, loads: declare.writes() }
    }
}

impl<const W: usize> Preparer<W> for LoadPreparer<W> {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let (fleet, now) = (context.fleet(), context.request().now);
        let wanted = context.wanted(self.loads)?;
        let (_, table) = context.write(self.loads)?;
        let pods = ids(fleet);
        if wanted.contains(Parts::ALL) {
            table.fill_whole(fleet, self.tracker.view(now, self.stale_after));
            return Ok(());
        }
        if wanted.contains(Loads::FIGURES) {
            self.tracker.figures_into(fleet, table.figures.begin(pods, PodSet::<W>::CAPACITY));
        }
        if wanted.contains(Loads::BACKLOGS) {
            let blocks = table.backlogs.begin(pods.div_ceil(LANES), PodSet::<W>::CAPACITY / LANES);
            self.tracker.backlogs_into(fleet, pods, blocks);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use kv_index::{Config, Index, Pod};
    use parking_lot::Mutex;
    use routing_core::{
        Load, Picker, PodInfo, ProfileBuilder, Ranking, Read, Request, RoutingContext, RoutingInput, RoutingPlan,
        Selector, Totals, Workspace,
    };

    use super::*;
    use crate::load::Work;

    const REPORT: Load = Load { running: 6, waiting: 2, tokens: 1000, kv_used: 0.5 };

    /// Ranks, and keeps what it read.
    struct Peek(Read<Loads>, Arc<Mutex<LoadTable>>);

    impl Picker for Peek {
        fn pick(
            &self,
            context: &RoutingContext<'_>,
            totals: &Totals<'_>,
            ranking: &mut Ranking,
        ) -> Result<(), PluginError> {
            self.1.lock().clone_from(context.read(self.0)?);
            totals.rank(1, ranking);
            Ok(())
        }
    }

    struct Bench {
        tracker: Arc<LoadTracker>,
        selector: Selector,
        workspace: Mutex<Workspace>,
        seen: Arc<Mutex<LoadTable>>,
        start: Instant,
    }

    impl Bench {
        #[expect(clippy::disallowed_methods, reason = "some instant to count from; which one does not matter")]
        fn new(parameters: LoadParameters) -> Self {
            let (tracker, seen) = (Arc::new(LoadTracker::default()), Arc::default());
            let (counted, peeked) = (Arc::clone(&tracker), Arc::clone(&seen));
            let selector = ProfileBuilder::new("serve")
                .preparer("loads", move |declare: &mut Declare<'_>| {
                    LoadPreparer::declare(declare, parameters, Arc::clone(&counted))
                })
                .picker("peek", move |declare: &mut Declare<'_>| Peek(declare.reads(), Arc::clone(&peeked)))
                .build()
                .expect("it fits together");
            let workspace = Mutex::new(selector.workspace());
            Self { tracker, selector, workspace, seen, start: Instant::now() }
        }

        fn decide(&self, fleet: &Fleet, after_ms: u64) -> LoadTable {
            let request = Request::new("m", self.start + Duration::from_millis(after_ms));
            let mut workspace = self.workspace.lock();
            self.selector
                .decide(&mut workspace, RoutingInput::new(&request, fleet), &mut RoutingPlan::default())
                .expect("a plan");
            self.seen.lock().clone()
        }
    }

    #[test]
    fn every_pod_has_its_own_figures_or_those_of_the_fleet() {
        let (bench, index): (_, Index) = (Bench::new(LoadParameters::default()), Index::new(Config::default()));
        let pods: Vec<_> = (0..5).map(|at| index.join(&format!("pod-{at}")).unwrap()).collect();
        // The fleet lacks pods 0 and 3.
        let fleet = Fleet::new(1, [1, 2, 4].map(|at| PodInfo::new(pods[at], "pod").load(REPORT)));
        let _guards = [0, 1, 2].map(|at| bench.tracker.begin(pods[at], Work::of(40).output(2)));
        assert!(bench.tracker.report(pods[1], Load { running: 3, tokens: 50, ..REPORT }, bench.start));
        let table = bench.decide(&fleet, 1500);
        let of = |at: usize| table.of(pods[at].id());
        assert_eq!((of(1).requests, of(1).tokens, of(1).running), (5, 50, 3), "what it reported");
        assert_eq!(of(1).age, Some(Duration::from_millis(1500)));
        assert_eq!((of(2).requests, of(2).tokens, of(2).age), (8, 1000, None), "what the fleet says");
        assert_eq!((of(2).in_flight.requests, of(4).in_flight.requests), (1, 0));
        assert_eq!([of(0), of(3)], [PodLoad::default(); 2], "not of the fleet");
        assert_eq!(table.of(PodId::new(9999)), PodLoad::default());
    }

    #[test]
    fn what_an_earlier_fleet_had_does_not_show() {
        let (bench, index): (_, Index) = (Bench::new(LoadParameters::default()), Index::new(Config::default()));
        let pods: Vec<_> = (0..70).map(|at| index.join(&format!("pod-{at}")).unwrap()).collect();
        let fleet = |pods: &[Pod]| Fleet::new(1, pods.iter().map(|&pod| PodInfo::new(pod, "pod").load(REPORT)));
        let busy = |table: LoadTable| pods.iter().filter(|pod| table.of(pod.id()).requests == 8).count();
        assert_eq!(busy(bench.decide(&fleet(&pods), 0)), 70);
        let few = bench.decide(&fleet(&[pods[1], pods[65]]), 0);
        assert_eq!((few.of(pods[1].id()).requests, few.of(pods[65].id()).requests, busy(few)), (8, 8, 2));
        assert_eq!(busy(bench.decide(&fleet(&pods), 0)), 70);
    }

    #[test]
    fn a_report_is_stale_after_a_while_and_keeps_its_figures() {
        for (parameters, last) in [(LoadParameters::default(), 10_000), (LoadParameters { stale_after_ms: 5 }, 5)] {
            let (bench, index): (_, Index) = (Bench::new(parameters), Index::new(Config::default()));
            let pod = index.join("a").unwrap();
            let fleet = Fleet::new(1, [PodInfo::new(pod, "a")]);
            assert!(bench.tracker.report(pod, REPORT, bench.start));
            let after = |age| bench.decide(&fleet, age).of(pod.id());
            assert_eq!((after(last).requests, after(last).stale), (8, false));
            assert_eq!((after(last + 1).requests, after(last + 1).stale), (8, true));
            assert_eq!(after(last + 1).age, Some(Duration::from_millis(last + 1)));
        }
    }

    #[test]
    fn what_a_pod_left_does_not_weigh_on_the_next_with_its_id() {
        let (bench, index): (_, Index) = (Bench::new(LoadParameters::default()), Index::new(Config::default()));
        let old = index.join("old").unwrap();
        let _stuck = bench.tracker.begin(old, Work::of(1000));
        assert!(bench.tracker.report(old, REPORT, bench.start));
        assert!(index.retire(old) && index.sweep(1).freed == 1);
        let new = index.join("new").unwrap();
        assert_eq!(new.id(), old.id());
        let table = bench.decide(&Fleet::new(2, [PodInfo::new(new, "new")]), 1);
        assert_eq!(table.of(new.id()), PodLoad::default());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_are_read_by_name() {
        let read = |text: &str| serde_json::from_str::<LoadParameters>(text).unwrap();
        assert_eq!(read("{}"), LoadParameters::default());
        assert_eq!(read(r#"{"stale_after_ms": 250}"#), LoadParameters { stale_after_ms: 250 });
    }
}
