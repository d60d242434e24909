//! Profiles that send a request to a prefill pod and then to a decode pod.

use std::collections::VecDeque;

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

#[test]
fn a_prefill_pod_is_left_out_where_the_decode_pod_holds_enough() {
    let state = state();
    let workflow = profiles::prefill_decode_conditional(&state).build().expect("a ready profile builds");
    assert!(workflow.warnings().is_empty(), "{:?}", workflow.warnings());
    let mut world = World::new(state, 6, place, workflow);
    // Cold and long: both pods, and prefill first.
    let cold = world.send(&prompt(1, 200));
    assert!(cold.try_to("prefill").is_some());
    assert_eq!(&*cold.plan.steps()[0].name, "prefill");
    world.done(cold);
    // The decode pod holds it now: what is new is a few blocks.
    let warm = world.send(&prompt(1, 210));
    assert_eq!(warm.try_to("prefill"), None);
    // Short and cold: not worth the transfer.
    assert_eq!(world.send(&prompt(2, 127)).try_to("prefill"), None);
    assert!(world.send(&prompt(3, 128)).try_to("prefill").is_some(), "2,048 tokens are enough");
}

/// Four pods that do both, on which 40 warm requests decode at any time. In each of many rounds one is done, one comes, and
/// so do some that are cold. Who prefilled those of the last rounds, and how many decode on each pod then.
fn parted(rounds: u32, cold_of_a_round: u32) -> ([usize; 4], [usize; 4]) {
    let state = state();
    let workflow = profiles::prefill_decode_conditional(&state).build().expect("a ready profile builds");
    let mut world = World::new(state, 4, |_, info| info.role(Role::Both), workflow);
    let at = |pod: &str| pod.trim_start_matches("pod-").parse::<usize>().expect("a number");
    let warm = prompt(1, 100);
    (0..4).for_each(|pod| world.store(world.pod(&format!("pod-{pod}")), &warm));
    let (mut decoding, mut prefilled) = (VecDeque::new(), [0; 4]);
    for round in 0..rounds {
        decoding.push_back(world.send(&warm));
        if decoding.len() > 40 {
            decoding.pop_front();
        }
        for cold in 0..cold_of_a_round {
            let sent = world.send(&prompt(2 + round * cold_of_a_round + cold, 200));
            if round >= rounds - 50 {
                prefilled[at(&sent.to("prefill"))] += 1;
            }
        }
    }
    let mut decode = [0; 4];
    decoding.iter().for_each(|sent| decode[at(&sent.to("decode"))] += 1);
    (prefilled, decode)
}

#[test]
fn pods_that_do_both_part_by_themselves_where_prompts_are_cold() {
    let (prefilled, decode) = parted(300, 2);
    let computing: Vec<usize> = (0..4).filter(|&pod| prefilled[pod] > 2).collect();
    assert!((1..=2).contains(&computing.len()), "some pods prefill: {prefilled:?}");
    assert!(computing.iter().all(|&pod| decode[pod] <= 2), "and nobody decodes there: {prefilled:?}, {decode:?}");
}

#[test]
fn pods_that_do_both_all_decode_where_prompts_are_warm() {
    let (prefilled, decode) = parted(300, 0);
    assert_eq!(prefilled, [0; 4]);
    // One more comes before one is done.
    assert!(decode.iter().all(|requests| (9..=11).contains(requests)), "{decode:?}");
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
