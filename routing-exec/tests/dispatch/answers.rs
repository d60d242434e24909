//! What the client gets: a pod's answer byte for byte, or one error, and never half of either.

use crate::world::*;
use http::{HeaderMap, HeaderValue};
use routing_exec::{BreakerSample, DispatchError, DispatchOutcome, Failure, Input, TimerId};

const TAIL: &str = "data: [DONE]\n\n";

#[test]
fn a_completed_stream_is_byte_identical() {
    let text =
        "data: {\"x\":\"gr\u{fc}n \u{1f600}\"}\n\n: ping\n\ndata: {\"y\":[1,2]}\r\n\r\ndata: [DONE]\n\n".as_bytes();
    // Every cut: inside characters, inside JSON, inside line ends.
    for cut in 0..=text.len() {
        let mut world = Setup::new(REUSABLE, single(&[0])).start();
        world.stream(0).bytes(0, &text[..cut]).bytes(0, &text[cut..]).end(0);
        assert_eq!(world.body, text, "cut at {cut}");
        assert_eq!(*world.outcome(), DispatchOutcome::Completed(200));
    }
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.stream(0);
    for byte in text {
        world.bytes(0, &[*byte]);
    }
    assert_eq!(world.end(0).body, text);
}

#[test]
fn equal_chunks_are_not_taken_for_one() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.stream(0).chunk(0, "data: a\n\n").chunk(0, "data: a\n\n").chunk(0, "").chunk(0, TAIL).end(0);
    assert_eq!(world.text(), "data: a\n\ndata: a\n\ndata: [DONE]\n\n");
}

#[test]
fn a_stream_cut_between_events_ends_with_one_error_event_and_a_clean_end() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.stream(0).chunk(0, "data: a\n\n").fails(0, cut());
    let error = "event: error\ndata: {\"error\":{\"message\":\"the response ended early: response truncated: reset\",\
                 \"type\":\"server_error\",\"param\":null,\"code\":\"response_truncated\"}}\n\n";
    assert_eq!(world.text(), format!("data: a\n\n{error}{TAIL}"));
    assert_eq!((world.error(), world.sent.len()), (&DispatchError::Truncated(cut()), 1), "nothing is tried again");
    assert_eq!(world.charged(), [0]);
}

#[test]
fn a_stream_cut_inside_an_event_ends_with_the_error_on_its_own_frame() {
    for begun in ["data: {\"a", "data: {\"a\":1}\n", "data: x\r\n"] {
        let mut world = Setup::new(REUSABLE, single(&[0])).start();
        world.stream(0).chunk(0, "data: a\n\n").chunk(0, begun).fails(0, cut());
        let rest = world.text().strip_prefix(&format!("data: a\n\n{begun}\n\nevent: error\ndata: {{")).unwrap();
        assert!(rest.ends_with(&format!("}}\n\n{TAIL}")) && rest.matches("data:").count() == 1, "{rest}");
    }
}

#[test]
fn a_stream_that_ends_well_but_inside_an_event_is_cut() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.stream(0).chunk(0, "data: a\n\ndata: {\"b").end(0);
    assert!(matches!(world.error(), DispatchError::Truncated(Failure::Truncated(_))) && world.text().ends_with(TAIL));
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.stream(0).chunk(0, "data: a\n\ndata: [DONE]\n").end(0);
    assert_eq!(*world.outcome(), DispatchOutcome::Completed(200), "some engines leave the last line out");
}

#[test]
fn a_stream_that_ends_before_its_first_event_goes_to_another_pod() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.stream(0).end(0).stream(1).chunk(1, "data: {\"a").end(1);
    assert_eq!((world.pods(), world.charged()), (vec![0, 1], vec![0, 1]));
    assert!(world.head.is_none() && world.status() == 502, "what is no whole event never goes out");
}

#[test]
fn a_whole_answer_cut_short_breaks_off_and_is_never_a_short_success() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.head(0, 200).chunk(0, "{\"a\":").fails(0, cut());
    assert!(world.aborted && world.sent.len() == 1 && *world.error() == DispatchError::Truncated(cut()));

    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.head_with(0, 200, &[("content-length", "10")]).chunk(0, "short").end(0);
    assert_eq!((world.pods(), world.body.len()), (vec![0, 1], 0), "shorter than it said, and nothing went out");

    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.head_with(0, 200, &[("content-length", "10")]).end(0);
    assert_eq!(world.pods(), [0, 1], "nothing went out, so another pod is asked");
}

#[test]
fn an_answer_without_a_body_is_an_answer() {
    for (status, headers) in [(204, vec![]), (200, vec![("content-length", "0")]), (200, vec![])] {
        let mut world = Setup::new(REUSABLE, single(&[0])).start();
        world.head_with(0, status, &headers).end(0);
        assert_eq!((world.outcome(), world.body.len()), (&DispatchOutcome::Completed(status), 0));
        assert_eq!(world.head.unwrap().status, status);
    }
    let mut setup = Setup::new(REUSABLE, single(&[0]));
    setup.method = http::Method::HEAD;
    let mut world = setup.start();
    world.head_with(0, 200, &[("content-length", "10")]).end(0);
    assert_eq!(*world.outcome(), DispatchOutcome::Completed(200), "the length of what is not sent");
}

#[test]
fn a_body_without_a_head_is_a_failure() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.chunk(0, "data: a\n\n").end(1);
    assert_eq!((world.pods(), world.cancelled.clone(), world.status().as_u16()), (vec![0, 1], vec![0], 502));
}

#[test]
fn an_error_as_first_event_goes_to_another_pod_and_a_later_one_to_the_client() {
    let error = "data: {\"error\":{\"message\":\"boom\",\"code\":500}}\n\n";
    for cut in 1..error.len() {
        let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
        world.stream(0).bytes(0, &error.as_bytes()[..cut]).bytes(0, &error.as_bytes()[cut..]);
        world.stream(1).chunk(1, "data: a\n\n").chunk(1, error).end(1);
        assert_eq!((world.pods(), world.charged()), (vec![0, 1], vec![0, 1]), "cut at {cut}");
        assert_eq!(world.text(), format!("data: a\n\n{error}"));
        assert_eq!(*world.outcome(), DispatchOutcome::Completed(200));
    }
}

#[test]
fn the_last_pods_error_event_is_passed_on_and_charged() {
    let error = "data: {\"error\":{\"message\":\"boom\"}}\n\n";
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.stream(0).chunk(0, error).end(0);
    assert_eq!((world.text(), world.charged()), (error, vec![0]));
    let own = "data: {\"error\":{\"message\":\"bad\",\"code\":400}}\n\n";
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.stream(0).chunk(0, own).end(0);
    assert_eq!((world.text(), world.charged(), world.sent.len()), (own, vec![], 1), "the request is at fault");
}

#[test]
fn what_keeps_a_client_waiting_is_not_kept_from_it() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    assert_eq!(world.stream(0).chunk(0, ": ping\n\n").text(), ": ping\n\n");
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    let long = vec![b'x'; 20_000];
    assert_eq!(world.stream(0).bytes(0, &long).body, long, "a line without an end is not held back for ever");
}

#[test]
fn interim_answers_and_second_heads_are_none() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.head(0, 100).head(0, 103);
    assert!(world.head.is_none());
    world.head(0, 200).head(0, 500).chunk(0, "x").head(0, 404).end(0);
    assert_eq!((world.outcome(), world.text()), (&DispatchOutcome::Completed(200), "x"));
}

#[test]
fn trailers_are_passed_on() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", HeaderValue::from_static("7"));
    trailers.insert("connection", HeaderValue::from_static("close"));
    world.head(0, 200).chunk(0, "x");
    let id = world.sent[0].id;
    world.handle(Input::End(id, Some(trailers)));
    assert_eq!(world.trailers.unwrap().keys().collect::<Vec<_>>(), ["x-checksum"]);
}

#[test]
fn nothing_is_tried_again_after_the_first_byte() {
    for failure in [cut(), Failure::IdleTimeout, connect(), Failure::Status(500)] {
        let mut world = Setup::new(REUSABLE, two(&[0, 1], &[2, 3])).start();
        world.prefilled(0).stream(1).chunk(1, "data: a\n\n").fails(1, failure.clone());
        assert_eq!((world.pods(), world.error()), (vec![0, 2], &DispatchError::Truncated(failure)));
    }
}

#[test]
fn a_stream_that_stops_is_given_up_at_its_bound() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.stream(0).pass(seconds(4)).chunk(0, "data: a\n\n").pass(seconds(2)).chunk(0, "data: b\n\n");
    world.pass(seconds(2));
    assert!(world.report.is_none());
    world.pass(seconds(1));
    assert_eq!((world.error(), world.cancelled.clone()), (&DispatchError::Truncated(Failure::IdleTimeout), vec![0]));
    assert!(world.text().contains("\"code\":\"response_truncated\"") && world.charged() == [0]);
}

#[test]
fn no_candidates_is_503_with_retry_after() {
    for plan in [plan([]), plan([step("both", &[])]), two(&[], &[1])] {
        let world = Setup::new(REUSABLE, plan).start();
        assert!(world.sent.is_empty() && matches!(world.error(), DispatchError::NoCandidates { .. }));
        let answer = world.answer.unwrap();
        assert_eq!((answer.status().as_u16(), answer.headers()["retry-after"].as_bytes()), (503, &b"7"[..]));
    }
}

#[test]
fn the_last_pods_own_500_is_passed_on_as_it_is() {
    let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
    world.head(0, 500).head(1, 500).chunk(1, "my own words").end(1);
    assert_eq!((world.outcome(), world.text()), (&DispatchOutcome::Completed(500), "my own words"));
    assert_eq!((world.pods(), world.charged()), (vec![0, 1], vec![0, 1]), "not replayed on the same pod");
}

#[test]
fn a_pod_that_is_full_is_not_charged_and_another_is_asked() {
    for status in [429, 503] {
        let mut world = Setup::new(REUSABLE, single(&[0, 1])).start();
        world.head(0, status).head(1, status).chunk(1, "full").end(1);
        assert_eq!((world.pods(), world.charged()), (vec![0, 1], vec![]));
        assert!(
            world.judged.iter().all(|(_, sample)| *sample == BreakerSample::Overloaded(None)),
            "{:?}",
            world.judged
        );
        assert_eq!((world.outcome(), world.text()), (&DispatchOutcome::Completed(status), "full"));
    }
    let mut world = Setup::new(REUSABLE, two(&[0], &[1])).start();
    world.head(0, 503);
    assert_eq!(world.status(), 503, "a full prefill pod is no broken one");
}

#[test]
fn the_hosts_end_is_told_to_the_client() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.handle(Input::Cancel);
    assert_eq!((world.outcome(), world.status().as_u16()), (&DispatchOutcome::Cancelled, 503));
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.stream(0).chunk(0, "data: a\n\n").handle(Input::Cancel);
    assert!(world.text().ends_with(TAIL) && world.text().contains("\"code\":\"cancelled\""));
    assert!(world.judged.is_empty());
}

#[test]
fn a_deadline_in_the_middle_of_a_leg_ends_the_dispatch() {
    let mut world = Setup::new(REUSABLE, two(&[0], &[1])).deadline(4).start();
    world.pass(seconds(4));
    assert_eq!((world.error(), world.status().as_u16()), (&DispatchError::DeadlineExceeded, 504));
    assert_eq!((world.cancelled.clone(), world.judged.len()), (vec![0], 0));

    let mut world = Setup::new(REUSABLE, two(&[0], &[1])).deadline(4).start();
    world.prefilled(0).stream(1).pass(seconds(2)).chunk(1, "data: a\n\n").pass(seconds(2));
    assert!(world.text().ends_with(TAIL) && world.text().contains("deadline_exceeded"));

    let mut world = Setup::new(REUSABLE, two(&[0], &[1])).deadline(4).start();
    world.now += seconds(5);
    world.prefilled(0);
    assert_eq!(
        (world.error(), world.sent.len()),
        (&DispatchError::DeadlineExceeded, 1),
        "nobody is asked when it is too late"
    );
    assert!(Setup::new(REUSABLE, single(&[0])).deadline(0).start().sent.is_empty());
}

#[test]
fn a_deadline_that_was_not_set_does_not_pass() {
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    world.handle(Input::Expired(TimerId::Deadline));
    assert!(world.report.is_none());
}

#[test]
fn an_answer_that_comes_whole_may_take_its_time() {
    let mut setup = Setup::new(REUSABLE, single(&[0]));
    setup.body = r#"{"stream":false}"#;
    let mut world = setup.start();
    world.pass(seconds(19)).head(0, 200).chunk(0, "{}").end(0);
    assert_eq!(*world.outcome(), DispatchOutcome::Completed(200));
    assert_eq!(world.judged, [(pod(0), BreakerSample::Success(None))], "how long it took is no sign of a slow pod");
}

#[test]
fn a_dispatch_that_ended_before_it_began_does_nothing() {
    let mut world = Setup::new(REUSABLE, single(&[0])).deadline(9).idle();
    world.handle(Input::ClientDisconnected);
    world.dispatch.start(world.now);
    world.perform();
    assert!(world.sent.is_empty());
}

#[test]
fn bounds_too_far_off_are_none() {
    let forever = std::time::Duration::MAX;
    let setup = Setup::new(REUSABLE, single(&[0])).config(|config| {
        (config.first_byte_timeout, config.idle_timeout, config.request_timeout) = (forever, forever, forever);
    });
    let mut world = setup.start();
    world.stream(0).chunk(0, "data: a\n\n").pass(seconds(1 << 20));
    assert!(world.report.is_none());
}

#[test]
fn a_prefill_that_says_too_much_is_given_up() {
    let mut world = Setup::new(REUSABLE, two(&[0, 1], &[2])).start();
    world.head(0, 200).bytes(0, &[b'x'; 64]).bytes(0, b"x");
    assert_eq!(world.error().status().as_u16(), 502);
    assert!(world.judged.is_empty());
}
