//! Two gateways of one fleet.

mod literal;
mod turns;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::{BlockHash, BlockSize, Config, Index, Matches, Parent, Pod};
use routing_core::{Fleet, Load, PodInfo, Request, RoutingInput, RoutingPlan};

use super::*;
use crate::load::{InFlight, LoadGuard, PodLoad, Work, start};
use crate::plugin_state::{Hashing, PluginState};
use crate::profiles;

const SECOND: Duration = Duration::from_secs(1);
const ONE: GatewayId = GatewayId::new(1);
const OTHER: GatewayId = GatewayId::new(2);

/// A gateway's state with pods of these names, joined in this order.
fn gateway(pods: &[&str]) -> PluginState {
    let state = PluginState::new(Arc::new(Index::new(Config::default())), Hashing::Native(size()));
    pods.iter().for_each(|name| assert!(state.index.join(name).is_ok()));
    state
}

fn size() -> BlockSize {
    BlockSize::new(16).expect("not zero")
}

fn pod(state: &PluginState, name: &str) -> Pod {
    state.index.pod(name).expect("it is there")
}

fn whole(state: &PluginState, gateway: GatewayId, now: Instant) -> PeerSummary {
    state.tell_peers(gateway, SummaryScope::Whole, now).expect("whole ones are never empty")
}

fn load(state: &PluginState, pod: Pod, now: Instant) -> PodLoad {
    state.load.load_of(pod, Load::default(), now, 10 * SECOND)
}

/// Decides by the stock profile, among all pods; which pod it is.
fn decide(state: &PluginState, prompt: u32, now: Instant) -> Pod {
    let workflow = profiles::total_latency(state).build().expect("it fits");
    let pods = ["a", "b", "c"].into_iter().filter_map(|name| Some(PodInfo::new(state.index.pod(name)?, name)));
    let (fleet, mut plan) = (Fleet::new(1, pods), RoutingPlan::default());
    let tokens: Vec<u32> = (0..4_096).map(|at| prompt * 10_000 + at).collect();
    let request = Request::new("m", now).tokens(&tokens).seed(u64::from(prompt));
    workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet), &mut plan).expect("a plan");
    plan.steps()[0].candidates[0].pod
}

#[test]
fn what_a_peer_sent_counts_by_the_pod_s_name_and_is_not_told_on() {
    let (one, other, now) = (gateway(&["a", "b"]), gateway(&["b", "a"]), start());
    let mut guard = one.load.begin(pod(&one, "a"), Work::of(100).held(30).output(7));
    let _own = other.load.begin(pod(&other, "a"), Work::of(1));
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    let there = pod(&other, "a");
    assert_eq!(other.peers.in_flight(there), one.load.in_flight(pod(&one, "a").id()));
    assert_eq!((load(&other, there, now).requests, load(&other, there, now).tokens), (2, 108));
    let told = whole(&other, OTHER, now);
    let counts: Vec<_> = told.pods.iter().map(|pod| (&*pod.name, pod.in_flight.requests)).collect();
    assert_eq!(counts, [("b", 0), ("a", 1)], "its own alone");

    guard.first_token();
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert_eq!(other.load.in_flight(there.id()).uncached_tokens, 1);
    drop(guard);
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert_eq!(other.load.in_flight(there.id()).requests, 1);
    assert_eq!(other.peers.stats().peers, 1);
}

#[test]
fn what_waits_before_a_router_is_not_told() {
    let (state, now) = (gateway(&["a"]), start());
    let a = pod(&state, "a");
    let _waits = [&state.load, &state.queued].map(|tracker| tracker.begin(a, Work::of(10)));
    assert_eq!(whole(&state, ONE, now).pods[0].in_flight, InFlight::default());
    let _sent = state.load.begin(a, Work::of(5));
    assert_eq!(whole(&state, ONE, now).pods[0].in_flight.prompt_tokens, 5);
}

#[test]
fn old_ones_one_s_own_and_changes_of_strangers_change_nothing() {
    let (one, other, now) = (gateway(&["a"]), gateway(&["a"]), start());
    let guard = one.load.begin(pod(&one, "a"), Work::of(100));
    let first = whole(&one, ONE, now);
    drop(guard);
    let second = whole(&one, ONE, now);
    assert_eq!(other.hear_peer(ONE, &first, now), Err(PeerIgnored::Own));
    let changes = PeerSummary { scope: SummaryScope::Changes, ..first.clone() };
    assert_eq!(other.hear_peer(OTHER, &changes, now), Err(PeerIgnored::Unknown));
    other.hear_peer(OTHER, &second, now).unwrap();
    for old in [&first, &second, &changes] {
        assert_eq!(other.hear_peer(OTHER, old, now), Err(PeerIgnored::Old));
    }
    assert_eq!(other.load.in_flight(pod(&other, "a").id()), InFlight::default());
    for number in 10..200 {
        let told = PeerSummary { gateway: GatewayId::new(number), ..first.clone() };
        let taken = other.hear_peer(OTHER, &told, now);
        assert_eq!(taken, if number < 73 { Ok(()) } else { Err(PeerIgnored::TooMany) }, "{number}");
    }
}

#[test]
fn an_unknown_pod_is_counted_and_one_that_was_replaced_begins_anew() {
    let (one, other, now) = (gateway(&["a", "b"]), gateway(&["a"]), start());
    let _guards = ["a", "b"].map(|name| one.load.begin(pod(&one, name), Work::of(100)));
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert_eq!(other.peers.stats().unknown_pods, 1);
    let old = pod(&other, "a");
    assert!(other.index.retire(old) && other.index.sweep(1).freed == 1);
    let new = other.index.join("a").unwrap();
    assert_eq!(new.id(), old.id());
    let _own = other.load.begin(new, Work::of(1));
    assert_eq!(other.load.in_flight(new.id()).requests, 1, "what was told of the old one is none of its");
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert_eq!(other.load.in_flight(new.id()).requests, 2);
    assert_eq!(other.forget_silent_peers(now + 3 * SECOND, 2 * SECOND), 1);
    assert_eq!(other.load.in_flight(new.id()).requests, 1);
}

#[test]
fn a_report_is_compared_with_what_peers_told() {
    let (one, other, now) = (gateway(&["a"]), gateway(&["a"]), start());
    let guards: Vec<_> = (0..3).map(|_| one.load.begin(pod(&one, "a"), Work::of(10))).collect();
    let _own = other.load.begin(pod(&other, "a"), Work::of(10));
    let there = pod(&other, "a");
    let report = Load { running: 3, waiting: 3, tokens: 100, kv_used: 0.0 };
    assert!(other.load.report(there, report, now));
    assert_eq!(load(&other, there, now).requests, 6, "five of somebody's");
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    let after = load(&other, there, now);
    assert_eq!(
        (after.requests, after.tokens, after.in_flight.requests),
        (6, 100, 4),
        "three of the five are the peer's"
    );
    assert_eq!(after.waiting_elsewhere, 0, "no more wait than have no first token here and there");
    let more = one.load.begin(pod(&one, "a"), Work::of(10));
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert_eq!(load(&other, there, now).requests, 7, "sent since");
    drop((guards, more));
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert_eq!(load(&other, there, now).requests, 3, "done since; two are of nobody known");
}

#[test]
fn who_ended_before_a_report_leaves_others_in_it() {
    let (one, other, now) = (gateway(&["a"]), gateway(&["a"]), start());
    let mut guards: Vec<_> = (0..5).map(|_| one.load.begin(pod(&one, "a"), Work::of(10))).collect();
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    guards.truncate(1);
    let there = pod(&other, "a");
    assert!(other.load.report(there, Load { running: 5, ..Load::default() }, now));
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert_eq!(load(&other, there, now).requests, 5, "one of the peer's, and four of nobody known");
}

#[test]
fn a_pod_s_successor_is_not_told_to_have_what_it_had() {
    let (state, now) = (gateway(&["a"]), start());
    let _guards: Vec<_> = (0..5).map(|_| state.load.begin(pod(&state, "a"), Work::of(10))).collect();
    assert!(state.index.retire(pod(&state, "a")) && state.index.sweep(1).freed == 1);
    let b = state.index.join("b").unwrap();
    assert_eq!((whole(&state, ONE, now).pods[0].in_flight, &*state.index.name(b).unwrap()), (InFlight::default(), "b"));
}

#[test]
fn names_come_and_go_for_ever() {
    let (other, now) = (gateway(&["last"]), start());
    let told = |sequence: u64, name: &str| {
        let in_flight = InFlight { requests: 1, ..InFlight::default() };
        let pods = vec![PodSummary { name: name.into(), in_flight, queued_micros: 0 }; 2];
        PeerSummary { gateway: ONE, sequence, scope: SummaryScope::Whole, pods, blocks: Vec::new() }
    };
    for at in 0..10_000 {
        let name = format!("pod-{at}");
        let pod = other.index.join(&name).unwrap();
        other.hear_peer(OTHER, &told(at + 1, &name), now).unwrap();
        assert_eq!(other.load.in_flight(pod.id()).requests, 1, "{name}");
        assert!(other.index.retire(pod) && other.index.sweep(1).freed == 1);
    }
    other.hear_peer(OTHER, &told(20_000, "last"), now).unwrap();
    assert_eq!(other.peers.in_flight(pod(&other, "last")).requests, 1);
}

#[test]
fn a_pod_that_joins_here_late_is_not_queued_all_that_it_ever_had() {
    let (one, other, now) = (gateway(&["a"]), gateway(&[]), start());
    let _begun = whole(&one, ONE, now);
    one.prefill_queues.add(pod(&one, "a"), 50.0, now);
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    let there = other.index.join("a").unwrap();
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert_eq!(other.prefill_queues.of(there, now), None);
    one.prefill_queues.add(pod(&one, "a"), 2.0, now);
    let mut told = whole(&one, ONE, now);
    // Named many times over, it counts once.
    told.pods = (0..100).flat_map(|_| told.pods.clone()).collect();
    other.hear_peer(OTHER, &told, now).unwrap();
    assert_eq!(other.prefill_queues.of(there, now), Some(2.0));
}

#[test]
fn what_a_silent_peer_had_is_what_the_report_says() {
    let (one, other, now) = (gateway(&["a"]), gateway(&["a"]), start());
    let _guards: Vec<_> = (0..3).map(|_| one.load.begin(pod(&one, "a"), Work::of(10))).collect();
    let there = pod(&other, "a");
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert!(other.load.report(there, Load { running: 4, ..Load::default() }, now + SECOND));
    assert_eq!((other.forget_silent_peers(now + 2 * SECOND, 2 * SECOND), load(&other, there, now).requests), (0, 4));
    assert_eq!(other.forget_silent_peers(now + 3 * SECOND, 2 * SECOND), 1);
    let after = load(&other, there, now);
    assert_eq!((after.requests, after.in_flight.requests), (4, 0));
    assert_eq!((other.peers.stats().peers, other.peers.stats().forgotten), (0, 1));
    other.hear_peer(OTHER, &whole(&one, ONE, now), now + 3 * SECOND).unwrap();
    assert_eq!((load(&other, there, now).requests, load(&other, there, now).in_flight.requests), (4, 3));
}

#[test]
fn a_crowd_on_a_new_prompt_meets_though_it_came_to_two_gateways() {
    let (one, other, mut now) = (gateway(&["a", "b", "c"]), gateway(&["c", "a", "b"]), start());
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert_eq!(one.tell_peers(ONE, SummaryScope::Changes, now), None);
    for prompt in 0..20 {
        let chosen = one.index.name(decide(&one, prompt, now)).unwrap();
        let told = one.tell_peers(ONE, SummaryScope::Changes, now).unwrap();
        assert_eq!((told.pods.len(), told.blocks.len(), told.blocks[0].blocks.len()), (1, 1, 256));
        other.hear_peer(OTHER, &told, now).unwrap();
        assert_eq!(other.index.name(decide(&other, prompt, now)).unwrap(), chosen, "prompt {prompt}");
        let told = other.tell_peers(OTHER, SummaryScope::Changes, now);
        assert_eq!(told.map(|told| told.blocks.len()), (prompt > 0).then_some(0), "nothing of it is new to peers");
        now += 5 * SECOND;
    }
}

#[test]
fn blocks_that_are_told_run_out_as_one_s_own_do() {
    let (one, other, now) = (gateway(&["a"]), gateway(&["a"]), start());
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    decide(&one, 1, now);
    let mut told = one.tell_peers(ONE, SummaryScope::Changes, now + SECOND).unwrap();
    assert_eq!(told.blocks[0].expires_in, SECOND, "a second of two is over");
    other.hear_peer(OTHER, &told, now + SECOND).unwrap();
    let depth = |state: &PluginState| {
        let mut matches = Matches::default();
        state.index.search(&told.blocks[0].blocks, &mut matches);
        matches.depth(pod(state, "a").id())
    };
    assert_eq!(depth(&other), 256);
    other.index.expire(now + 2 * SECOND + SECOND / 100, usize::MAX);
    assert_eq!(depth(&other), 0);
    // A tail is found behind what the pod holds, and alone it is not.
    let tail = told.blocks[0].blocks.split_off(200);
    let parent = Parent::Block(told.blocks[0].blocks[199]);
    let after = FreshBlocks { pod: 0, parent, blocks: tail, expires_in: 9_999 * SECOND };
    told.blocks.insert(0, after);
    (told.sequence, told.scope) = (99, SummaryScope::Changes);
    other.hear_peer(OTHER, &told, now).unwrap();
    let tail = told.blocks.remove(0).blocks;
    told.blocks[0].blocks.extend(tail);
    let mut matches = Matches::default();
    other.index.search(&told.blocks[0].blocks, &mut matches);
    assert_eq!(matches.depth(pod(&other, "a").id()), 256);
    other.index.expire(now + 61 * SECOND, usize::MAX);
    other.index.search(&told.blocks[0].blocks, &mut matches);
    assert_eq!(matches.depth(pod(&other, "a").id()), 0, "a minute at most");
}

#[test]
fn a_peer_s_prefills_lengthen_queues_once_and_a_lost_summary_is_made_up_for() {
    let (one, other, now) = (gateway(&["a"]), gateway(&["a"]), start());
    let (here, there) = (pod(&one, "a"), pod(&other, "a"));
    let queue = |at| other.prefill_queues.of(there, at);
    let _begun = whole(&one, ONE, now);
    one.prefill_queues.add(here, 5.0, now);
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert_eq!(queue(now), None, "how much of it is left when a peer is new, nobody knows");
    one.prefill_queues.add(here, 1.0, now);
    let _lost = whole(&one, ONE, now);
    one.prefill_queues.add(here, 2.0, now);
    other.prefill_queues.add(there, 4.0, now);
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    assert_eq!(queue(now), Some(7.0));
    assert_eq!(other.prefill_queues.sent(there), 0, "what was added before somebody told is not told");
    other.prefill_queues.add(there, 4.0, now);
    assert_eq!(other.prefill_queues.sent(there), 4_000_000, "and what a peer added is not one's own");
}

#[test]
fn hostile_figures_do_no_harm() {
    let (other, now) = (gateway(&["a"]), start());
    let most = InFlight {
        requests: u32::MAX,
        prefilling: u32::MAX,
        prompt_tokens: u64::MAX,
        uncached_tokens: u64::MAX,
        output_tokens: u64::MAX,
    };
    let named = |name: &str| PodSummary { name: name.into(), in_flight: most, queued_micros: u64::MAX };
    for number in 0..40 {
        let told = PeerSummary {
            gateway: GatewayId::new(number),
            sequence: u64::MAX,
            scope: SummaryScope::Whole,
            pods: vec![named("a"), named("a"), named("nobody")],
            blocks: [0, 2, u16::MAX]
                .map(|pod| FreshBlocks {
                    pod,
                    parent: Parent::Block(BlockHash::new(7)),
                    blocks: vec![BlockHash::new(7), BlockHash::new(7)],
                    expires_in: Duration::MAX,
                })
                .to_vec(),
        };
        let taken = other.hear_peer(OTHER, &told, now);
        assert_eq!(taken, if number == OTHER.get() { Err(PeerIgnored::Own) } else { Ok(()) });
    }
    let there = pod(&other, "a");
    assert!(load(&other, there, now).requests >= 39 << 20);
    assert!(other.prefill_queues.of(there, now).is_none_or(|left| left.is_finite()));
    other.forget_silent_peers(now + 9 * SECOND, SECOND);
    assert_eq!(other.load.in_flight(there.id()), InFlight::default());
}

#[test]
fn decisions_are_noted_once_somebody_tells_and_within_bounds() {
    let (state, now) = (gateway(&["a"]), start());
    let woken = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = Arc::clone(&woken);
    state.peers.on_decision(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let (a, chain) = (pod(&state, "a"), vec![BlockHash::new(3); 10_000]);
    state.peers.decided(a, &chain, 0, now);
    assert_eq!(whole(&state, ONE, now).blocks, [], "nobody told before");
    (0..5).for_each(|_| state.peers.decided(a, &chain, 0, now));
    assert_eq!((state.peers.left_out(), woken.load(std::sync::atomic::Ordering::Relaxed)), (2, 1));
    assert_eq!(state.tell_peers(ONE, SummaryScope::Changes, now).unwrap().blocks.len(), 3);
    state.peers.decided(a, &chain, 9_999, now);
    assert_eq!(woken.load(std::sync::atomic::Ordering::Relaxed), 2);
    let told = state.tell_peers(ONE, SummaryScope::Changes, now).unwrap();
    assert_eq!((&told.blocks[0].parent, told.blocks[0].blocks.len()), (&Parent::Block(chain[0]), 1));
}
