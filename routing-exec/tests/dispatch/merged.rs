//! One pod for both steps: it gets one plain request, and nothing is handed off from a pod to itself.

#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::sync::Arc;

use crate::world::*;
use http::Request;
use routing_core::RoutingPlan;
use routing_exec::handoff::{Handoff, Mooncake, Nixl, Plain, SglangBootstrap, SharedStorage};
use routing_exec::{ClientRequest, Dispatch, DispatchConfig, Failure};

const BODY: &str = r#"{"model":"m","stream":true,"messages":[]}"#;

fn with(handoff: Arc<dyn Handoff>, plan: RoutingPlan) -> World {
    let mut config = DispatchConfig::new(handoff, Arc::new(()));
    config.policy = Arc::new(patience().max_buffered_bytes(4096));
    let (parts, ()) = Request::post("/v1/chat/completions").body(()).unwrap().into_parts();
    let mut world = Setup::new(REUSABLE, plan.clone()).idle();
    world.dispatch = Dispatch::new(config, ClientRequest::new(&parts, BODY.into(), 7), plan, Vec::new());
    world.dispatch.start(world.now);
    world.perform();
    world
}

fn dialects() -> [(&'static str, Arc<dyn Handoff>); 5] {
    [
        ("nixl", Arc::new(Nixl::default())),
        ("sglang", Arc::new(SglangBootstrap::default())),
        ("mooncake", Arc::new(Mooncake::new(Arc::new(())))),
        ("shared storage", Arc::new(SharedStorage::default())),
        ("plain", Arc::new(Plain::default())),
    ]
}

#[test]
fn a_pod_that_is_first_for_both_steps_gets_one_plain_request_in_every_dialect() {
    for (name, handoff) in dialects() {
        let mut world = with(handoff, two(&[0, 1], &[0, 1]));
        assert_eq!((world.pods(), world.sent[0].step), (vec![0], 1), "{name}");
        assert_eq!(world.request(0), BODY, "{name}: as the client sent it");
        world.stream(0).chunk(0, "data: a\n\n").chunk(0, "data: [DONE]\n\n").end(0);
        let report = world.report.as_ref().unwrap();
        assert_eq!((report.attempts.len(), report.skipped.len(), report.handoffs_dropped), (1, 0, 0), "{name}");
        assert_eq!(world.pods(), [0], "{name}");
    }
}

#[test]
fn when_it_fails_the_next_pod_of_both_steps_gets_one_plain_request_too() {
    for (name, handoff) in dialects() {
        let mut world = with(handoff, two(&[0, 1], &[0, 1]));
        world.fails(0, Failure::Connect("refused".into()));
        assert_eq!((world.pods(), world.request(1)), (vec![0, 1], BODY.into()), "{name}");
    }
}

#[test]
fn when_it_fails_and_two_pods_are_left_they_hand_off() {
    for dialect in [REUSABLE, ONE_USE] {
        let mut world = Setup::new(dialect, two(&[0, 1], &[0, 2])).start();
        world.fails(0, cut());
        assert_eq!((world.pods(), world.sent[1].step), (vec![0, 1], 0));
        world.prefilled(1);
        assert_eq!(world.pods(), [0, 1, 2]);
        assert!(world.request(2).starts_with("decode after 1 said blocks"), "{}", world.request(2));
    }
    let mut world = Setup::new(CONCURRENT, two(&[0, 1], &[0, 2])).start();
    world.fails(0, cut());
    assert_eq!(world.pods(), [0, 1, 2]);
}

#[test]
fn when_it_fails_and_none_is_left_to_prefill_the_next_pod_computes_all() {
    for dialect in [REUSABLE, ONE_USE, CONCURRENT] {
        let mut world = Setup::new(dialect, two(&[0], &[0, 2])).start();
        world.fails(0, cut());
        assert_eq!(world.pods(), [0, 2]);
        assert!(world.request(1).starts_with("decode after nobody"), "{}", world.request(1));
    }
}

#[test]
fn a_pod_is_not_handed_what_it_prefilled_itself() {
    let mut world = with(Arc::new(Nixl::default()), two(&[0], &[2, 0]));
    let handed = r#"{"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[1],"remote_engine_id":"e",
        "remote_request_id":"r","remote_host":"h","remote_port":1}}"#;
    world.head(0, 200).chunk(0, handed).end(0);
    assert!(world.request(1).contains("remote_host"), "to another pod it is handed");
    world.fails(1, Failure::Connect("refused".into()));
    assert_eq!((world.pods(), world.request(2)), (vec![0, 2, 0], BODY.into()));
    // Where both are sent at once, both begin anew.
    let mut world = Setup::new(CONCURRENT, two(&[0], &[2, 0])).start();
    assert_eq!(world.pods(), [0, 2]);
    world.fails(1, cut());
    assert_eq!(world.pods(), [0, 2, 0]);
    assert!(world.request(2).starts_with("decode after nobody"), "{}", world.request(2));
}
