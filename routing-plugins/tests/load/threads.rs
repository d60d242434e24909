//! Guards made on one thread and let go on another, while others read.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use kv_index::{Pod, PodId};
use pointsman_test_support::SplitMix64;
use routing_core::Load;
use routing_plugins::load::{InFlight, LoadGuard, LoadTracker, Work};

use super::{IDS, handles};

const SENDERS: u64 = 4;
const EACH: u64 = 20_000;
/// How many guards each sender holds at most.
const HELD: usize = 32;
const MOST_TOKENS: u64 = 100;

fn send(tracker: &Arc<LoadTracker>, pods: &[Pod], mut rng: SplitMix64, away: &mpsc::Sender<LoadGuard>) {
    let mut held = Vec::new();
    for _ in 0..EACH {
        let work = Work::of(rng.next_u64() % MOST_TOKENS).output(rng.next_u64() % MOST_TOKENS);
        let mut guard = tracker.begin(pods[rng.next_u64() as usize % pods.len()], work);
        match rng.next_u64() % 4 {
            0 => guard.first_token(),
            1 => guard.generated(rng.next_u64() % MOST_TOKENS),
            2 => guard.end(),
            _ => held.push(guard),
        }
        if held.len() == HELD {
            held.drain(..HELD / 2).for_each(drop);
            held.drain(..).for_each(|guard| away.send(guard).expect("somebody takes it"));
        }
    }
}

/// No figure is ever below 0, which would show as one that is much too large.
fn is_possible(figures: InFlight) -> bool {
    // Those that are held, one in the hand, and whatever waits to be let go elsewhere.
    let most = SENDERS * EACH;
    let InFlight { requests, prefilling, prompt_tokens, uncached_tokens, output_tokens } = figures;
    u64::from(requests.max(prefilling)) <= most
        && prompt_tokens.max(uncached_tokens).max(output_tokens) <= most * MOST_TOKENS
}

#[expect(clippy::disallowed_methods, reason = "this is about threads")]
fn run(generations: &[&[Pod]]) -> Arc<LoadTracker> {
    let (tracker, start) = (Arc::new(LoadTracker::default()), Instant::now());
    let (away, arriving) = mpsc::channel::<LoadGuard>();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|at| {
                let (tracker, away) = (&tracker, away.clone());
                let pods = generations[at as usize % generations.len()];
                scope.spawn(move || send(tracker, pods, SplitMix64::new(at), &away))
            })
            .collect();
        drop(away);
        scope.spawn(move || arriving.iter().for_each(LoadGuard::end));
        scope.spawn(|| {
            let mut at = start;
            while !done.load(Ordering::Relaxed) {
                at += Duration::from_millis(1);
                for &pod in generations.iter().copied().flatten() {
                    let figures = tracker.in_flight(pod.id());
                    assert!(is_possible(figures), "{figures:?}");
                    tracker.report(pod, Load { running: 2, ..Load::default() }, at);
                    let load = tracker.load_of(pod, Load::default(), at, Duration::MAX);
                    assert!(load.requests >= load.in_flight.requests && is_possible(load.in_flight), "{load:?}");
                }
            }
        });
        let ended: Vec<_> = senders.into_iter().map(|sender| sender.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok), "no sender panics");
    });
    tracker
}

fn assert_nothing_is_left(tracker: &LoadTracker) {
    for id in 0..IDS as u16 {
        assert_eq!(tracker.in_flight(PodId::new(id)), InFlight::default(), "pod {id}");
    }
}

#[test]
fn nothing_is_left_when_threads_are_done() {
    let pods = handles();
    assert_nothing_is_left(&run(&[&pods[0]]));
}

#[test]
fn nothing_is_left_when_ids_change_hands_meanwhile() {
    let pods = handles();
    let tracker = run(&pods.iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert_nothing_is_left(&tracker);
    let newest = pods[pods.len() - 1][0];
    let _guard = tracker.begin(newest, Work::of(5));
    assert_eq!(tracker.in_flight(newest.id()).requests, 1, "the newest has the id");
}
