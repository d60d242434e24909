//! Want of this process's own: descriptors, ports, memory of sockets. No pod is asked, and none is to blame.

use std::sync::Arc;
use std::time::Duration;

use crate::world::*;
use routing_core::FailurePolicy;
use routing_exec::{DispatchError, DispatchOutcome, Failure, Input, RetryBudget};

const PAUSE: Duration = Duration::from_millis(50);

#[test]
fn another_pod_is_tried_at_once_and_nobody_is_charged() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.fails(0, local());
    assert_eq!(world.pods(), [0, 1], "there may be an open connection to it");
    world.stream(1).chunk(1, "data: a\n\n").end(1);
    assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(200), vec![]));
}

#[test]
fn the_same_pod_is_tried_again_after_a_pause() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.fails(0, local());
    assert_eq!((world.pods(), world.report.is_none()), (vec![0], true));
    world.pass(PAUSE);
    assert_eq!(world.pods(), [0, 0]);
    world.stream(1).chunk(1, "data: a\n\n").end(1);
    assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(200), vec![]));
}

#[test]
fn a_want_that_lasts_is_a_503_with_a_code_of_its_own() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    let mut at = 0;
    while world.report.is_none() && at < 100 {
        // Each is told that there is none; time passes when nobody is asked.
        match at < world.sent.len() {
            true => drop(world.fails(at, local()).told()),
            false => {
                world.pass(Duration::from_secs(1));
                continue;
            }
        }
        at += 1;
    }
    assert_eq!(world.pods(), [0, 1, 0, 1, 0, 1, 0, 1], "four rounds, and no storm");
    assert!(matches!(world.error(), DispatchError::StepFailed { failure: Failure::LocalResources(_), .. }));
    assert_eq!(world.judged.len() + world.exonerated.len(), 0);
    let answer = world.answer.unwrap();
    assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].as_bytes()), (503, &b"7"[..]));
    let body = String::from_utf8(answer.body().to_vec()).unwrap();
    assert!(body.contains(r#""code":"out_of_local_resources""#) && body.contains("too many open files"), "{body}");
}

#[test]
fn it_costs_neither_the_retry_budget_nor_an_attempt() {
    let mut setup = Setup::new(REUSABLE, single(&[0, 1, 2])).config(|config| config.max_attempts = 2);
    setup.budget = Some(Arc::new(RetryBudget::new(1.0, 0.0, 1.0)));
    let mut world = setup.start();
    world.fails(0, local()).fails(1, local()).pass(PAUSE);
    assert_eq!(world.pods(), [0, 1, 0]);
    world.head(2, 500);
    assert_eq!(world.pods(), [0, 1, 0, 1], "the one retry that there is");
    world.head(3, 500).chunk(3, "mine").end(3);
    assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(500), vec![0, 1]));
}

#[test]
fn who_was_not_reached_is_a_candidate_again_once_another_was() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.fails(0, local()).head(1, 500);
    assert_eq!(world.pods(), [0, 1, 0]);
    world.stream(2).chunk(2, "data: a\n\n").end(2);
    assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(200), vec![1]));
}

#[test]
fn a_breaker_is_not_gone_past_before_a_pause_was_tried() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.fails(0, local()).refused(1, 9);
    assert_eq!((world.pods(), world.forced.len()), (vec![0, 1], 0));
    world.pass(PAUSE);
    assert_eq!((world.pods(), world.forced.len()), (vec![0, 1, 0], 0));
}

#[test]
fn what_was_handed_off_is_kept_for_the_next_try() {
    for dialect in [REUSABLE, ONE_USE] {
        let mut world = Setup::new(dialect, two(&[0], &[1])).start();
        world.prefilled(0).fails(1, local()).pass(PAUSE);
        assert_eq!(world.pods(), [0, 1, 1], "nothing is prefilled twice");
        world.stream(2).chunk(2, "data: a\n\n").end(2);
        assert_eq!(*world.outcome(), DispatchOutcome::Completed(200));
    }
}

#[test]
fn both_of_two_legs_at_once_are_sent_again() {
    let mut world = Setup::new(CONCURRENT, two(&[0], &[1])).start();
    world.fails(1, local());
    assert_eq!(world.cancelled, [0], "its other half would wait in vain");
    world.pass(PAUSE);
    assert_eq!(world.pods(), [0, 1, 0, 1]);
    assert!(world.judged.is_empty());
}

#[test]
fn a_step_that_may_be_skipped_is_and_one_that_must_not_fail_fails() {
    let steps = [step("prefill", &[0]).on_failure(FailurePolicy::Skip), step("decode", &[1])];
    let mut world = Setup::new(REUSABLE, plan(steps)).start();
    for at in 0..4 {
        world.fails(at, local()).pass(Duration::from_secs(1));
    }
    assert_eq!(world.pods(), [0, 0, 0, 0, 1]);
    let steps = [step("both", &[0, 1]).on_failure(FailurePolicy::Fail)];
    let mut world = Setup::new(REUSABLE, plan(steps)).start();
    world.fails(0, local());
    assert_eq!((world.status().as_u16(), world.pods()), (503, vec![0]));
}

#[test]
fn who_leaves_or_has_no_time_left_ends_a_pause() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.fails(0, local());
    world.handle(Input::ClientDisconnected);
    assert_eq!(*world.outcome(), DispatchOutcome::ClientDisconnected);
    let total = Duration::from_millis(20);
    let mut world = Setup::new(REUSABLE, single(&[0])).config(|config| config.request_timeout = total).start();
    world.fails(0, local()).pass(total);
    assert_eq!((world.error(), world.pods()), (&DispatchError::RequestTimeout(total), vec![0]));
}

#[test]
fn a_pod_for_both_steps_stays_that() {
    let mut world = Setup::new(ONE_USE, two(&[0], &[0])).start();
    assert_eq!(world.sent[0].step, 1, "one plain request");
    world.fails(0, local()).pass(PAUSE);
    assert_eq!((world.pods(), world.sent[1].step), (vec![0, 0], 1));
}
