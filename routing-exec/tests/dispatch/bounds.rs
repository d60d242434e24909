//! Bounds of a request in all: attempts, pauses, new plans and the stream together, whatever each of them may take.

use crate::world::*;
use routing_core::FailurePolicy;
use routing_exec::{DispatchError, DispatchOutcome, Failure, Input};

fn in_all(total: u64, plan: routing_core::RoutingPlan) -> World {
    Setup::new(REUSABLE, plan).config(|config| config.request_timeout = seconds(total)).start()
}

#[test]
fn before_the_first_byte_the_end_of_all_is_a_504_and_charges_nobody() {
    let mut world = in_all(4, single(&[0, 1]));
    world.pass(seconds(4));
    assert_eq!((world.error(), world.status().as_u16()), (&DispatchError::RequestTimeout(seconds(4)), 504));
    assert_eq!((world.cancelled.clone(), world.judged.len(), world.pods()), (vec![0], 0, vec![0]));
    let body = String::from_utf8(world.answer.unwrap().body().to_vec()).unwrap();
    let expected = r#"{"error":{"message":"the request took longer than 4 s in all","type":"server_error","param":null,"code":"request_timeout"}}"#;
    assert_eq!(body, expected);
}

#[test]
fn a_stream_that_goes_on_and_on_ends_with_an_error_event() {
    let mut world = in_all(10, single(&[0, 1]));
    world.stream(0);
    for _ in 0..9 {
        world.chunk(0, "data: a\n\n").pass(seconds(1));
    }
    assert!(world.report.is_none());
    world.pass(seconds(1));
    assert_eq!(world.error(), &DispatchError::RequestTimeout(seconds(10)));
    assert_eq!(
        (world.cancelled.clone(), world.charged()),
        (vec![0], vec![]),
        "its pod is let go, and did nothing wrong"
    );
    let end = world.text().rsplit_once("data: a\n\n").unwrap().1;
    assert!(end.starts_with("event: error\ndata: {") && end.contains("request_timeout"), "{end}");
    assert!(end.ends_with("data: [DONE]\n\n"), "{end}");
}

#[test]
fn a_whole_answer_that_has_begun_breaks_off() {
    let mut world = in_all(4, single(&[0, 1]));
    world.head(0, 200).chunk(0, "{").pass(seconds(2)).chunk(0, "}").pass(seconds(2));
    assert!(world.aborted && world.charged().is_empty());
}

#[test]
fn attempts_count_together_and_only_those_that_were_over_are_charged() {
    // Five seconds to a first byte each: the third has two left.
    let mut world = in_all(12, single(&[0, 1, 2]));
    world.pass(seconds(11));
    assert_eq!((world.pods(), world.charged()), (vec![0, 1, 2], vec![0, 1]), "a try's own timeout is charged");
    world.pass(seconds(1));
    assert_eq!((world.error(), world.charged()), (&DispatchError::RequestTimeout(seconds(12)), vec![0, 1]));
    assert_eq!(world.exonerated.len(), 0, "nobody saw what the third would have done");
}

#[test]
fn where_both_pass_at_once_it_is_the_end_of_all() {
    let mut world = in_all(5, single(&[0, 1]));
    world.pass(seconds(5));
    assert_eq!((world.error(), world.judged.len()), (&DispatchError::RequestTimeout(seconds(5)), 0));
    // Also where the timer of the attempt is told first.
    let mut world = in_all(5, single(&[0, 1]));
    world.now += seconds(5);
    let id = world.sent[0].id;
    world.handle(Input::Expired(routing_exec::TimerId::Attempt(id)));
    assert_eq!((world.error(), world.judged.len()), (&DispatchError::RequestTimeout(seconds(5)), 0));
}

#[test]
fn prefill_and_decode_and_a_new_plan_count_together() {
    let steps = [step("prefill", &[0]), step("decode", &[1]).on_failure(FailurePolicy::Replan)];
    let mut world = in_all(9, plan(steps));
    world.pass(seconds(4)).prefilled(0).pass(seconds(4)).fails(1, cut());
    assert_eq!(world.replans.len(), 1);
    world.replanned(Some(two(&[2], &[3])));
    world.pass(seconds(1));
    assert_eq!((world.error(), world.pods()), (&DispatchError::RequestTimeout(seconds(9)), vec![0, 1, 2]));
    assert_eq!(world.charged(), [1]);
}

#[test]
fn the_deadline_of_a_request_counts_where_it_is_earlier() {
    for (deadline, total, error) in
        [(3, 9, DispatchError::DeadlineExceeded), (9, 3, DispatchError::RequestTimeout(seconds(3)))]
    {
        let setup = Setup::new(REUSABLE, single(&[0])).deadline(deadline);
        let mut world = setup.config(|config| config.request_timeout = seconds(total)).start();
        world.pass(seconds(2));
        assert!(world.report.is_none());
        assert_eq!(world.pass(seconds(1)).error(), &error);
    }
}

#[test]
fn one_try_for_a_whole_answer_is_bounded_and_leaves_time_for_another() {
    let mut setup = Setup::new(REUSABLE, single(&[0, 1])).config(|config| config.request_timeout = seconds(30));
    setup.body = r#"{"stream":false}"#;
    let mut world = setup.start();
    world.pass(seconds(20));
    assert_eq!((world.pods(), world.charged()), (vec![0, 1], vec![0]));
    world.head(1, 200).chunk(1, "{}").end(1);
    assert_eq!(*world.outcome(), DispatchOutcome::Completed(200));
}

#[test]
fn half_a_first_event_is_tried_again_and_the_client_sees_none_of_it() {
    for half in
        ["d", "data: {\"a\"", "data: {\"a\":1}\n", "data: {\"a\":1}\r\n", "event: x\ndata: 1\n", ": ping\n\ndata: a"]
    {
        for failure in [cut(), Failure::IdleTimeout] {
            let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
            world.stream(0).chunk(0, half).fails(0, failure);
            assert_eq!((world.pods(), world.body.len()), (vec![0, 1], 0), "{half:?}");
            world.stream(1).chunk(1, "data: b\n").chunk(1, "\ndata: c\n\n").end(1);
            assert_eq!((world.text(), world.charged()), ("data: b\n\ndata: c\n\n", vec![0]), "{half:?}");
            assert_eq!(*world.outcome(), DispatchOutcome::Completed(200));
        }
    }
    // An end that is none is no other.
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.stream(0).chunk(0, "data: {\"a\"").end(0);
    assert_eq!((world.pods(), world.body.len()), (vec![0, 1], 0));
}

#[test]
fn after_one_whole_event_nothing_is_held_back_or_tried_again() {
    for first in ["data: a\n\n", "data: a\r\n\r\n", "data: a\n\ndata: {\"b"] {
        let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
        assert_eq!(world.stream(0).chunk(0, first).text(), first);
        let next = "data: half of the next";
        assert_eq!(world.chunk(0, next).text(), format!("{first}{next}"));
        world.fails(0, cut());
        assert_eq!((world.pods(), world.error()), (vec![0], &DispatchError::Truncated(cut())));
    }
}

#[test]
fn a_first_event_beyond_the_buffer_is_passed_on_unfinished() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.stream(0).bytes(0, b"data: ").bytes(0, &[b'x'; 58]);
    assert_eq!(world.body.len(), 0, "64 bytes are held");
    world.bytes(0, b"x");
    assert_eq!(world.body.len(), 65);
    world.fails(0, cut());
    assert_eq!(world.pods(), [0]);
}

#[test]
fn half_an_answer_of_known_length_is_tried_again() {
    let said = [("content-type", "application/json"), ("content-length", "6")];
    for failure in [cut(), Failure::IdleTimeout] {
        let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
        world.head_with(0, 200, &said).chunk(0, "{\"a").fails(0, failure);
        assert_eq!((world.pods(), world.body.len(), world.charged()), (vec![0, 1], 0, vec![0]));
        world.head_with(1, 200, &said).chunk(1, "{\"b").chunk(1, "\":").chunk(1, "}");
        assert_eq!((world.text(), world.head.is_some()), ("{\"b\":}", true), "once all of it is there");
        assert_eq!(*world.end(1).outcome(), DispatchOutcome::Completed(200));
    }
    // One that is too long to be held is passed on as it comes.
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.head_with(0, 200, &[("content-length", "65")]).chunk(0, "{").fails(0, cut());
    assert!(world.aborted && world.pods() == [0]);
}
