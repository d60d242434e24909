//! Attained service: whose turn it is by what programs were served, which of a program's requests goes first, and who is passed by how many.

use std::cell::Cell;
use std::time::{Duration, Instant};

use kv_index::{Config, Index, Pod};
use proptest::prelude::*;
use routing_core::flow::{
    BandConfig, FlowConfig, FlowControl, FlowOrder, FlowQueue, FlowRequest, QueueLimits, Room, SaturationDetector,
    ServiceLevels,
};
use routing_core::{DecideError, Fleet, PlanStep, PodInfo, ProgramTurn, Role};

/// A pod that has no room: decisions about it tell programs, and what it holds.
pub(crate) struct FullFleet {
    pod: Pod,
    versions: Cell<u64>,
    control: FlowControl,
}

#[derive(Debug)]
struct Full;

impl SaturationDetector for Full {
    fn has_room(&self, _: &Fleet, _: Pod, _: f32, _: Instant) -> bool {
        false
    }
}

impl FullFleet {
    pub(crate) fn new(config: FlowConfig) -> Self {
        let index: Index = Index::new(Config::default());
        let pod = index.join("pod").unwrap();
        Self { pod, versions: Cell::new(0), control: FlowControl::new(config).detector(Full) }
    }

    pub(crate) fn fleet(&self) -> Fleet {
        self.versions.set(self.versions.get() + 1);
        Fleet::new(self.versions.get(), [PodInfo::new(self.pod, "pod")])
    }

    /// Decides about all that wait, since the fleet is another one each time.
    pub(crate) fn decide<T>(&self, queue: &mut FlowQueue<T>, now: Instant, about: impl Fn(&T, &mut PlanStep)) {
        let decide = |item: &T, room: &Room| {
            let mut step = PlanStep::new("serve", Role::Both, &[self.pod]);
            about(item, &mut step);
            assert!(!room.admits(&step));
            Err::<(), _>(DecideError::NoRoom { step: step.name })
        };
        assert!(queue.dispatch(&self.control, &self.fleet(), now, decide).is_none());
    }
}

/// A turn of one of some programs.
pub(crate) fn turn() -> impl Strategy<Value = ProgramTurn> {
    let service = prop_oneof![0..2_000_u64, 0..u64::MAX];
    (0..4_u64, service, prop_oneof![4 => Just(0), 4 => 0..20_u32, 1 => any::<u32>()])
        .prop_map(|(program, service, remaining)| of(program, service).remaining(remaining))
}

fn of(program: u64, service: u64) -> ProgramTurn {
    ProgramTurn::new(program, program, 100).service(service)
}

fn config(levels: ServiceLevels) -> FlowConfig {
    let order = FlowOrder::AttainedService(levels);
    FlowConfig::default().band(BandConfig::new("all").order(order).time_to_live(Duration::from_secs(86_400)))
}

/// A queue by levels of 100 tokens, each of which counts as 10 s.
struct Scene {
    queue: FlowQueue<&'static str>,
    start: Instant,
}

impl Scene {
    fn new() -> Self {
        let config = config(ServiceLevels::default().first_level(100).aging(Duration::from_secs(10)));
        Self { queue: FlowQueue::new(config).unwrap(), start: Instant::now() }
    }

    fn push(&mut self, second: u64, name: &'static str, turn: ProgramTurn) {
        let now = self.start + Duration::from_secs(second);
        self.queue.push(FlowRequest::new(0, "k", 100).program(turn), name, now).ticket.unwrap();
    }

    fn order(&self) -> Vec<&'static str> {
        self.queue.in_order().map(|waiting| *waiting.item).collect()
    }

    fn remove(&mut self, name: &str) {
        let ticket = self.queue.in_order().find(|waiting| *waiting.item == name).unwrap().ticket;
        self.queue.remove(ticket).unwrap();
    }

    fn take(&mut self) -> &'static str {
        let first = self.queue.next_ticket().unwrap();
        self.queue.take(first, self.start).unwrap().item
    }
}

#[test]
fn programs_that_were_served_least_go_first_and_within_a_level_who_came_first() {
    let mut scene = Scene::new();
    scene.push(0, "long", of(1, 5_000));
    scene.push(1, "middle", of(2, 390));
    scene.push(2, "as much as the middle", of(3, 201));
    scene.push(3, "new", of(4, 0));
    assert_eq!(scene.order(), ["new", "middle", "as much as the middle", "long"]);
    // The long one is six levels up, and one that comes a minute later is behind it.
    scene.push(61, "newer", of(5, 0));
    assert_eq!(scene.order(), ["new", "middle", "as much as the middle", "long", "newer"]);
}

#[test]
fn of_a_program_that_goes_first_which_most_waits_for_and_nobody_else_is_passed_for_it() {
    let mut scene = Scene::new();
    scene.push(0, "leaf", of(1, 50));
    scene.push(1, "another program's", of(2, 50));
    scene.push(2, "two follow", of(1, 50).remaining(2));
    scene.push(3, "nine follow", of(1, 50).remaining(9));
    assert_eq!(scene.order(), ["nine follow", "another program's", "two follow", "leaf"]);
    // A turn leaves with whoever has it: the first one's is gone.
    assert_eq!(scene.take(), "nine follow");
    assert_eq!(scene.order(), ["another program's", "two follow", "leaf"]);
    scene.push(4, "eight follow", of(1, 50).remaining(8));
    assert_eq!(scene.order(), ["another program's", "eight follow", "two follow", "leaf"]);
}

#[test]
fn the_last_of_several_goes_a_level_earlier() {
    let mut scene = Scene::new();
    scene.push(0, "before", of(2, 50));
    ["a", "b", "c"].into_iter().for_each(|name| scene.push(5, name, of(1, 50)));
    assert_eq!(scene.order(), ["before", "a", "b", "c"]);
    let full = FullFleet::new(scene.queue.config().clone());
    for (at, left) in [("a", vec!["before", "b", "c"]), ("b", vec!["c", "before"])] {
        scene.remove(at);
        assert_eq!(scene.order(), left);
    }
    let now = scene.start + Duration::from_secs(6);
    let admit = FlowControl::new(scene.queue.config().clone());
    let went = scene.queue.dispatch(&admit, &full.fleet(), now, |_, _| Ok(())).unwrap();
    let routing_core::flow::Dispatched::Goes { trace, .. } = went else { panic!("{went:?}") };
    let told = trace.program.unwrap();
    assert_eq!((told.service, told.level, told.remaining, told.is_last), (50, 0, 0, true));
}

#[test]
fn a_turn_gets_no_earlier_than_who_brought_it_however_many_are_last_with_it() {
    let mut scene = Scene::new();
    scene.push(0, "other", of(2, 50));
    ["a", "b"].into_iter().for_each(|name| scene.push(15, name, of(1, 50)));
    scene.remove("b");
    // By its own turn it would go at 25 s, and as the last one at 15.
    assert_eq!(scene.order(), ["other", "a"]);
    for (second, name, last) in [(16, "c", "a"), (17, "d", "c"), (18, "e", "d")] {
        scene.push(second, name, of(1, 50).remaining(second as u32 - 15));
        assert_eq!(scene.order(), ["other", name, last]);
        scene.remove(last);
        assert_eq!(scene.order(), ["other", name]);
    }
}

/// Whoever comes later goes later, so that nobody else of its program moves. To give out all turns anew for each takes minutes of this.
#[test]
fn a_long_queue_of_one_program_takes_no_longer_for_each() {
    let config = config(ServiceLevels::default()).limits(QueueLimits::default().requests(usize::MAX));
    let band = config.bands[0].clone().limits(config.limits);
    let mut queue = FlowQueue::new(FlowConfig::default().band(band).limits(config.limits)).unwrap();
    let start = Instant::now();
    for at in 0..20_000 {
        let now = start + Duration::from_millis(at);
        queue.push(FlowRequest::new(0, "k", 1).program(of(1, at)), at, now).ticket.unwrap();
    }
    assert!(queue.reconfigure(queue.config().clone(), start + Duration::from_secs(20)).unwrap().is_empty());
    assert!(queue.in_order().map(|waiting| *waiting.item).eq(0..20_000));
}

#[test]
fn who_is_not_known_yet_goes_last_and_who_is_of_no_program_as_one_that_begins() {
    let mut scene = Scene::new();
    scene.queue.push(FlowRequest::new(0, "k", 100), "unknown", scene.start).ticket.unwrap();
    scene.push(1, "served", of(1, 300));
    assert_eq!(scene.order(), ["served", "unknown"]);
    let full = FullFleet::new(scene.queue.config().clone());
    full.decide(&mut scene.queue, scene.start, |_, _| {});
    assert_eq!(scene.order(), ["unknown", "served"]);
}

/// What happens after a request came: the first goes, or one out of turn, since another pod has room, or one's client leaves.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    First,
    OutOfTurn(usize),
    Removed(usize),
}

fn leaves() -> impl Strategy<Value = Leaves> {
    prop_oneof![
        3 => Just(Leaves::First),
        1 => (0..6_usize).prop_map(Leaves::OutOfTurn),
        2 => (0..6_usize).prop_map(Leaves::Removed),
    ]
}

proptest! {
    /// Nobody starves: of all others of its key, no more go in turn before a request than come within 33 agings of it, whatever they were served,
    /// whatever their clients tell, and whoever leaves. Before one that begins and is of no program, than come within one.
    #[test]
    fn whoever_waits_is_passed_by_a_bounded_number(
        aging in 1..40_u64,
        steps in prop::collection::vec(
            (0..60_u64, prop::option::of((turn(), any::<bool>())), prop::collection::vec(leaves(), 0..3)),
            1..150,
        ),
    ) {
        let aging = Duration::from_millis(aging);
        let config = config(ServiceLevels::default().first_level(100).aging(aging));
        let (full, mut queue) = (FullFleet::new(config.clone()), FlowQueue::new(config).unwrap());
        // Of each that came: when, and how many had gone in turn when it left.
        let (mut now, mut came, mut left, mut gone) = (Instant::now(), Vec::new(), Vec::new(), 0_usize);
        let mut turns: Vec<Option<ProgramTurn>> = Vec::new();
        let leave = |queue: &mut FlowQueue<usize>, leaves, gone: &mut usize, now| {
            let nth = |queue: &FlowQueue<usize>, at| Some(queue.in_order().nth(at)?.ticket);
            Some(match leaves {
                Leaves::First => {
                    let item = queue.take(nth(queue, 0)?, now)?.item;
                    *gone += 1;
                    (item, *gone - 1)
                }
                Leaves::OutOfTurn(at) => (queue.take(nth(queue, at)?, now)?.item, *gone),
                Leaves::Removed(at) => (queue.remove(nth(queue, at)?)?, *gone),
            })
        };
        for (millis, turn, who) in steps {
            now += Duration::from_millis(millis);
            let mut request = FlowRequest::new(0, "k", 100);
            request.program = turn.filter(|(_, is_known)| *is_known).map(|(turn, _)| turn);
            turns.push(turn.map(|(turn, _)| turn));
            queue.push(request, came.len(), now).ticket.unwrap();
            came.push(now);
            full.decide(&mut queue, now, |item, step| step.program = turns[*item]);
            left.extend(who.into_iter().filter_map(|who| leave(&mut queue, who, &mut gone, now)));
        }
        left.extend(std::iter::from_fn(|| leave(&mut queue, Leaves::First, &mut gone, now)));
        prop_assert_eq!(left.len(), came.len());
        for (item, gone) in left {
            let agings = if turns[item].is_none() { 1 } else { 33 };
            let bound = came.iter().filter(|one| **one <= came[item] + agings * aging).count() - 1;
            prop_assert!(gone <= bound, "{} went before {}: {} at most", gone, item, bound);
        }
    }
}
