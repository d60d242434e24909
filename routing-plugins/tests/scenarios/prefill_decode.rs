//! Profiles that send a request to a prefill pod and then to a decode pod.

use routing_core::{FailurePolicy, PodInfo, Role};
use routing_plugins::profiles;

use super::world::{World, prompt, state};

/// Two prefill pods (0, 1) and four decode pods (2 to 5): 0, 2, 3 in one zone, 1, 4, 5 in another; 1 and 5 share a host.
fn place(at: usize, info: PodInfo) -> PodInfo {
    let zone = if [0, 2, 3].contains(&at) { "a" } else { "b" };
    let host = if [1, 5].contains(&at) { "h-shared".to_owned() } else { format!("h-{at}") };
    let role = if at < 2 { Role::Prefill } else { Role::Decode };
    info.role(role).label("zone", zone).label("host", &host)
}

fn split() -> World {
    let state = state();
    let workflow = profiles::prefill_decode(&state).build().expect("a ready profile builds");
    assert!(workflow.warnings().is_empty(), "{:?}", workflow.warnings());
    World::new(state, 6, place, workflow)
}

#[test]
fn decode_is_near_the_prefill_pod_and_prefill_is_where_the_prompt_is() {
    let mut world = split();
    world.store(world.pod("pod-1"), &prompt(1, 200));
    let sent = world.send(&prompt(1, 220));
    assert_eq!((sent.to("prefill"), sent.to("decode")), ("pod-1".to_owned(), "pod-5".to_owned()));
    let order: Vec<&str> = sent.plan.steps().iter().map(|step| &*step.name).collect();
    assert_eq!(order, ["prefill", "decode"]);
    assert_eq!(sent.plan.steps()[0].on_failure, FailurePolicy::Skip);
}

#[test]
fn a_full_decode_pod_is_passed_over_though_it_is_near() {
    let mut world = split();
    world.store(world.pod("pod-1"), &prompt(1, 200));
    world.change("pod-5", |info| {
        info.load.running = 64;
        info.load.kv_used = 0.97;
    });
    assert_ne!(world.send(&prompt(1, 220)).to("decode"), "pod-5");
}

#[test]
fn prompts_are_spread_over_prefill_pods_by_what_they_have_to_compute() {
    let mut world = split();
    let first = world.send(&prompt(1, 200));
    let second = world.send(&prompt(2, 200));
    assert_ne!(first.to("prefill"), second.to("prefill"));
}

/// Six pods apart, on each of whose decode pods so many requests are under way with 4,000 tokens each.
fn conditional(decoding: u32) -> World {
    let state = state();
    let workflow = profiles::prefill_decode_conditional(&state).build().expect("a ready profile builds");
    assert!(workflow.warnings().is_empty(), "{:?}", workflow.warnings());
    let mut world = World::new(state, 6, place, workflow);
    for pod in 2..6 {
        world.change(&format!("pod-{pod}"), |info| {
            (info.load.running, info.load.tokens) = (decoding, u64::from(decoding) * 4_000)
        });
    }
    world
}

#[test]
fn a_prompt_goes_to_another_pod_first_where_that_costs_less() {
    let mut world = conditional(60);
    // Cold and long: both pods, and prefill first.
    let cold = world.send(&prompt(1, 500));
    assert!(cold.try_to("prefill").is_some());
    assert_eq!(&*cold.plan.steps()[0].name, "prefill");
    world.done(cold);
    // The decode pod holds it now: what is new is a block, and not worth the handoff.
    assert_eq!(world.send(&prompt(1, 501)).try_to("prefill"), None);
    assert_eq!(world.send(&prompt(2, 1)).try_to("prefill"), None);
    // Nobody to keep waiting.
    assert_eq!(conditional(0).send(&prompt(1, 500)).try_to("prefill"), None);
}

/// What the first pod of two computes is queued and entered there, and not at the second, which gets it when it is computed.
#[test]
fn a_handoff_is_queued_and_entered_where_it_is_computed() {
    let mut world = conditional(60);
    let cold = world.send(&prompt(1, 500));
    let (prefill, decode) = (cold.to("prefill"), cold.to("decode"));
    let held = |world: &World, pod: &str| world.state.index.has_speculated(world.pod(pod));
    assert!(held(&world, &prefill) && !held(&world, &decode));
    // A crowd on it: the same pod computes what they share, for whoever answers.
    let next = world.send(&prompt(1, 505));
    assert_eq!(next.try_to("prefill").unwrap_or(next.to("decode")), prefill);
    // One that stays where it is decided is queued and entered there.
    let mut world = conditional(0);
    let alone = world.send(&prompt(1, 500));
    assert_eq!(alone.try_to("prefill"), None);
    assert!(held(&world, &alone.to("decode")));
}

/// Four pods that do both, and so many requests under way on each.
fn both(decoding: [u32; 4]) -> World {
    let state = state();
    let workflow = profiles::prefill_decode_conditional(&state).build().expect("a ready profile builds");
    let mut world = World::new(state, 4, |_, info| info.role(Role::Both), workflow);
    for (pod, decoding) in decoding.into_iter().enumerate() {
        let load = |info: &mut PodInfo| (info.load.running, info.load.tokens) = (decoding, u64::from(decoding) * 4_000);
        world.change(&format!("pod-{pod}"), load);
    }
    world
}

#[test]
fn pods_that_do_both_compute_prompts_where_few_decode() {
    let mut world = both([60, 60, 60, 2]);
    let sent: Vec<_> = (0..2).map(|number| world.send(&prompt(number, 500))).collect();
    for sent in &sent {
        assert_eq!(sent.try_to("prefill").unwrap_or(sent.to("decode")), "pod-3");
    }
    // A pod that holds a prompt computes the rest of it, however many decode there.
    world.store(world.pod("pod-1"), &prompt(9, 2_000));
    let held = world.send(&prompt(9, 2_010));
    assert_eq!(held.try_to("prefill").unwrap_or(held.to("decode")), "pod-1");
}

#[test]
fn pods_that_do_both_all_decode_where_prompts_are_warm() {
    let (mut world, warm) = (both([0; 4]), prompt(1, 100));
    (0..4).for_each(|pod| world.store(world.pod(&format!("pod-{pod}")), &warm));
    let sent: Vec<_> = (0..40).map(|_| world.send(&warm)).collect();
    assert!(sent.iter().all(|sent| sent.try_to("prefill").is_none()));
    let mut decoding = [0; 4];
    sent.iter().for_each(|sent| decoding[sent.plan.step("decode").expect("taken").candidates[0].pod.id().index()] += 1);
    assert_eq!(decoding, [10; 4]);
}

#[test]
fn without_prefill_pods_the_decode_pod_prefills_alone() {
    for profile in [profiles::prefill_decode, profiles::prefill_decode_conditional] {
        let state = state();
        let workflow = profile(&state).build().expect("a ready profile builds");
        let mut world = World::new(state, 2, |_, info| info.role(Role::Decode), workflow);
        let sent = world.send(&prompt(1, 200));
        assert_eq!(sent.try_to("prefill"), None);
        assert!(sent.try_to("decode").is_some());
    }
}
