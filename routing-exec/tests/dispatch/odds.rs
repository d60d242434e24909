//! Answers that are odd, and what holds all the same.

use std::sync::Arc;

use crate::world::*;
use routing_core::FailurePolicy;
use routing_exec::{DispatchOutcome, Failure};

/// What is packed shows no empty lines; that it does not is no cut.
#[test]
fn a_packed_stream_that_is_complete_is_not_cut() {
    let packed: &[u8] =
        &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b, 0x49, 0x2c, 0x49, 0xb4, 0x52, 0x48, 0xe4, 0xe2, 2, 0];
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.head_with(0, 200, &[("content-type", "text/event-stream"), ("content-encoding", "gzip")]);
    world.bytes(0, packed).end(0);
    assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(200), vec![]));
    assert_eq!(world.body, packed);
}

#[test]
fn a_packed_stream_that_is_cut_breaks_off_and_is_not_written_into() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.head_with(0, 200, &[("content-type", "text/event-stream"), ("content-encoding", "gzip")]);
    world.bytes(0, &[0x1f; 20_000]).fails(0, cut());
    assert!(!world.body.windows(5).any(|window| window == b"event"), "{:?}", String::from_utf8_lossy(&world.body));
}

#[test]
fn an_answer_to_head_has_no_events() {
    for (method, status) in [(http::Method::HEAD, 200), (http::Method::POST, 204)] {
        let mut setup = Setup::new(REUSABLE, single(&[0, 1]));
        setup.method = method;
        let mut world = setup.start();
        world.head_with(0, status, &[("content-type", "text/event-stream")]).end(0);
        assert_eq!((world.pods(), world.charged()), (vec![0], vec![]));
        assert_eq!(*world.outcome(), DispatchOutcome::Completed(status));
    }
}

/// Engines that meet: a prefill pod answers once the decode pod has taken its blocks. A decode pod that hangs keeps it
/// waiting, so a silence of both is not prefill's, and certainly not all prefill pods' in turn.
#[test]
fn a_prefill_that_waits_for_a_stalled_decode_is_not_blamed() {
    let mut world = Setup::new(CONCURRENT, two(&[0, 1], &[2, 3])).start();
    world.pass(seconds(10)).pass(seconds(10));
    assert_ne!(world.charged(), [0, 1], "both prefill pods are charged; asked were {:?}", world.pods());
    assert!(world.pods().contains(&3), "another decode pod is tried: asked were {:?}", world.pods());
}

/// Where only one of two silent legs has another pod, the other one's pod is asked again; where neither has, that is the end.
/// A prefill that is late while decode speaks is prefill's own doing.
#[test]
fn two_silent_legs_charge_nobody_and_go_on_with_whoever_is_left() {
    for (prefill, decode, asked) in
        [(&[0, 1][..], &[2][..], vec![0, 2, 1, 2]), (&[0], &[2, 3], vec![0, 2, 0, 3]), (&[0], &[2], vec![0, 2])]
    {
        let mut world = Setup::new(CONCURRENT, two(prefill, decode)).start();
        world.pass(seconds(10));
        assert_eq!((world.pods(), world.charged()), (asked, vec![]));
        world.pass(seconds(10));
        assert_eq!((world.status().as_u16(), world.judged.len()), (504, 0));
    }
    let steps = [step("prefill", &[0]).on_failure(FailurePolicy::Skip), step("decode", &[2, 3])];
    let mut world = Setup::new(CONCURRENT, plan(steps)).start();
    world.pass(seconds(10));
    assert_eq!((world.pods(), world.charged()), (vec![0, 2, 3], vec![]), "decode alone, on another pod");
    let mut world = Setup::new(CONCURRENT, two(&[0, 1], &[2, 3])).start();
    world.stream(1).chunk(1, "data: {").pass(seconds(2)).chunk(1, "\"a\"").pass(seconds(2)).chunk(1, ":");
    world.pass(seconds(2)).chunk(1, "1").pass(seconds(2)).chunk(1, "}").pass(seconds(2));
    assert_eq!(world.charged(), [0], "decode had its blocks");
}

/// A prefill's answer of which nothing is used may be as long as it likes.
#[test]
fn a_long_answer_that_nobody_reads_does_not_end_a_healthy_decode() {
    let mut world = Setup::new(CONCURRENT, two(&[0], &[2])).start();
    world.head(0, 200).bytes(0, &[b'x'; 65]);
    assert!(world.report.is_none(), "{:?}", world.report.map(|report| report.outcome));
}

/// A prefill that says within its stream that it failed has failed: decode would wait in vain, and be charged for it.
#[test]
fn a_prefill_whose_first_event_is_an_error_has_failed() {
    let mut world = Setup::new(CONCURRENT, two(&[0], &[2])).start();
    world.stream(0).chunk(0, "data: {\"error\":{\"code\":500}}\n\n").end(0).pass(seconds(5));
    assert_eq!(world.charged(), [0], "the pod that failed is charged, not the one that waited for it");
}

#[test]
fn so_too_where_legs_run_one_after_the_other_and_a_refusal_is_no_failure() {
    let mut world = Setup::new(REUSABLE, two(&[0, 1], &[2])).config(|config| config.max_buffered_bytes = 4096).start();
    world.stream(0).chunk(0, "data: {\"error\":{\"code\":500}}\n\n").end(0);
    assert_eq!((world.pods(), world.charged()), (vec![0, 1], vec![0]));
    world.stream(1).chunk(1, "data: {\"error\":{\"code\":400}}\n\n").end(1);
    assert_eq!((world.pods(), world.charged()), (vec![0, 1, 2], vec![0]), "the request's own");
}

/// What a serial prefill says too much costs its handoff, where the step may be left out.
#[test]
fn a_prefill_that_says_too_much_is_left_out_where_it_may_be() {
    let steps = [step("prefill", &[0, 1]).on_failure(FailurePolicy::Skip), step("decode", &[2])];
    let mut world = Setup::new(REUSABLE, plan(steps)).start();
    world.head(0, 200).bytes(0, &[b'x'; 65]);
    assert_eq!((world.pods(), world.judged.len()), (vec![0, 2], 0), "another would say as much");
    world.stream(1).chunk(1, "data: a\n\n").end(1);
    assert_eq!(*world.outcome(), DispatchOutcome::Completed(200));
}

/// An answer longer than it said: an HTTP server would cut it off at its length.
#[test]
fn an_answer_longer_than_it_said_is_no_success() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.head_with(0, 200, &[("content-length", "3")]).chunk(0, "{\"a").chunk(0, "\":1}").end(0);
    assert_ne!(*world.outcome(), DispatchOutcome::Completed(200));
}

/// Half open: what was sent before the circuit opened says nothing of how the pod is now.
#[test]
fn a_verdict_of_before_the_circuit_opened_is_no_probes() {
    use routing_exec::{BreakerConfig, BreakerSample, Breakers};
    let open_breakers = Arc::new(<routing_core::OpenBreakers>::default());
    let breakers = Arc::new(Breakers::new(BreakerConfig::default().failure_threshold(1), Arc::clone(&open_breakers)));
    let now = some_instant();
    let old = (breakers.admit(pod(0), now).unwrap(), breakers.admit(pod(0), now).unwrap());
    breakers.record(old.0.admission(), &BreakerSample::Failure(Failure::FirstByteTimeout), now);
    let later = now + seconds(10);
    let probe = breakers.admit(pod(0), later).expect("half open");
    // The other old one is given up at last.
    breakers.record(old.1.admission(), &BreakerSample::Failure(Failure::FirstByteTimeout), later);
    assert!(
        open_breakers.opened().is_empty(),
        "the probe is under way, and the circuit is open again for twice as long"
    );
    drop((old, probe));
}

/// A pod whose stream ends in an error of its own did not do well.
#[test]
fn a_pod_that_says_in_the_middle_of_a_stream_that_it_failed_is_not_praised() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.stream(0).chunk(0, "data: a\n\n").chunk(0, "data: {\"error\":{\"code\":500}}\n\ndata: [DONE]\n\n").end(0);
    assert_eq!(world.charged(), [0], "{:?}", world.judged);
}
