//! Bad days: pods that push back, refuse, redirect or stop short, breakers that are all open, and requests that fail everywhere.

use std::time::Duration;

use crate::world::*;
use routing_core::{FailurePolicy, RoutingPlan};
use routing_exec::{BreakerSample, DispatchError, DispatchOutcome, Failure};

#[test]
fn a_push_back_tells_the_breaker_how_long_it_lasts() {
    for (headers, asked) in [(&[][..], None), (&[("retry-after", "7")][..], Some(Duration::from_secs(7)))] {
        let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
        world.head_with(0, 503, headers).stream(1).chunk(1, "data: a\n\n").end(1);
        assert_eq!((world.outcome(), world.pods()), (&DispatchOutcome::Completed(200), vec![0, 1]));
        assert_eq!(world.judged[0].1, BreakerSample::Overloaded(asked));
    }
}

#[test]
fn a_refusal_is_tried_once_elsewhere_and_charged_only_if_that_serves_it() {
    for status in [400, 401, 403, 404, 422] {
        let mut world = Setup::new(REUSABLE, single(&[0, 1, 2])).start();
        world.head(0, status);
        assert_eq!((world.pods(), world.charged()), (vec![0, 1], vec![]), "nobody is charged yet");
        world.stream(1).chunk(1, "data: a\n\n");
        assert_eq!(world.charged(), [0], "as soon as another serves it, not at the end of its stream");
        world.end(1);

        let mut world = Setup::new(REUSABLE, single(&[0, 1, 2])).start();
        world.head(0, status).head(1, status).chunk(1, "no such model").end(1);
        assert_eq!((world.outcome(), world.text()), (&DispatchOutcome::Completed(status), "no such model"));
        assert_eq!((world.pods(), world.judged.len()), (vec![0, 1], 0), "two say the same: it is the client's");
    }
}

#[test]
fn what_is_no_answer_of_an_engine_does_not_pass() {
    for status in [301, 307, 600, 999] {
        let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
        world.head_with(0, status, &[("location", "http://10.0.0.5:8000/")]);
        world.stream(1).chunk(1, "data: a\n\n").end(1);
        assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(200), vec![0]), "{status}");
        let mut world = Setup::new(REUSABLE, single(&[0])).start();
        world.head_with(0, status, &[("location", "http://10.0.0.5:8000/")]);
        assert_eq!(world.status(), 502);
        assert!(!world.answer.as_ref().unwrap().headers().contains_key("location"));
    }
}

#[test]
fn an_interim_status_is_no_answer() {
    for status in [100, 101, 103] {
        let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
        world.head_with(0, status, &[("upgrade", "x")]).end(0);
        assert_eq!((world.pods(), world.charged()), (vec![0, 1], vec![0]), "{status}");
        world.head(1, status).chunk(1, "raw");
        assert_eq!((world.status().as_u16(), world.body.len()), (502, 0), "{status}");
    }
}

#[test]
fn where_a_pod_is_stays_behind_on_every_path() {
    let internal = [
        ("location", "http://10.0.0.5:8000/v1"),
        ("content-location", "http://10.0.0.5:8000/v1"),
        ("refresh", "0; url=http://10.0.0.5:8000/"),
        ("link", "<http://10.0.0.5:8000/>; rel=next"),
        ("alt-svc", "h2=\"10.0.0.5:8443\""),
        ("via", "1.1 sidecar.pod-0.svc"),
        ("server", "uvicorn"),
        ("x-prefiller-host-port", "10.0.0.6:8000"),
        ("retry-after", "3"),
    ];
    let events: Vec<_> = internal.into_iter().chain([("content-type", "text/event-stream")]).collect();
    for (status, headers) in [(200, &internal[..]), (200, &events[..]), (400, &internal[..]), (503, &internal[..])] {
        let mut world = Setup::new(REUSABLE, single(&[0])).start();
        world.head_with(0, status, headers).chunk(0, "data: a\n\n").end(0);
        let head = world.head.unwrap();
        let left: Vec<_> = head.headers.iter().filter(|(name, _)| *name != "content-type").collect();
        assert_eq!(
            (head.status.as_u16(), left.len(), &head.headers["retry-after"]),
            (status, 1, &"3".parse().unwrap())
        );
    }
    // A redirect is none of the client's: it gets an error of ours.
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.head_with(0, 307, &internal);
    let answer = world.answer.unwrap();
    assert!(answer.headers().keys().eq(["content-type"]), "{answer:?}");
    assert!(!String::from_utf8_lossy(answer.body()).contains("10.0.0.5"));
}

#[test]
fn a_pods_wish_to_be_left_alone_reaches_the_client() {
    // As it is, where the client gets the pod's own answer.
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.head_with(0, 429, &[("retry-after", "20")]).chunk(0, "later").end(0);
    let head = world.head.unwrap();
    assert_eq!((head.status.as_u16(), &head.headers["retry-after"]), (429, &"20".parse().unwrap()));
    // The shortest one, where it gets an error of ours.
    let mut world = Setup::new(REUSABLE, two(&[0, 1], &[2])).start();
    world.head_with(0, 503, &[("retry-after", "30")]).head_with(1, 503, &[("retry-after", "20")]);
    let answer = world.answer.unwrap();
    assert_eq!((answer.status().as_u16(), &answer.headers()["retry-after"]), (503, &"20".parse().unwrap()));
}

#[test]
fn a_stream_of_completions_ends_with_done_or_with_an_error() {
    let done = |chunks: &[&'static str]| {
        let mut world = Setup::new(REUSABLE, single(&[0])).config(|config| config.require_done = true).start();
        world.stream(0);
        for chunk in chunks {
            world.chunk(0, chunk);
        }
        world.end(0);
        (world.outcome().clone(), world.charged().len(), world.text().to_owned())
    };
    for whole in [&["data: a\n\ndata: [DONE]\n\n"][..], &["data: a\n\n", "data: [DO", "NE]\n\n"], &["data:[DONE]"]] {
        assert_eq!(done(whole).0, DispatchOutcome::Completed(200), "{whole:?}");
    }
    let (outcome, charged, text) = done(&["data: a\n\n", "data: b\n\n"]);
    assert!(matches!(outcome, DispatchOutcome::Failed(DispatchError::Truncated(_))), "{outcome:?}");
    assert_eq!(charged, 1);
    assert!(text.starts_with("data: a\n\ndata: b\n\nevent: error\n"), "the client sees it as a failure: {text}");
    // What says that it failed has said all.
    assert_eq!(done(&["data: {\"error\":{\"code\":400}}\n\n"]).0, DispatchOutcome::Completed(200));
}

#[test]
fn where_all_breakers_are_open_the_likeliest_pod_is_sent_it_all_the_same() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1, 2])).start();
    world.refused(0, 9).refused(1, 3).refused(2, 5);
    assert_eq!((world.pods(), &world.forced[..]), (vec![0, 1, 2, 1], &[1][..]), "the one that would be tried first");
    world.head(3, 500);
    assert_eq!((&world.forced[..], world.pods().last()), (&[1, 2][..], Some(&2)), "and then the next");
    world.stream(4).chunk(4, "data: a\n\n").end(4);
    assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(200), vec![1]));

    let mut world = Setup::new(REUSABLE, single(&[0, 1])).config(|config| config.fail_open = false).start();
    world.refused(0, 9).refused(1, 3);
    assert_eq!((world.status(), world.forced.len()), (http::StatusCode::SERVICE_UNAVAILABLE, 0));
}

#[test]
fn a_pod_with_an_open_breaker_is_the_last_resort() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.refused(0, 9).head(1, 500);
    assert_eq!((world.pods(), &world.forced[..]), (vec![0, 1, 0], &[0][..]));
    world.head(2, 200).chunk(2, "x").end(2);
    assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(200), vec![1]));
}

#[test]
fn a_refusal_is_tried_past_an_open_breaker_where_no_other_pod_is_left() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.refused(0, 9).head(1, 401);
    assert_eq!((world.pods(), &world.forced[..]), (vec![0, 1, 0], &[0][..]));
    world.stream(2).chunk(2, "data: a\n\n").end(2);
    assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(200), vec![1]));

    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.refused(0, 9).head(1, 401).head(2, 401).chunk(2, "who are you").end(2);
    assert_eq!((world.outcome(), world.text()), (&DispatchOutcome::Completed(401), "who are you"), "two say the same");
}

#[test]
fn a_refusal_of_the_only_pod_of_a_plan_is_tried_on_another_plans() {
    let mut world = Setup::new(REUSABLE, single(&[1])).start();
    world.head(0, 404);
    assert_eq!(world.replans, [[pod(1)]]);
    world.replanned(Some(single(&[0])));
    world.stream(1).chunk(1, "data: a\n\n").end(1);
    assert_eq!((world.outcome(), world.pods()), (&DispatchOutcome::Completed(200), vec![1, 0]));
    assert_eq!(world.charged(), [1]);

    let mut world = Setup::new(REUSABLE, single(&[1])).start();
    world.head(0, 404);
    world.replanned(Some(single(&[0])));
    world.head(1, 404).chunk(1, "no such model").end(1);
    assert_eq!(
        (world.outcome(), world.text()),
        (&DispatchOutcome::Completed(404), "no such model"),
        "two say the same"
    );
    assert_eq!((world.replans.len(), world.judged.len()), (1, 0));
}

#[test]
fn a_refusal_is_the_answer_where_no_other_plan_is() {
    for none in [None, Some(plan([])), Some(single(&[1]))] {
        let mut world = Setup::new(REUSABLE, single(&[1])).start();
        world.head(0, 404);
        world.replanned(none);
        world.chunk(0, "no such model").end(0);
        assert_eq!((world.outcome(), world.text()), (&DispatchOutcome::Completed(404), "no such model"));
        assert_eq!((world.pods(), world.judged.len()), (vec![1], 0));
    }
    let mut world = Setup::new(REUSABLE, single(&[1])).config(|config| config.max_attempts = 1).start();
    world.head(0, 404).chunk(0, "no such model").end(0);
    assert_eq!((world.text(), world.replans.len()), ("no such model", 0), "one attempt is one");
    // What is slow to plan anew does not keep the answer waiting.
    let mut world = Setup::new(REUSABLE, single(&[1])).start();
    world.head(0, 404).chunk(0, "no such ");
    world.replanned(Some(single(&[0])));
    world.chunk(0, "model").end(0);
    assert_eq!((world.pods(), world.text()), (vec![1], "no such model"));
}

#[test]
fn attempts_past_breakers_are_bounded_like_others() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1, 2, 3])).start();
    world.refused(0, 1).refused(1, 2).refused(2, 3).refused(3, 4);
    world.head(4, 500).head(5, 500).head(6, 500).chunk(6, "mine").end(6);
    assert_eq!((&world.forced[..], world.text()), (&[0, 1, 2][..], "mine"), "three attempts in all");
}

#[test]
fn a_request_that_fails_everywhere_is_nobodys_fault() {
    for failure in [Failure::Status(500), cut(), Failure::FirstByteTimeout] {
        let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
        world.fails(0, failure.clone()).fails(1, failure);
        assert_eq!((world.charged(), &world.exonerated[..]), (vec![0, 1], &[0, 1][..]));
    }
    // One pod alone may be the cause, and one that cannot be reached is.
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.head(0, 500).end(0);
    assert_eq!((world.charged(), world.exonerated.len()), (vec![0], 0));
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.fails(0, connect()).fails(1, connect());
    assert_eq!((world.charged(), world.exonerated.len()), (vec![0, 1], 0));
    // Another served it, so that those before it failed by themselves.
    let mut world = Setup::new(REUSABLE, single(&[0, 1, 2])).start();
    world.head(0, 500).head(1, 500).stream(2).chunk(2, "data: a\n\n").fails(2, cut());
    assert_eq!((world.charged(), world.exonerated.len()), (vec![0, 1, 2], 0));
}

#[test]
fn a_refusal_without_another_pod_is_the_answer_whatever_the_policy() {
    let plan = RoutingPlan::new(1, [step("serve", &[0]).on_failure(FailurePolicy::Replan)]);
    let mut world = Setup::new(REUSABLE, plan).start();
    world.head(0, 404).chunk(0, "no such model").end(0);
    assert_eq!((world.outcome(), world.text()), (&DispatchOutcome::Completed(404), "no such model"));
}

#[test]
fn a_prefill_that_is_done_does_not_charge_decode_pods_that_refused() {
    let mut world = Setup::new(ONE_USE, two(&[0], &[2, 3])).start();
    world.prefilled(0).head(1, 404);
    assert_eq!(world.pods(), [0, 2, 0]);
    world.prefilled(2).head(3, 404).chunk(3, "no").end(3);
    assert_eq!((world.outcome(), world.charged()), (&DispatchOutcome::Completed(404), vec![]), "the client's own");
}

#[test]
fn a_prefill_pod_that_was_forced_can_be_used_again() {
    let mut world = Setup::new(ONE_USE, two(&[0], &[2, 3])).start();
    world.refused(0, 9).prefilled(1).head(2, 500);
    assert_eq!(world.pods(), [0, 0, 2, 0], "another decode pod needs another prefill");
}

#[test]
fn who_leaves_exonerates_nobody() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1, 2])).start();
    world.head(0, 500).head(1, 500);
    world.handle(routing_exec::Input::ClientDisconnected);
    assert_eq!((world.charged(), world.exonerated.len()), (vec![0, 1], 0));
}
