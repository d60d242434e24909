//! Profiles of one step.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use kv_index::Pod;
use routing_core::{
    Declare, Fleet, PluginError, PodInfo, Request, RoutingContext, RoutingInput, RoutingPlan, Scorer, Scores, Selector,
};
use routing_plugins::{PluginState, profiles};

use super::world::{Sent, World, prompt, state};

fn world(pods: usize, profile: impl FnOnce(&PluginState) -> routing_core::ProfileBuilder) -> World {
    let state = state();
    let workflow = profile(&state).build().expect("a ready profile builds");
    assert!(workflow.warnings().is_empty(), "{:?}", workflow.warnings());
    World::new(state, pods, |_, info| info, workflow.into())
}

/// A fleet of six with every profile: who is ill, drains or fails is given nothing.
#[test]
fn no_profile_asks_a_pod_that_is_ill_or_leaves_or_fails() {
    let all: [fn(&PluginState) -> routing_core::ProfileBuilder; 7] = [
        profiles::round_robin,
        profiles::least_load,
        profiles::consistent_hash,
        profiles::first_token,
        profiles::cache_aware,
        profiles::cache_aware_sticky,
        profiles::sticky_least_loaded,
    ];
    for profile in all {
        let mut world = world(6, profile);
        world.change("pod-0", |info| info.healthy = false);
        world.change("pod-1", |info| info.draining = true);
        world.state.open_breakers.open(world.pod("pod-2").id());
        // Held there, so that nothing but the filters keeps requests away.
        for pod in ["pod-0", "pod-1", "pod-2"] {
            world.store(world.pod(pod), &prompt(1, 8));
        }
        for _ in 0..40 {
            let sent = world.send(&prompt(1, 8));
            let step = &sent.plan.steps()[0];
            let asked: Vec<usize> = step.candidates.iter().map(|candidate| candidate.pod.id().index()).collect();
            assert!(asked.iter().all(|pod| *pod >= 3), "{}: {asked:?}", step.name);
        }
    }
}

#[test]
fn round_robin_takes_turns_also_when_a_pod_leaves() {
    let mut world = world(3, profiles::round_robin);
    let take = |world: &mut World, turns: usize| -> Vec<String> {
        (0..turns).map(|_| world.send(&[]).to("round_robin")).collect()
    };
    let six = take(&mut world, 6);
    assert_eq!(six[..3].iter().collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(six[..3], six[3..]);
    world.die("pod-1");
    let four = take(&mut world, 4);
    assert_ne!(four[0], four[1]);
    assert_eq!(four[..2], four[2..]);
}

#[test]
fn round_robin_goes_on_when_the_workflow_is_replaced() {
    let state = state();
    let mut turns = Vec::new();
    let pods = (0..4).map(|at| PodInfo::new(state.index.join(&at.to_string()).expect("room"), "p"));
    let fleet = Fleet::new(1, pods.collect::<Vec<_>>());
    #[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
    let now = Instant::now();
    for _ in 0..8 {
        let (workflow, mut plan) = (profiles::round_robin(&state).build().expect("it fits"), RoutingPlan::default());
        workflow
            .decide(&mut workflow.workspace(), RoutingInput::new(&Request::new("m", now), &fleet), &mut plan)
            .expect("a plan");
        turns.push(plan.steps()[0].candidates[0].pod.id().index());
    }
    assert_eq!(turns, [0, 1, 2, 3, 0, 1, 2, 3]);
}

#[test]
fn least_load_counts_what_is_under_way_and_what_engines_report() {
    let mut world = world(3, profiles::least_load);
    let first = world.send(&[]);
    let second = world.send(&[]);
    let third = world.send(&[]);
    let places: BTreeSet<String> = [&first, &second, &third].map(|sent| sent.to("least_load")).into();
    assert_eq!(places.len(), 3, "each goes where nothing is under way");
    let freed = second.to("least_load");
    world.done(second);
    assert_eq!(world.send(&[]).to("least_load"), freed);
    // Another gateway's requests show in the engine's report.
    drop((first, third));
    world.change("pod-0", |info| info.load.waiting = 5);
    world.change("pod-2", |info| info.load.running = 1);
    assert_eq!(world.send(&[]).to("least_load"), "pod-1");
}

#[test]
fn consistent_hash_keeps_sessions_in_place_and_moves_only_those_of_a_pod_that_dies() {
    let mut world = world(5, profiles::consistent_hash);
    let place = |world: &mut World, session: usize| world.send_as(&[], &format!("s-{session}")).to("consistent_hash");
    let before: Vec<String> = (0..200).map(|session| place(&mut world, session)).collect();
    assert_eq!(before, (0..200).map(|session| place(&mut world, session)).collect::<Vec<_>>());
    world.die("pod-3");
    for (session, was) in before.iter().enumerate() {
        let is = place(&mut world, session);
        assert!(is == *was || *was == "pod-3", "session {session} moved from {was} to {is}");
    }
}

#[test]
fn consistent_hash_keeps_a_growing_conversation_without_a_session_in_place() {
    let mut world = world(16, profiles::consistent_hash);
    let all = prompt(1, 20);
    let places: BTreeSet<_> = [32, 40, 90, 150, 250].map(|turn| world.send(&all[..turn]).to("consistent_hash")).into();
    assert_eq!(places.len(), 1, "{places:?}");
}

/// By load alone, and counted; and not refused.
#[test]
fn a_request_without_tokens_is_routed_by_every_profile() {
    for profile in [profiles::cache_aware, profiles::cache_aware_sticky, profiles::sticky_least_loaded] {
        let mut world = world(3, profile);
        let busy = ["pod-0", "pod-2"].map(|pod| world.state.load.begin(world.pod(pod), Default::default()));
        let plan = world.decide(Request::new("m", world.now()).body(b"{}"), &[]).expect("it is routed");
        assert_eq!(plan.steps()[0].candidates[0].pod, world.pod("pod-1"));
        assert_eq!(world.state.tokenize_failures.load(Ordering::Relaxed), 1);
        drop(busy);
    }
}

#[test]
fn consistent_hash_gives_no_pod_more_than_its_share() {
    let mut world = world(4, profiles::consistent_hash);
    let sent: Vec<_> = (0..100).map(|_| world.send_as(&[], "the same")).collect();
    for pod in 0..4 {
        let name = format!("pod-{pod}");
        let count = sent.iter().filter(|sent| sent.to("consistent_hash") == name).count();
        assert!(count <= 32, "{name} has {count} of 100: more than a quarter above the mean");
    }
}

#[test]
fn consistent_hash_refuses_when_every_pod_is_at_its_cap() {
    let mut world = world(2, profiles::consistent_hash);
    for pod in ["pod-0", "pod-1"] {
        world.change(pod, |info| info.load.running = 256);
    }
    let request = Request::new("m", world.now()).tokens(&[]);
    assert!(world.decide(request, &[]).is_err_and(|error| error.to_string().contains("cap")));
}

#[test]
fn cache_aware_starts_cold_then_sticks_though_another_pod_is_idler_and_recovers() {
    let mut world = world(4, profiles::cache_aware);
    let (conversation, longer) = (prompt(1, 40), prompt(1, 44));
    let first = world.send(&conversation);
    let home = first.to("cache_aware");
    world.done(first);
    // Busier than the others, and still the best place.
    let busy: Vec<_> = (0..8).map(|_| world.send(&conversation)).collect();
    assert!(busy.iter().all(|sent| sent.to("cache_aware") == home), "a held prompt is worth a few requests");
    let second = world.send(&longer);
    assert_eq!(second.to("cache_aware"), home);
    assert_eq!(second.plan.steps()[0].cache.map(|cache| (cache.held, cache.blocks)), Some((40, 44)));
    // The pod reports that it evicted the prompt: it is a busy pod like any other.
    world.evict(&home, &conversation);
    let third = world.send(&longer);
    assert_ne!(third.to("cache_aware"), home);
    // A pod that dies is forgotten, and the conversation finds a new home.
    let new_home = third.to("cache_aware");
    world.done(third);
    drop((second, busy));
    assert_eq!(world.send(&longer).to("cache_aware"), new_home);
    world.die(&new_home);
    let fourth = world.send(&longer);
    let last_home = fourth.to("cache_aware");
    assert_ne!(last_home, new_home);
    world.done(fourth);
    assert_eq!(world.send(&longer).to("cache_aware"), last_home);
}

#[test]
fn first_token_follows_the_cache_and_leaves_a_pod_that_is_behind() {
    let mut world = world(4, profiles::first_token);
    let long = prompt(1, 3_000);
    let home = world.send(&long).to("first_token");
    world.store(world.pod(&home), &long);
    assert_eq!(world.send(&long).to("first_token"), home, "computing it again takes longer");
    // Prompts of many seconds each, which wait for their first tokens.
    let mut sent: Vec<Sent> = (2..6).map(|other| world.send(&prompt(other, 9_000))).collect();
    let homes: BTreeSet<String> = sent.iter().map(|sent| sent.to("first_token")).collect();
    assert_eq!(homes.len(), 4, "each where nothing else is queued");
    assert_eq!(world.send(&long).to("first_token"), home, "all are as far behind");
    sent.retain(|sent| sent.to("first_token") == home);
    assert_ne!(world.send(&long).to("first_token"), home, "computing it again is sooner than waiting so long");
    sent.clear();
    assert_eq!(world.send(&long).to("first_token"), home, "nothing waits there any more");
}

#[test]
fn cache_aware_relieves_a_hot_spot() {
    let mut world = world(4, profiles::cache_aware);
    let shared = prompt(7, 64);
    world.store(world.pod("pod-2"), &shared);
    let sent: Vec<_> = (0..60).map(|_| world.send(&shared)).collect();
    let on = |pod: &str| sent.iter().filter(|sent| sent.to("cache_aware") == pod).count();
    assert!(on("pod-2") >= 25, "{} stay where the prompt is", on("pod-2"));
    assert!(on("pod-2") <= 40, "{} of 60 on one pod of four", on("pod-2"));
}

#[test]
fn cache_aware_sticky_keeps_a_session_whose_prompt_was_evicted_and_rebinds_when_its_pod_dies() {
    let mut world = world(4, profiles::cache_aware_sticky);
    let first = world.send_as(&prompt(1, 20), "s");
    let home = first.to("cache_aware_sticky");
    world.done(first);
    world.evict(&home, &prompt(1, 20));
    let elsewhere = if home == "pod-0" { "pod-1" } else { "pod-0" };
    world.store(world.pod(elsewhere), &prompt(1, 20));
    assert_eq!(world.send_as(&prompt(1, 24), "s").to("cache_aware_sticky"), home, "though another pod holds it now");
    assert_eq!(world.send_as(&prompt(1, 24), "t").to("cache_aware_sticky"), elsewhere, "a new session goes by cache");
    world.die(&home);
    let after = world.send_as(&prompt(1, 24), "s").to("cache_aware_sticky");
    assert_eq!(after, elsewhere);
    world.pass(Duration::from_secs(301));
    world.evict(elsewhere, &prompt(1, 20));
    let busy: Vec<_> = (0..6).map(|_| world.state.load.begin(world.pod(elsewhere), Default::default())).collect();
    assert_ne!(world.send_as(&prompt(1, 24), "s").to("cache_aware_sticky"), elsewhere, "long idle, it is forgotten");
    drop(busy);
}

#[test]
fn sticky_least_loaded_sends_a_burst_of_one_new_prompt_to_one_pod() {
    let mut world = world(8, profiles::sticky_least_loaded);
    let burst: Vec<_> = (0..10).map(|_| world.send(&prompt(3, 32))).collect();
    let places: BTreeSet<String> = burst.iter().map(|sent| sent.to("sticky_least_loaded")).collect();
    assert_eq!(places.len(), 1, "the first is entered at once, and the others follow: {places:?}");
    let other = world.send(&prompt(4, 32)).to("sticky_least_loaded");
    assert!(!places.contains(&other), "another new prompt goes where least is under way");
}

/// While one decision is under way, another of the same prompt is made: what two threads do.
struct Meanwhile {
    workflow: Arc<OnceLock<Arc<Selector>>>,
    fleet: Arc<Fleet>,
    now: Instant,
    begun: AtomicBool,
    went: Arc<Mutex<Option<Pod>>>,
}

impl Scorer for Meanwhile {
    fn score(&self, _: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        if !self.begun.swap(true, Ordering::SeqCst) {
            let (workflow, tokens) = (self.workflow.get().expect("it was built"), prompt(1, 8));
            let (mut plan, request) = (RoutingPlan::default(), Request::new("m", self.now).tokens(&tokens).seed(77));
            workflow
                .decide(&mut workflow.workspace(), RoutingInput::new(&request, &self.fleet), &mut plan)
                .expect("a plan");
            *self.went.lock().expect("not poisoned") = Some(plan.steps()[0].candidates[0].pod);
        }
        Ok(())
    }
}

#[test]
fn sticky_least_loaded_sends_two_of_one_new_prompt_to_one_pod_that_are_decided_at_once() {
    #[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
    let now = Instant::now();
    for seed in 0..20 {
        let state = state();
        let pods = (0..8).map(|at| PodInfo::new(state.index.join(&at.to_string()).expect("room"), "p"));
        let fleet = Arc::new(Fleet::new(1, pods.collect::<Vec<_>>()));
        let (cell, went) = (Arc::new(OnceLock::new()), Arc::new(Mutex::new(None)));
        let meanwhile = Meanwhile {
            workflow: Arc::clone(&cell),
            fleet: Arc::clone(&fleet),
            now,
            begun: AtomicBool::new(false),
            went: Arc::clone(&went),
        };
        let profile = profiles::sticky_least_loaded(&state);
        let workflow = profile.scorer("meanwhile", 0.001, |_: &mut Declare<'_>| meanwhile).build().expect("it fits");
        let workflow = Arc::new(workflow);
        cell.set(Arc::clone(&workflow)).expect("set once");
        let (mut plan, tokens) = (RoutingPlan::default(), prompt(1, 8));
        let request = Request::new("m", now).tokens(&tokens).seed(seed);
        workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet), &mut plan).expect("a plan");
        assert_eq!(Some(plan.steps()[0].candidates[0].pod), *went.lock().expect("not poisoned"), "seed {seed}");
    }
}

#[test]
fn sticky_least_loaded_forgets_what_no_event_confirms() {
    let mut world = world(8, profiles::sticky_least_loaded);
    let first = world.send(&prompt(3, 32));
    let place = first.to("sticky_least_loaded");
    world.pass(Duration::from_millis(2_001));
    let second = world.send(&prompt(3, 32));
    assert_ne!(second.to("sticky_least_loaded"), place, "the first is still under way there, and nothing is held");
    // With events it stays.
    let home = second.to("sticky_least_loaded");
    world.done(second);
    world.pass(Duration::from_secs(60));
    drop(world.send(&prompt(9, 32)));
    assert_eq!(world.send(&prompt(3, 32)).to("sticky_least_loaded"), home);
}

#[test]
fn sticky_least_loaded_takes_the_least_loaded_of_those_that_hold_the_prompt() {
    let mut world = world(4, profiles::sticky_least_loaded);
    for pod in ["pod-1", "pod-3"] {
        world.store(world.pod(pod), &prompt(5, 16));
    }
    let sent: Vec<_> = (0..4).map(|_| world.send(&prompt(5, 16)).to("sticky_least_loaded")).collect();
    assert!(sent.iter().all(|place| place == "pod-1" || place == "pod-3"), "{sent:?}");
    let held: Vec<_> = (0..4).map(|_| world.send(&prompt(5, 16))).collect();
    let on = |pod: &str| held.iter().filter(|sent| sent.to("sticky_least_loaded") == pod).count();
    assert_eq!((on("pod-1"), on("pod-3")), (2, 2));
}

/// What a profile is told of pods may be anything.
#[test]
fn odd_reports_do_no_harm() {
    let state = state();
    let workflow = profiles::cache_aware(&state).build().expect("a ready profile builds");
    let odd = |at: usize, info: PodInfo| {
        let kv_used = [f32::NAN, f32::INFINITY, -1.0, 0.5][at];
        info.load(routing_core::Load { running: u32::MAX, waiting: u32::MAX, tokens: u64::MAX, kv_used })
    };
    let mut world = World::new(state, 4, odd, workflow.into());
    assert!(world.send(&prompt(1, 4)).try_to("cache_aware").is_some());
}
