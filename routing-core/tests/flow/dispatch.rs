//! Late binding: who leaves the queue, for which pod, and when. Decisions and room are what a test says they are.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kv_index::{Config, Index, Pod};
use routing_core::flow::{
    BandConfig, Charge, Dispatched, FlowConfig, FlowControl, FlowQueue, FlowRequest, FlowTrace, Room,
    SaturationDetector, Waited,
};
use routing_core::{
    DecideError, Declare, Fleet, Picker, PlanStep, PluginError, PodInfo, ProfileBuilder, Ranking, Recorder, Request,
    Role, RoutingContext, RoutingInput, RoutingPlan, Totals,
};

/// How full pods are, 0..=1, as a test sets it. A pod has room for bands whose ceiling is above that.
#[derive(Clone, Debug)]
struct Fullness(Arc<Mutex<Vec<f32>>>);

impl SaturationDetector for Fullness {
    fn has_room(&self, _: &Fleet, pod: Pod, ceiling: f32, _: Instant) -> bool {
        self.0.lock().unwrap()[pod.id().index()] < ceiling
    }
}

/// What waits: a name, and the pod that it is decided for.
type Item = (&'static str, usize);

/// Some pods, and a queue before them.
struct Scene {
    pods: Vec<Pod>,
    fleet: Fleet,
    fullness: Fullness,
    control: FlowControl,
    queue: FlowQueue<Item>,
    start: Instant,
    /// Who was decided about, in order.
    asked: RefCell<Vec<&'static str>>,
}

/// One that went: its name and its pod, what is known of its wait, and what its key was charged.
struct Gone {
    name: &'static str,
    pod: usize,
    waited: Duration,
    trace: FlowTrace,
    charge: Charge,
}

impl Scene {
    /// As many pods as there are figures, so full.
    fn new(config: FlowConfig, full: &[f32]) -> Self {
        let index: Index = Index::new(Config::default());
        let names: Vec<_> = (0..full.len()).map(|at| format!("pod-{at}")).collect();
        let pods: Vec<_> = names.iter().map(|name| index.join(name).unwrap()).collect();
        let fleet = Fleet::new(1, pods.iter().zip(&names).map(|(&pod, name)| PodInfo::new(pod, name)));
        let fullness = Fullness(Arc::new(Mutex::new(full.to_vec())));
        let control = FlowControl::new(config.clone()).detector(fullness.clone());
        let queue = FlowQueue::new(config).unwrap();
        Self { pods, fleet, fullness, control, queue, start: Instant::now(), asked: RefCell::default() }
    }

    fn fill(&self, pod: usize, full: f32) {
        self.fullness.0.lock().unwrap()[pod] = full;
    }

    fn at(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    /// A request of a band comes: its key is its name.
    fn push(&mut self, millis: u64, band: usize, item: Item) {
        let now = self.at(millis);
        self.queue.push(FlowRequest::new(band, item.0, 100), item, now).ticket.unwrap();
    }

    /// Lets one go, decided for the pod that its item names.
    fn dispatch(&mut self, millis: u64) -> Option<Gone> {
        self.dispatch_by(millis, |item| item.1)
    }

    /// The same, decided for the pod that a function names.
    fn dispatch_by(&mut self, millis: u64, chosen: impl Fn(&Item) -> usize) -> Option<Gone> {
        let now = self.at(millis);
        let Self { pods, fleet, control, queue, asked, .. } = self;
        let decide = |item: &Item, room: &Room| {
            asked.borrow_mut().push(item.0);
            let pod = chosen(item);
            admit(room, &PlanStep::new("serve", Role::Both, &[pods[pod]])).map(|()| pod)
        };
        match queue.dispatch(control, fleet, now, decide)? {
            Dispatched::Goes { taken, decided, trace, .. } => {
                Some(Gone { name: taken.item.0, pod: decided, waited: taken.waited, trace, charge: taken.charge })
            }
            other => panic!("{other:?}"),
        }
    }

    /// Where one goes, if one does.
    fn goes(&mut self, millis: u64) -> Option<(&'static str, usize)> {
        self.dispatch(millis).map(|gone| (gone.name, gone.pod))
    }

    /// Who was decided about since this was asked last.
    fn asked(&self) -> Vec<&'static str> {
        self.asked.take()
    }
}

fn admit(room: &Room, step: &PlanStep) -> Result<(), DecideError> {
    if room.admits(step) { Ok(()) } else { Err(DecideError::NoRoom { step: Arc::clone(&step.name) }) }
}

#[test]
fn one_whose_pod_has_no_room_waits_and_one_behind_it_goes() {
    let mut scene = Scene::new(FlowConfig::default(), &[1.0, 0.0]);
    scene.push(0, 0, ("first", 0));
    scene.push(0, 0, ("behind", 1));
    assert_eq!(scene.goes(0), Some(("behind", 1)));
    assert_eq!(scene.asked(), ["first", "behind"], "in order");
    assert_eq!(scene.goes(0), None);
    assert_eq!(scene.queue.in_order().map(|waiting| waiting.item.0).collect::<Vec<_>>(), ["first"]);
}

#[test]
fn it_goes_as_soon_as_its_own_pod_has_room() {
    let mut scene = Scene::new(FlowConfig::default(), &[1.0, 0.0]);
    scene.push(0, 0, ("one", 0));
    assert_eq!(scene.goes(0), None);
    scene.asked();
    assert_eq!(scene.goes(1), None);
    assert!(scene.asked().is_empty(), "its pod is as full as before");
    scene.fill(0, 0.0);
    assert_eq!(scene.goes(2), Some(("one", 0)), "long before it is decided again for the sake of others");
    assert!(scene.queue.is_empty());
}

#[test]
fn room_that_comes_at_the_same_instant_counts() {
    let mut scene = Scene::new(FlowConfig::default(), &[1.0]);
    scene.push(0, 0, ("one", 0));
    assert_eq!(scene.goes(0), None);
    assert_eq!(scene.goes(0), None);
    assert_eq!(scene.asked(), ["one"], "once, while its pod is full");
    scene.fill(0, 0.0);
    assert_eq!(scene.goes(0), Some(("one", 0)));
}

#[test]
fn it_is_decided_again_after_the_affinity_wait_where_another_pod_has_room() {
    let config = FlowConfig::default().affinity_wait(Duration::from_millis(100));
    let mut scene = Scene::new(config, &[1.0, 1.0]);
    scene.push(0, 0, ("one", 0));
    assert_eq!(scene.goes(0), None);
    assert_eq!(scene.asked(), ["one"]);
    // By now it would be decided for the other pod.
    let elsewhere = |_: &Item| 1;
    assert!(scene.dispatch_by(100, elsewhere).is_none());
    assert!(scene.asked().is_empty(), "there is no other that has room");
    scene.fill(1, 0.0);
    assert!(scene.dispatch_by(99, elsewhere).is_none());
    assert!(scene.asked().is_empty(), "and not before");
    let gone = scene.dispatch_by(100, elsewhere).unwrap();
    assert_eq!((gone.name, gone.pod), ("one", 1));
    assert_eq!(scene.asked(), ["one"]);
}

#[test]
fn each_decision_without_room_begins_the_affinity_wait_anew() {
    let config = FlowConfig::default().affinity_wait(Duration::from_millis(100));
    let mut scene = Scene::new(config, &[1.0, 0.0]);
    scene.push(0, 0, ("one", 0));
    let decided: Vec<u64> = (0..=350)
        .filter(|millis| {
            assert_eq!(scene.goes(*millis), None, "it is decided for its own pod each time");
            !scene.asked().is_empty()
        })
        .collect();
    assert_eq!(decided, [0, 100, 200, 300]);
}

#[test]
fn one_that_cannot_be_decided_fails_and_is_gone() {
    let mut scene = Scene::new(FlowConfig::default(), &[0.0]);
    scene.push(0, 0, ("none", 0));
    scene.push(0, 0, ("next", 0));
    let error = DecideError::NoneOffered { step: "serve".into() };
    let now = scene.at(0);
    let failed = scene.queue.dispatch(&scene.control, &scene.fleet, now, |_, _| Err::<(), _>(error.clone()));
    match failed {
        Some(Dispatched::Fails { item, error: told, .. }) => assert_eq!((item.0, told), ("none", error)),
        other => panic!("{other:?}"),
    }
    assert_eq!(scene.queue.in_order().map(|waiting| waiting.item.0).collect::<Vec<_>>(), ["next"], "it is gone");
    assert_eq!(scene.goes(0), Some(("next", 0)), "and in nobody's way");
}

/// Takes the first pod there is.
struct Any;

impl Picker for Any {
    fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        totals.rank(1, ranking);
        Ok(())
    }
}

/// Counts plans.
struct Count(Arc<AtomicU64>);

impl Recorder for Count {
    fn record(&self, _: &RoutingContext<'_>, _: &PlanStep) -> Result<(), PluginError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn a_plan_without_room_is_not_recorded() {
    let recorded = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&recorded);
    let profile = <ProfileBuilder>::new("serve").picker("any", |_: &mut Declare<'_>| Any);
    let selector = profile.recorder("count", |_: &mut Declare<'_>| Count(count)).build().unwrap();
    let (mut workspace, mut plan) = (selector.workspace(), RoutingPlan::default());

    let mut scene = Scene::new(FlowConfig::default(), &[1.0]);
    scene.push(0, 0, ("one", 0));
    let refusals = Cell::new(0);
    for (millis, full, went, plans) in [(0, 1.0, false, 0), (1, 0.0, true, 1)] {
        scene.fill(0, full);
        let now = scene.at(millis);
        let request = Request::new("m", now);
        let Scene { queue, control, fleet, .. } = &mut scene;
        let dispatched = queue.dispatch(control, fleet, now, |_, room| {
            let has_room = |step: &PlanStep| room.admits(step);
            let input = RoutingInput::new(&request, fleet).with_room(&has_room);
            let decided = selector.decide(&mut workspace, input, &mut plan);
            refusals.set(refusals.get() + u32::from(matches!(decided, Err(DecideError::NoRoom { .. }))));
            decided
        });
        assert_eq!(matches!(dispatched, Some(Dispatched::Goes { .. })), went);
        assert_eq!((recorded.load(Ordering::Relaxed), plan.steps().len() as u64), (plans, plans));
    }
    assert_eq!(refusals.get(), 1, "it was decided, for a pod that had no room");
}

#[test]
fn a_band_with_a_lower_ceiling_gets_no_room_where_a_higher_one_does() {
    let high = BandConfig::new("high").priority(1);
    let low = BandConfig::new("low").ceiling(0.5);
    let mut scene = Scene::new(FlowConfig::default().band(high).band(low), &[0.5]);
    scene.push(0, 1, ("low", 0));
    assert_eq!(scene.goes(0), None);
    scene.push(1, 0, ("high", 0));
    assert_eq!(scene.goes(1), Some(("high", 0)));
    assert_eq!(scene.goes(1), None);
    scene.fill(0, 0.49);
    assert_eq!(scene.goes(2), Some(("low", 0)));
}

#[test]
fn headroom_is_for_those_who_have_less_than_their_share_in_flight() {
    let mut scene = Scene::new(FlowConfig::default().band(BandConfig::new("all").headroom(0.5)), &[0.0]);
    // Three in flight of one key, one of another.
    let mut charges = Vec::new();
    for name in ["heavy", "heavy", "heavy", "light"] {
        scene.push(0, 0, (name, 0));
        charges.push(scene.dispatch(0).unwrap().charge);
    }
    scene.fill(0, 0.6);
    scene.push(1, 0, ("heavy", 0));
    scene.push(1, 0, ("light", 0));
    let ceilings = |scene: &Scene| {
        let mut ceilings: Vec<_> = scene.queue.in_order().map(|waiting| (waiting.item.0, waiting.ceiling)).collect();
        ceilings.sort_by_key(|(name, _)| *name);
        ceilings
    };
    assert_eq!(ceilings(&scene), [("heavy", 0.5), ("light", 1.0)]);
    let light = scene.dispatch(1).unwrap();
    assert_eq!(light.name, "light", "who came later");
    assert_eq!(scene.goes(1), None);
    // The other is over: nobody is left to leave headroom to.
    scene.queue.served(&light.charge, 100);
    scene.queue.served(&charges[3], 100);
    assert_eq!(ceilings(&scene), [("heavy", 1.0)]);
    assert_eq!(scene.goes(2), Some(("heavy", 0)), "three of its own are in flight");
}

#[test]
fn lookahead_bounds_the_decisions_of_one_dispatch() {
    let mut scene = Scene::new(FlowConfig::default().lookahead(3), &[1.0, 0.0]);
    for name in ["a", "b", "c", "d"] {
        scene.push(0, 0, (name, 0));
    }
    scene.push(0, 0, ("e", 1));
    assert_eq!(scene.goes(0), None, "whoever could go is further behind");
    assert_eq!(scene.asked(), ["a", "b", "c"]);
    assert_eq!(scene.goes(1), Some(("e", 1)), "those that wait for their pod are not decided again");
    assert_eq!(scene.asked(), ["d", "e"]);
}

#[test]
fn a_trace_says_why_a_request_waited_and_how_long() {
    let mut scene = Scene::new(FlowConfig::default().lookahead(1), &[1.0, 1.0]);
    let trace = |key: &str, why, millis, ahead| {
        let mut trace = FlowTrace::passed("default".into(), key.into());
        (trace.why, trace.waited, trace.ahead) = (why, Duration::from_millis(millis), ahead);
        trace
    };
    scene.push(0, 0, ("saturated", 0));
    assert_eq!(scene.goes(0), None, "all pods are full");
    scene.push(10, 0, ("affinity", 1));
    assert_eq!(scene.goes(10), None, "it is decided for a pod that is full");
    scene.push(20, 0, ("behind", 0));
    scene.fill(0, 0.0);
    let gone: Vec<_> = (0..2).map(|after| scene.dispatch(40 + after).unwrap()).collect();
    assert_eq!(gone[0].trace, trace("saturated", Waited::Saturated, 40, 0));
    assert_eq!(gone[1].trace, trace("behind", Waited::Behind, 21, 2), "it was not decided before");
    scene.fill(1, 0.0);
    let last = scene.dispatch(50).unwrap();
    assert_eq!(last.trace, trace("affinity", Waited::Saturated, 40, 1), "all pods were full when it came");
    assert_eq!(last.waited, last.trace.waited);
    scene.fill(0, 1.0);
    scene.push(60, 0, ("one", 0));
    assert_eq!(scene.goes(60), None, "another pod has room");
    scene.fill(0, 0.0);
    assert_eq!(scene.dispatch(70).unwrap().trace, trace("one", Waited::Affinity, 10, 0));
    scene.push(80, 0, ("at once", 0));
    assert_eq!(scene.dispatch(80).unwrap().trace, trace("at once", Waited::No, 0, 0));
}
