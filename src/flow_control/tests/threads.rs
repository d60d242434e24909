//! Limits hold whatever threads come at the same time: room is looked at and taken in one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use kv_index::Pod;
use routing_core::flow::SaturationDetector;
use routing_core::{Fleet, Role};

use super::*;

/// Says yes, and lets others run before it does: those who look at the same time look at the same load.
#[derive(Debug)]
struct Slow;

impl SaturationDetector for Slow {
    fn has_room(&self, _: &Fleet, _: Pod, _: f32, _: Instant) -> bool {
        (0..20).for_each(|_| thread::yield_now());
        true
    }
}

const LIMIT: u32 = 3;

#[test]
fn whoever_comes_at_once_no_more_are_let_in_than_there_is_room_for() {
    let with_limit = |state: &PluginState| control(LIMIT, &FlowConfig::default(), state).detector(Slow);
    let router = Router::builder("m").pod(PodSpec::new("pod", "http://pod")).seed(7);
    let router = router.flow_control(move |state| Ok(with_limit(state))).build().unwrap();
    let pod = router.pod("pod").unwrap().id();
    let (inside, most, went) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
                    let request = router.read(parts, Bytes::from_static(br#"{"model":"m","prompt":"p"}"#)).unwrap();
                    let Ok(prepared) = router.prepare(request, None) else { continue };
                    let now_inside = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now_inside, Ordering::SeqCst);
                    went.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(prepared);
                }
            });
        }
    });
    let (most, went) = (most.into_inner(), went.into_inner());
    assert!(most <= LIMIT, "{most} at once, where {LIMIT} may");
    assert!(went >= LIMIT, "{went}");
    assert_eq!(router.plugin_state().load.in_flight(pod).requests, 0, "nothing is left behind");
    assert_eq!(router.flow_status(0)[0].requests, 0);
}

/// A plan of which one pod has room and the other has none gives back what it took.
#[test]
fn what_was_taken_of_a_plan_that_does_not_go_is_given_back() {
    let pods = [("prefill", Role::Prefill), ("decode", Role::Decode)];
    let pods = pods.map(|(name, role)| PodSpec::new(name, format!("http://{name}")).role(role));
    let router = Router::builder("m").pods(pods).profile("prefill_decode").seed(7);
    let router = router.flow_control(|state| Ok(control(1, &FlowConfig::default(), state))).build().unwrap();
    let load = Arc::clone(&router.plugin_state().load);
    let [prefill, decode] = ["prefill", "decode"].map(|name| router.pod(name).unwrap());
    let prepare = || {
        let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
        router.prepare(router.read(parts, Bytes::from_static(br#"{"model":"m","prompt":"p"}"#)).unwrap(), None)
    };
    let other = load.begin(decode, routing_plugins::load::Work::of(1));
    assert!(prepare().is_err(), "the pod that answers is full");
    assert_eq!([prefill, decode].map(|pod| load.in_flight(pod.id()).requests), [0, 1]);
    drop(other);
    let went = prepare().unwrap();
    assert_eq!([prefill, decode].map(|pod| load.in_flight(pod.id()).requests), [1, 1]);
    drop(went);
    assert_eq!([prefill, decode].map(|pod| load.in_flight(pod.id()).requests), [0, 0]);
}
