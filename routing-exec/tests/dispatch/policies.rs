//! What a step's policy, the host's budget and its hooks make of a failure.

#![expect(clippy::unwrap_used, reason = "a hook that cannot write down is a failed test")]

use std::sync::{Arc, Mutex};

use crate::world::*;
use bytes::Bytes;
use http::{Request, response};
use routing_core::{FailurePolicy, Pod};
use routing_exec::{
    BreakerSample, DispatchError, DispatchOutcome, DispatchReport, Failure, Hook, HookError, RetryBudget, RetryOn,
    Target,
};

fn policy(name: &str, pods: &[usize], on_failure: FailurePolicy) -> routing_core::PlanStep {
    step(name, pods).on_failure(on_failure)
}

#[test]
fn a_step_that_is_skipped_leaves_the_decode_pod_to_prefill_alone() {
    for dialect in [REUSABLE, ONE_USE, CONCURRENT] {
        let steps = [policy("prefill", &[0, 1], FailurePolicy::Skip), step("decode", &[2])];
        let mut world = Setup::new(dialect, plan(steps)).start();
        let asked_both = world.sent.len() == 2;
        world.fails(0, connect());
        let second = world.pods().iter().position(|pod| *pod == 1).unwrap();
        world.fails(second, connect());
        let last = world.sent.len() - 1;
        assert_eq!(world.pods()[last], 2, "candidates are tried first");
        assert!(world.request(last).starts_with("decode after nobody said nothing"));
        assert_eq!(world.cancelled.len(), if asked_both { 2 } else { 0 });
        world.stream(last).chunk(last, "data: a\n\n").end(last);
        assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(200), vec![0, 1]));
        assert_eq!(world.report.unwrap().skipped, ["prefill".into()]);
    }
}

#[test]
fn the_last_step_cannot_be_skipped() {
    let mut world = Setup::new(REUSABLE, plan([policy("both", &[0], FailurePolicy::Skip)])).start();
    assert_eq!(world.fails(0, connect()).status(), 502);
}

#[test]
fn a_step_that_must_not_fail_fails_at_once() {
    let steps = [policy("prefill", &[0, 1], FailurePolicy::Fail), step("decode", &[2])];
    let mut world = Setup::new(REUSABLE, plan(steps)).start();
    world.fails(0, connect());
    assert_eq!((world.status().as_u16(), world.pods()), (502, vec![0]));
}

#[test]
fn a_new_plan_is_asked_for_without_the_pods_that_failed() {
    let steps = [step("prefill", &[0, 1]), policy("decode", &[2, 3], FailurePolicy::Replan)];
    let mut world = Setup::new(REUSABLE, plan(steps)).start();
    world.fails(0, connect()).prefilled(1).fails(2, connect()).fails(3, connect());
    assert_eq!(world.replans, [[pod(0), pod(2), pod(3)]]);
    // A host that names them all the same is not followed.
    world.replanned(Some(two(&[0, 4], &[2, 5])));
    world.prefilled(4);
    assert_eq!(world.pods(), [0, 1, 2, 3, 4, 5], "a plan is followed from its beginning");
    world.stream(5).chunk(5, "data: a\n\n").end(5);
    assert_eq!((world.outcome(), world.report.as_ref().unwrap().replans), (&DispatchOutcome::Completed(200), 1));
}

#[test]
fn a_pod_that_fails_under_a_new_plan_may_still_do_another_step_of_it() {
    let mut world = Setup::new(REUSABLE, plan([policy("both", &[0], FailurePolicy::Replan)])).start();
    world.fails(0, connect());
    world.replanned(Some(two(&[1, 2], &[3, 0, 1])));
    world.fails(1, connect()).prefilled(2).fails(3, connect());
    assert_eq!(world.pods(), [0, 1, 2, 3, 1], "0 failed under the plan before");
}

#[test]
fn a_new_plan_of_pods_that_failed_is_none() {
    let mut world = Setup::new(REUSABLE, plan([policy("both", &[0], FailurePolicy::Replan)])).start();
    world.fails(0, connect());
    world.replanned(Some(single(&[0])));
    assert_eq!((world.status().as_u16(), world.sent.len()), (503, 1));
}

#[test]
fn without_a_new_plan_the_failure_stands() {
    for none in [None, Some(plan([]))] {
        let mut world = Setup::new(REUSABLE, plan([policy("both", &[0], FailurePolicy::Replan)])).start();
        world.fails(0, connect());
        assert!(world.report.is_none());
        world.replanned(none);
        let step = "both".into();
        assert_eq!(*world.error(), DispatchError::StepFailed { step, failure: connect() });
        assert_eq!(world.status(), 502);
    }
}

#[test]
fn new_plans_are_bounded() {
    let again = |at: usize| plan([policy("both", &[at], FailurePolicy::Replan)]);
    let mut world = Setup::new(REUSABLE, again(0)).config(|config| config.max_replans = 2).start();
    world.fails(0, connect());
    world.replanned(Some(again(1)));
    world.fails(1, connect());
    world.replanned(Some(again(2)));
    world.fails(2, connect());
    assert_eq!((world.replans.len(), world.pods()), (2, vec![0, 1, 2]));
    assert_eq!(world.status(), 502);
}

#[test]
fn a_new_plan_cancels_what_the_old_one_had_under_way() {
    let steps = [policy("prefill", &[0], FailurePolicy::Replan), step("decode", &[2])];
    let mut world = Setup::new(CONCURRENT, plan(steps)).start();
    world.fails(0, cut());
    assert_eq!((world.cancelled.clone(), world.replans.len(), world.charged()), (vec![1], 1, vec![0]));
    world.replanned(None);
    world.replanned(Some(single(&[5])));
    assert_eq!(world.sent.len(), 2, "a plan that was not asked for is none");
}

#[test]
fn a_deadline_ends_the_wait_for_a_plan() {
    let mut world = Setup::new(REUSABLE, plan([policy("both", &[0], FailurePolicy::Replan)])).deadline(5).start();
    world.fails(0, connect()).pass(seconds(5));
    assert_eq!(*world.error(), DispatchError::DeadlineExceeded);
}

#[test]
fn no_more_pods_are_asked_than_attempts_allow() {
    for (attempts, asked) in [(0, 1), (1, 1), (2, 2), (9, 4)] {
        let setup = Setup::new(REUSABLE, single(&[0, 1, 2, 3])).config(|config| config.max_attempts = attempts);
        let mut world = setup.start();
        while world.report.is_none() {
            let last = world.sent.len() - 1;
            world.fails(last, connect());
        }
        assert_eq!(world.sent.len(), asked);
    }
}

#[test]
fn only_failures_that_are_worth_it_are_tried_again() {
    let nothing = RetryOn::default()
        .connect_failure(false)
        .first_byte_timeout(false)
        .reset(false)
        .server_error(false)
        .overloaded(false)
        .refused(false);
    for failure in
        [connect(), cut(), Failure::FirstByteTimeout, Failure::IdleTimeout, Failure::Status(500), Failure::Status(429)]
    {
        let mut world = Setup::new(REUSABLE, single(&[0, 1])).config(|config| config.retry_on = nothing).start();
        world.fails(0, failure);
        assert_eq!(world.sent.len(), 1);
    }
}

#[test]
fn without_budget_the_failure_stands() {
    let budget = |saved: u32| {
        let budget = RetryBudget::new(1.0, 0.0, 10.0);
        (1..saved).for_each(|_| budget.deposit(some_instant()));
        Some(Arc::new(budget))
    };
    let mut setup = Setup::new(REUSABLE, single(&[0, 1, 2]));
    setup.budget = budget(1);
    let mut world = setup.start();
    world.fails(0, connect()).fails(1, connect());
    assert!(matches!(world.error(), DispatchError::RetryBudgetExhausted { .. }) && world.pods() == [0, 1]);
    assert_eq!(world.status(), 502);

    let mut setup = Setup::new(REUSABLE, single(&[0, 1, 2]));
    setup.budget = Some(Arc::new(RetryBudget::new(0.0, 0.0, 0.0)));
    let mut world = setup.start();
    world.head(0, 500).chunk(0, "own").end(0);
    assert_eq!(
        (world.outcome(), world.text()),
        (&DispatchOutcome::Completed(500), "own"),
        "its own words are better than ours"
    );

    let mut setup = Setup::new(REUSABLE, plan([policy("both", &[0], FailurePolicy::Replan)]));
    setup.budget = Some(Arc::new(RetryBudget::new(0.0, 0.0, 0.0)));
    let mut world = setup.start();
    world.fails(0, connect());
    assert!(matches!(world.error(), DispatchError::RetryBudgetExhausted { .. }), "a new plan is a retry too");

    let mut setup = Setup::new(REUSABLE, single(&[0, 1, 2]));
    setup.budget = Some(Arc::new(RetryBudget::new(0.0, 0.0, 0.0)));
    let mut world = setup.start();
    world.fails(0, Failure::BreakerOpen).fails(1, Failure::BreakerOpen);
    assert_eq!(world.pods(), [0, 1, 2], "what was not sent is no retry");
}

#[test]
fn without_budget_nobody_confirms_that_a_failure_is_the_pods() {
    let spent = |tokens: f64| {
        let mut setup = Setup::new(REUSABLE, single(&[0, 1, 2]));
        setup.budget = Some(Arc::new(RetryBudget::new(0.0, 0.0, 1.0).reserve(tokens)));
        setup.start()
    };
    let unconfirmed = |at: usize, failure| (pod(at), BreakerSample::Unconfirmed(failure));
    let mut world = spent(0.0);
    world.fails(0, Failure::FirstByteTimeout);
    assert_eq!(world.judged, [unconfirmed(0, Failure::FirstByteTimeout)]);
    let mut world = spent(0.0);
    world.head(0, 500).chunk(0, "own").end(0);
    assert_eq!(world.judged, [unconfirmed(0, Failure::Status(500))], "whoever's words the client is sent");
    let mut world = spent(0.0);
    world.fails(0, connect());
    assert_eq!(world.charged(), [0], "no request keeps a pod from listening");
    // One more was asked, and says the same: it is taken back.
    let mut world = spent(1.0);
    world.head(0, 500).head(1, 500).chunk(1, "own").end(1);
    assert_eq!((world.charged(), world.exonerated.len()), (vec![0, 1], 2));
    // A step that can be done without is not tried on its other pod.
    let steps = [policy("prefill", &[0, 1], FailurePolicy::Skip), step("decode", &[2])];
    let mut setup = Setup::new(REUSABLE, plan(steps));
    setup.budget = Some(Arc::new(RetryBudget::new(0.0, 0.0, 0.0)));
    let mut world = setup.start();
    world.fails(0, Failure::FirstByteTimeout).stream(1).chunk(1, "data: a\n\n").end(1);
    assert_eq!(world.judged[0], unconfirmed(0, Failure::FirstByteTimeout));
}

#[test]
fn without_budget_a_step_can_still_be_skipped() {
    let steps = [policy("prefill", &[0, 1], FailurePolicy::Skip), step("decode", &[2])];
    let mut setup = Setup::new(REUSABLE, plan(steps));
    setup.budget = Some(Arc::new(RetryBudget::new(0.0, 0.0, 0.0)));
    let mut world = setup.start();
    world.fails(0, connect());
    assert_eq!(world.pods(), [0, 2]);
}

type Notes = Arc<Mutex<Vec<String>>>;

/// Writes down where it was called, and leaves its mark.
struct Noting(&'static str, Notes);

impl Noting {
    fn note(&self, what: &str) {
        self.1.lock().unwrap().push(format!("{} {what}", self.0));
    }
}

impl Hook for Noting {
    fn name(&self) -> &str {
        self.0
    }

    fn before_send(&mut self, to: &Target<'_>, request: &mut Request<Bytes>) -> Result<(), HookError> {
        self.note(&format!("{} {} {}", to.step, to.pod.id().index(), to.retry));
        let body = [request.body(), self.0.as_bytes()].concat();
        *request.body_mut() = body.into();
        Ok(())
    }

    fn on_response_head(&mut self, from: Pod, head: &mut response::Parts) -> Result<(), HookError> {
        self.note(&format!("head of {}", from.id().index()));
        head.headers.append("x-seen-by", self.0.parse().unwrap());
        Ok(())
    }

    fn on_chunk(&mut self, chunk: Bytes) -> Result<Bytes, HookError> {
        self.note("chunk");
        Ok([&chunk, self.0.as_bytes()].concat().into())
    }

    fn on_finish(&mut self, report: &DispatchReport) {
        self.note(&format!("end after {}", report.bytes));
    }
}

#[test]
fn hooks_are_called_in_order_at_every_place() {
    let notes = Notes::default();
    let setup = Setup::new(REUSABLE, two(&[0, 1], &[2]));
    let setup = setup.hook(Noting("a", Arc::clone(&notes))).hook(Noting("b", Arc::clone(&notes)));
    let mut world = setup.start();
    world.fails(0, connect()).prefilled(1);
    assert!(world.request(2).ends_with("ab"));
    world.head_with(2, 200, &[("content-length", "1")]).chunk(2, "x").end(2);
    let expected = [
        "a prefill 0 0",
        "b prefill 0 0",
        "a prefill 1 1",
        "b prefill 1 1",
        "a decode 2 0",
        "b decode 2 0",
        "a head of 2",
        "b head of 2",
        "a chunk",
        "b chunk",
        "a end after 3",
        "b end after 3",
    ];
    assert_eq!(*notes.lock().unwrap(), expected);
    assert_eq!(world.text(), "xab");
    let headers = &world.head.as_ref().unwrap().headers;
    assert!(headers.get_all("x-seen-by").iter().eq(["a", "b"]) && !headers.contains_key("content-length"));
}

#[test]
fn a_hook_can_refuse_at_each_place_with_its_status() {
    for place in ["prefill", "decode", "head"] {
        let mut world = Setup::new(REUSABLE, two(&[0], &[2])).hook(Refuses(place, 451)).start();
        if !world.sent.is_empty() {
            world.prefilled(0);
        }
        if world.sent.len() > 1 {
            world.stream(1).chunk(1, "data: a\n\n");
        }
        assert!(matches!(world.error(), DispatchError::Hook(_)), "{place}");
        assert_eq!((world.status().as_u16(), world.charged().len()), (451, 0), "{place}");
    }
    let mut world = Setup::new(REUSABLE, single(&[0])).hook(Refuses("head", 451)).start();
    world.head(0, 204).end(0);
    assert_eq!((world.status().as_u16(), world.cancelled.len()), (451, 0), "what has ended is not cancelled");

    let mut world = Setup::new(REUSABLE, single(&[0])).hook(Refuses("chunk", 451)).start();
    world.stream(0).chunk(0, "data: a\n\ndata: b").chunk(0, "no\n\n");
    let error = "{\"error\":{\"message\":\"hook `refuses`: chunk\",\"type\":\"invalid_request_error\",\"param\":null,\
                 \"code\":\"rejected_by_hook\"}}";
    let expected = format!("data: a\n\ndata: b\n\nevent: error\ndata: {error}\n\ndata: [DONE]\n\n");
    assert_eq!((world.text(), world.cancelled.clone()), (&*expected, vec![0]), "on a frame of its own");

    let mut world = Setup::new(REUSABLE, single(&[0])).hook(Refuses("chunk", 451)).start();
    world.head(0, 200).chunk(0, "{").chunk(0, "no");
    assert!(world.aborted);
}

#[test]
fn a_hooks_status_that_is_no_errors_is_not_the_clients() {
    for status in [1, 100, 200, 302, 999] {
        let world = Setup::new(REUSABLE, single(&[0])).hook(Refuses("both", status)).start();
        assert_eq!(world.status(), 502);
    }
}
