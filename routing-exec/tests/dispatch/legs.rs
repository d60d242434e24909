//! Prefill, then decode, or both at once: what one leg's end means for the other.

use crate::world::*;
use routing_core::FailurePolicy;
use routing_exec::{AttemptOutcome, BreakerSample, DispatchError, DispatchOutcome, Failure, Input};

/// A dispatch of both legs at once, prefill on 0 or 1 and decode on 2 or 3.
fn both() -> World {
    Setup::new(CONCURRENT, two(&[0, 1], &[2, 3])).start()
}

/// The same with one pod for each.
fn pair() -> World {
    Setup::new(CONCURRENT, two(&[0], &[2])).start()
}

#[test]
fn decode_is_asked_when_prefill_is_done_and_told_what_it_said() {
    let mut world = Setup::new(REUSABLE, two(&[0, 1], &[2, 3])).start();
    assert_eq!(world.pods(), [0]);
    world.head(0, 200).chunk(0, "its ").chunk(0, "blocks");
    assert_eq!(world.pods(), [0], "its answer is not whole yet");
    world.end(0);
    assert_eq!(world.pods(), [0, 2]);
    assert!(world.request(0).starts_with("prefill after nobody said nothing"));
    assert!(world.request(1).starts_with("decode after 0 said its blocks"), "{}", world.request(1));
    world.stream(1).chunk(1, "data: a\n\n").end(1);
    assert_eq!(
        (world.outcome(), world.text()),
        (&DispatchOutcome::Completed(200), "data: a\n\n"),
        "prefill's answer stays here"
    );
}

#[test]
fn prefills_load_is_released_before_decode_is_sent() {
    let mut world = Setup::new(REUSABLE, two(&[0], &[2])).start();
    assert_eq!(world.told(), ["hold 0 on 0", "send 0 to 0"]);
    world.prefilled(0);
    assert_eq!(world.told(), ["first byte 0", "praise 0", "release 0", "hold 1 on 2", "send 1 to 2"]);
}

#[test]
fn both_legs_at_once_meet_by_one_number() {
    let mut world = both();
    assert_eq!(world.pods(), [0, 2]);
    let number = |request: String| request.rsplit(' ').next().unwrap().to_owned();
    assert_eq!(number(world.request(0)), number(world.request(1)));
    assert!(world.request(1).starts_with("decode after 0 said nothing"));
    world.fails(1, connect());
    assert_eq!((world.pods(), world.cancelled.clone()), (vec![0, 2, 0, 3], vec![0]), "prefill did not fail");
    assert_eq!(number(world.request(2)), number(world.request(3)));
    assert_ne!(number(world.request(0)), number(world.request(2)), "a new try, a new number");
}

#[test]
fn a_failed_prefill_answers_without_waiting_for_decode() {
    for failure in [connect(), cut()] {
        let mut world = pair();
        world.told();
        world.fails(0, failure);
        assert_eq!(world.told(), ["charge 0", "release 0", "cancel 1", "release 1", "answer", "finish"]);
        assert_eq!((world.status().as_u16(), world.charged()), (502, vec![0]));
    }
    let mut world = pair();
    assert_eq!(world.head(0, 500).status(), 502);
}

#[test]
fn a_failed_decode_answers_without_waiting_for_prefill() {
    let mut world = pair();
    world.told();
    world.fails(1, connect());
    assert_eq!(world.told(), ["charge 2", "release 1", "cancel 0", "release 0", "answer", "finish"]);
    assert_eq!((world.status().as_u16(), world.charged()), (502, vec![2]));
}

#[test]
fn a_prefill_that_fails_after_the_answer_began_does_not_end_it() {
    let mut world = pair();
    world.stream(1).chunk(1, "data: a\n\n").fails(0, cut()).chunk(1, "data: b\n\n").end(1);
    assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(200), vec![0]));
    assert_eq!(world.text(), "data: a\n\ndata: b\n\n");
}

#[test]
fn a_silent_prefill_is_given_up_at_its_bound_and_never_asked_again() {
    let mut world = Setup::new(REUSABLE, two(&[0, 1], &[2])).start();
    world.pass(seconds(9));
    assert_eq!(world.pods(), [0]);
    world.pass(seconds(1));
    assert_eq!((world.pods(), world.cancelled.clone(), world.charged()), (vec![0, 1], vec![0], vec![0]));
    world.pass(seconds(10));
    assert_eq!((world.status().as_u16(), world.pods()), (504, vec![0, 1]), "decode was never asked");
    let step = "prefill".into();
    assert_eq!(*world.error(), DispatchError::StepFailed { step, failure: Failure::FirstByteTimeout });
}

#[test]
fn a_head_alone_is_no_first_byte() {
    let mut world = Setup::new(REUSABLE, two(&[0], &[2])).start();
    world.head(0, 200).chunk(0, "").pass(seconds(10));
    assert_eq!(world.status(), 504);
}

#[test]
fn a_decode_that_waits_for_a_queued_prefill_is_not_late() {
    let mut world = pair();
    // Prefill is queued for longer than decode has to its first byte.
    world.pass(seconds(9));
    assert!(world.report.is_none());
    world.prefilled(0).pass(seconds(4));
    assert!(world.report.is_none(), "decode's time began when prefill was done");
    world.pass(seconds(1));
    assert_eq!((world.status().as_u16(), world.charged()), (504, vec![2]), "and it is decode that is late");
    assert_eq!(world.judged[0].0, pod(0));
}

#[test]
fn a_decode_that_begins_before_prefill_is_done_is_watched_too() {
    let mut world = pair();
    world.stream(1).chunk(1, "data: a\n\n").prefilled(0).pass(seconds(3));
    assert_eq!(*world.error(), DispatchError::Truncated(Failure::IdleTimeout));
    assert_eq!(world.charged(), [2]);
}

#[test]
fn the_time_of_a_decode_is_its_own() {
    let mut world = pair();
    world.pass(seconds(8)).prefilled(0).pass(seconds(1)).stream(1).chunk(1, "data: a\n\n").end(1);
    assert_eq!(
        world.judged,
        [(pod(0), BreakerSample::Success(Some(seconds(8)))), (pod(2), BreakerSample::Success(Some(seconds(1))))]
    );
    let mut world = pair();
    world.pass(seconds(8)).stream(1).chunk(1, "data: a\n\n").end(1);
    assert_eq!(world.judged, [(pod(2), BreakerSample::Success(None))], "prefill's time is not decode's");
}

#[test]
fn a_refused_decode_goes_to_another_with_the_same_handoff_where_it_is_reusable() {
    let mut world = Setup::new(REUSABLE, two(&[0, 1], &[2, 3])).start();
    world.prefilled(0).fails(1, connect());
    assert_eq!((world.pods(), world.request(1)), (vec![0, 2, 3], world.request(2)));
    world.fails(2, connect());
    assert_eq!((world.status().as_u16(), world.charged()), (502, vec![2, 3]), "none left is 502, not 400");
}

#[test]
fn a_refused_decode_has_prefill_run_again_where_the_handoff_is_used_up() {
    let mut world = Setup::new(ONE_USE, two(&[0, 1], &[2, 3])).start();
    world.prefilled(0).fails(1, connect());
    assert_eq!(world.pods(), [0, 2, 0], "prefill did well, and runs again");
    world.head(2, 200).chunk(2, "other blocks").end(2);
    assert_eq!(world.pods(), [0, 2, 0, 3]);
    assert!(world.request(3).starts_with("decode after 0 said other blocks"));
    world.fails(3, connect());
    assert_eq!((world.status().as_u16(), world.charged()), (502, vec![2, 3]));
}

#[test]
fn a_decode_that_a_breaker_holds_back_uses_nothing_up() {
    let mut world = Setup::new(ONE_USE, two(&[0], &[2, 3, 4, 5, 6])).start();
    world.prefilled(0);
    for at in 1..5 {
        world.fails(at, Failure::BreakerOpen);
    }
    assert_eq!(world.pods(), [0, 2, 3, 4, 5, 6], "nor is it an attempt");
    world.fails(5, Failure::BreakerOpen);
    assert_eq!((world.status().as_u16(), world.charged()), (503, vec![]));
    assert!(world.answer.unwrap().headers().contains_key("retry-after"));
}

#[test]
fn only_what_prefilled_runs_again() {
    let steps = [step("encode", &[4]), step("prefill", &[0]), step("decode", &[2, 3])];
    let mut world = Setup::new(ONE_USE, plan(steps)).start();
    world.prefilled(0).prefilled(1).fails(2, cut());
    assert_eq!(world.pods(), [4, 0, 2, 0]);
}

#[test]
fn a_refusal_of_prefills_is_passed_to_the_client_as_it_is() {
    for dialect in [REUSABLE, CONCURRENT] {
        let mut world = Setup::new(dialect, two(&[0], &[2, 3])).start();
        world.head(0, 400).chunk(0, "{\"error\":").chunk(0, "\"too long\"}").end(0);
        assert_eq!((world.outcome(), world.text()), (&DispatchOutcome::Completed(400), "{\"error\":\"too long\"}"));
        assert_eq!(world.head.as_ref().unwrap().status, 400);
        assert!(world.judged.is_empty());
    }
}

#[test]
fn a_refusal_that_is_cut_before_its_body_goes_to_another_pod() {
    let mut world =
        Setup::new(CONCURRENT, two(&[0, 1], &[2])).config(|config| config.retry_on.rejected = false).start();
    world.head(0, 422).fails(0, cut());
    assert_eq!((world.pods(), world.cancelled.clone()), (vec![0, 2, 1, 2], vec![1]));
}

#[test]
fn a_redirect_is_no_prefill() {
    let mut world = Setup::new(REUSABLE, two(&[0], &[2])).start();
    world.head(0, 302);
    assert_eq!((world.status().as_u16(), world.pods()), (502, vec![0]));
}

#[test]
fn a_client_that_leaves_cancels_what_is_under_way_and_charges_nobody() {
    let leave = |mut world: World, cancelled: &[usize]| {
        world.told();
        world.handle(Input::ClientDisconnected);
        assert_eq!((world.outcome(), &world.cancelled[..]), (&DispatchOutcome::ClientDisconnected, cancelled));
        assert!(world.answer.is_none() && !world.aborted && world.charged().is_empty());
        world.handle(Input::ClientDisconnected);
        world
    };
    leave(Setup::new(REUSABLE, two(&[0], &[2])).start(), &[0]);
    leave(both(), &[0, 1]);
    let mut between = Setup::new(REUSABLE, two(&[0], &[2])).start();
    between.prefilled(0);
    let between = leave(between, &[1]);
    assert_eq!(between.report.unwrap().attempts[0].outcome, AttemptOutcome::Completed);
    let mut streaming = Setup::new(REUSABLE, two(&[0], &[2])).start();
    streaming.prefilled(0).stream(1).chunk(1, "data: a\n\n");
    let streaming = leave(streaming, &[1]);
    assert_eq!(streaming.text(), "data: a\n\n");
}

#[test]
fn a_client_that_leaves_while_a_plan_is_made_ends_the_dispatch() {
    let mut world = Setup::new(REUSABLE, plan([step("both", &[0]).on_failure(FailurePolicy::Replan)])).start();
    world.fails(0, connect()).handle(Input::ClientDisconnected);
    world.replanned(Some(single(&[1])));
    assert_eq!((world.outcome(), world.sent.len()), (&DispatchOutcome::ClientDisconnected, 1));
}

#[test]
fn a_pod_of_two_steps_is_judged_once_and_by_its_worst() {
    let mut world = Setup::new(REUSABLE, two(&[0], &[2, 0])).start();
    world.prefilled(0);
    assert!(world.judged.is_empty(), "it may fail yet");
    world.fails(1, cut()).fails(2, cut());
    assert_eq!(world.charged(), [2, 0]);
    let mut world = Setup::new(REUSABLE, two(&[0], &[2, 0])).start();
    world.prefilled(0).stream(1).chunk(1, "data: a\n\n").end(1);
    assert_eq!(world.judged.iter().map(|(pod, _)| pod.id().index()).collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn a_pod_that_failed_in_one_step_may_do_another() {
    let mut world = Setup::new(REUSABLE, two(&[0, 1], &[2, 0])).start();
    world.fails(0, cut()).prefilled(1).fails(2, cut());
    assert_eq!((world.pods(), world.charged()), (vec![0, 1, 2, 0], vec![0, 2]));
}
