//! The plugins in a profile: programs that are found, entered, placed, and have to wait.

use std::sync::Arc;

use kv_index::BlockSize;
use routing_core::flow::{SaturationDetector, Wanted};
use routing_core::{Fleet, PodInfo, Request, RoutingInput, RoutingPlan, Workflow, Workspace};

use super::*;
use crate::flow::{WorkingSetDetector, WorkingSetLimits};
use crate::load::Work;
use crate::{Hashing, PluginState, profiles};

/// Two pods with caches of so many tokens each, in blocks of 64.
struct Fixture {
    state: PluginState,
    fleet: Fleet,
    pods: Vec<Pod>,
    workflow: Workflow,
    workspace: Workspace,
    now: Instant,
    seed: u64,
}

impl Fixture {
    fn new(cache: u64) -> Self {
        let index: Arc<Index> = Arc::new(Index::new(Config::default()));
        let pods: Vec<Pod> = (0..2).map(|at| index.join(&format!("pod-{at}")).unwrap()).collect();
        let fleet = Fleet::new(1, pods.iter().map(|&pod| PodInfo::new(pod, "pod").kv_tokens(cache)));
        let state = PluginState::new(index, Hashing::Given(BlockSize::new(64).unwrap()));
        let workflow: Workflow = profiles::programs(&state).build().unwrap().into();
        Self { workspace: workflow.workspace(), state, fleet, pods, workflow, now: start(), seed: 1 }
    }

    fn send(&mut self, blocks: std::ops::Range<u64>, headers: &[(&str, &str)]) -> routing_core::PlanStep {
        let hashes: Vec<BlockHash> = blocks.map(BlockHash::new).collect();
        let request = Request::new("m", self.now).hashes(&hashes).headers(&headers).seed(self.seed);
        self.seed += 1;
        let mut plan = RoutingPlan::default();
        self.workflow.decide(&mut self.workspace, RoutingInput::new(&request, &self.fleet), &mut plan).unwrap();
        plan.steps()[0].clone()
    }
}

#[test]
fn a_plan_says_whose_turn_it_is_and_a_context_goes_where_there_is_room() {
    let mut fixture = Fixture::new(100_000);
    let first = fixture.send(0..1_000, &[("x-session-id", "a")]);
    let turn = first.program.unwrap();
    assert_eq!(turn.tokens, 64_000);
    let home = first.candidates[0].pod;
    fixture.state.programs.end(&turn, Some(100), fixture.now);
    // Nothing is under way, and the other pod has all of its cache for it.
    for _ in 0..8 {
        let other = fixture.send(5_000..6_000, &[("x-session-id", "b")]);
        assert_ne!(other.candidates[0].pod, home);
        fixture.state.programs.end_before(&other.program.unwrap(), None, Pause::Over, fixture.now);
    }
    assert_eq!(fixture.state.programs.stats().contexts, 2);
}

#[test]
fn a_turn_has_what_its_program_was_served_and_what_its_client_tells() {
    let mut fixture = Fixture::new(100_000);
    let first = fixture.send(0..100, &[("x-session-id", "a"), ("x-remaining-turns", "3")]).program.unwrap();
    assert_eq!((first.service, first.remaining), (0, 3));
    fixture.state.programs.end(&first, Some(36), fixture.now);
    // Expected on the pod, as it is: what it holds is not computed.
    fixture.now += Duration::from_secs(1);
    let second = fixture.send(0..120, &[("x-session-id", "a"), ("x-remaining-turns", "all")]).program.unwrap();
    assert_eq!((second.service, second.remaining), (6_436, 0));
    fixture.state.programs.end(&second, Some(0), fixture.now);
    assert_eq!(fixture.send(0..130, &[("x-session-id", "a")]).program.unwrap().service, 6_436 + 20 * 64);
}

#[test]
fn a_request_of_no_program_is_routed_all_the_same() {
    let mut fixture = Fixture::new(100_000);
    assert_eq!(fixture.send(0..0, &[]).program, None);
    assert_eq!(fixture.state.programs.stats(), ProgramStats::default());
    assert!(fixture.send(0..0, &[("x-conversation-id", "c")]).program.is_some());
}

#[test]
fn who_does_not_fit_waits_unless_it_is_warm_or_the_pod_is_idle() {
    let mut fixture = Fixture::new(100_000);
    let step = fixture.send(0..1_000, &[]);
    let pod = step.candidates[0].pod;
    let detector = WorkingSetDetector::new(WorkingSetLimits::default(), &fixture.state);
    let mut wanted = Wanted::of(&step).unwrap();
    let admits = |wanted: &Wanted| detector.admits(&fixture.fleet, wanted, fixture.now);
    // Another of 600 blocks, on the same pod.
    wanted.program = Some(ProgramTurn::new(99, 99, 38_400));
    (wanted.held, wanted.blocks) = (0, 600);
    assert!(admits(&wanted), "the pod is idle");
    let _load = fixture.state.load.begin(pod, Work::of(64_000));
    assert!(!admits(&wanted), "64,000 and 38,400 are more than 100,000");
    wanted.held = 300;
    assert!(admits(&wanted), "half of it is there");
    (wanted.held, wanted.program) = (0, None);
    assert!(admits(&wanted), "nobody knows whose it is");
    wanted.program = Some(ProgramTurn::new(99, 99, 30_000));
    assert!(admits(&wanted), "it fits");
    let half = WorkingSetLimits::default().share(crate::Positive::new(0.5).unwrap());
    assert!(!WorkingSetDetector::new(half, &fixture.state).admits(&fixture.fleet, &wanted, fixture.now));
    let mut waited = wanted;
    waited.waited = Duration::from_secs(300);
    assert!(detector.admits(&fixture.fleet, &waited, fixture.now), "it waited for long");
    // Of what is not known nobody is kept from.
    let unknown = Fleet::new(2, fixture.pods.iter().map(|&pod| PodInfo::new(pod, "pod")));
    wanted.program = Some(ProgramTurn::new(99, 99, 900_000));
    assert!(detector.admits(&unknown, &wanted, fixture.now));
    assert!(!detector.admits(&fixture.fleet, &wanted, fixture.now));
}
