//! Decode first: the pod that decodes says whether prefill is worth while, and the client sees one answer all the same.

mod random;

use std::sync::Arc;

use crate::world::*;
use http::Request;
use routing_core::{FailurePolicy, RoutingPlan};
use routing_exec::handoff::{
    Api, Handoff, HandoffError, HandoffMode, HandoffReuse, LegBody, LegContext, SharedStorage,
};
use routing_exec::{
    AttemptOutcome, ClientRequest, Dispatch, DispatchConfig, DispatchOutcome, DispatchPolicy, Failure, Input,
};

const STREAMED: &str = r#"{"cache_hit_threshold":0.8,"stream":true}"#;
const WHOLE: &str = r#"{"cache_hit_threshold":0.8}"#;
const ROLE: &str =
    "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
const MISS: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"cache_threshold\"}]}\n\ndata: [DONE]\n\n";
const TEXT: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\ndata: [DONE]\n\n";
const MISS_WHOLE: &str = r#"{"choices":[{"message":{"content":""},"finish_reason":"cache_threshold"}]}"#;
const TEXT_WHOLE: &str = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;

struct Probe {
    handoff: Arc<dyn Handoff>,
    path: &'static str,
    body: &'static str,
    plan: RoutingPlan,
    config: DispatchPolicy,
}

fn probe(body: &'static str, plan: RoutingPlan) -> Probe {
    let config = patience().max_buffered_bytes(4096);
    Probe { handoff: Arc::new(SharedStorage::default()), path: "/v1/chat/completions", body, plan, config }
}

impl Probe {
    fn start(self) -> World {
        let mut dispatch_config = DispatchConfig::new(self.handoff, Arc::new(()));
        dispatch_config.policy = Arc::new(self.config);
        let (parts, ()) = Request::post(self.path).body(()).expect("a request").into_parts();
        let request = ClientRequest::new(&parts, self.body.into(), 7);
        let mut world = Setup::new(REUSABLE, self.plan.clone()).idle();
        world.dispatch = Dispatch::new(dispatch_config, request, self.plan, Vec::new());
        world.dispatch.start(world.now);
        world.perform();
        world
    }
}

fn pairs(body: &'static str) -> World {
    probe(body, two(&[0, 1], &[2, 3])).start()
}

/// The pod that was asked first does not hold enough.
fn misses(world: &mut World) {
    world.stream(0).chunk(0, ROLE).chunk(0, MISS);
}

#[test]
fn the_decode_pod_is_asked_first_with_the_clients_own_body() {
    let world = pairs(STREAMED);
    assert_eq!((world.pods(), world.sent[0].step, world.request(0)), (vec![2], 1, STREAMED.to_owned()));
    assert_eq!(pairs(r#"{"stream":true}"#).pods(), [0], "without a threshold prefill is first");
}

#[test]
fn a_pod_that_holds_enough_answers_and_nobody_prefills() {
    let text = format!("{ROLE}{TEXT}");
    for cut in 0..=text.len() {
        let mut world = pairs(STREAMED);
        world.stream(0).bytes(0, &text.as_bytes()[..cut]).bytes(0, &text.as_bytes()[cut..]).end(0);
        assert_eq!((world.text(), world.pods()), (&*text, vec![2]), "cut at {cut}");
        assert_eq!(*world.outcome(), DispatchOutcome::Completed(200));
    }
    let mut world = pairs(WHOLE);
    world.head(0, 200).chunk(0, TEXT_WHOLE).end(0);
    assert_eq!((world.text(), world.pods()), (TEXT_WHOLE, vec![2]));
}

#[test]
fn a_pod_that_holds_too_little_has_the_prompt_prefilled_and_is_asked_again() {
    let miss = format!("{ROLE}{MISS}");
    for cut in 0..miss.len() {
        let mut world = pairs(STREAMED);
        world.stream(0).bytes(0, &miss.as_bytes()[..cut]);
        if world.pods().len() == 1 {
            world.bytes(0, &miss.as_bytes()[cut..]);
        }
        assert_eq!((world.pods(), world.cancelled.clone()), (vec![2, 0], vec![0]), "cut at {cut}");
        assert!(
            world.request(1).contains(r#""cache_hit_threshold":0"#) && world.request(1).contains(r#""max_tokens":1"#)
        );
        world.prefilled(1);
        assert_eq!(world.pods(), [2, 0, 2]);
        assert_eq!(world.request(2), r#"{"cache_hit_threshold":0,"stream":true}"#);
        world.stream(2).chunk(2, TEXT).end(2);
        assert_eq!((world.text(), world.outcome()), (TEXT, &DispatchOutcome::Completed(200)));
        assert!(world.charged().is_empty());
    }
}

#[test]
fn so_too_where_the_answer_comes_whole() {
    let mut world = pairs(WHOLE);
    world.head(0, 200).chunk(0, &MISS_WHOLE[..20]).chunk(0, &MISS_WHOLE[20..]);
    if world.pods().len() == 1 {
        world.end(0);
    }
    assert_eq!(world.pods(), [2, 0]);
    world.prefilled(1).head(2, 200).chunk(2, TEXT_WHOLE).end(2);
    assert_eq!((world.text(), world.outcome()), (TEXT_WHOLE, &DispatchOutcome::Completed(200)));
}

#[test]
fn a_pod_that_is_cut_while_it_is_asked_first_is_charged_and_the_next_one_is_asked_first() {
    for begun in ["", "data: {\"cho", ROLE] {
        let mut world = pairs(STREAMED);
        world.stream(0).chunk(0, begun).fails(0, cut());
        assert_eq!((world.pods(), world.charged(), world.request(1)), (vec![2, 3], vec![2], STREAMED.to_owned()));
        assert!(world.head.is_none());
        world.stream(1).chunk(1, TEXT).end(1);
        assert_eq!(world.text(), TEXT, "nothing of the first one is left");
    }
    let mut world = pairs(WHOLE);
    world.head_with(0, 200, &[("content-length", "500")]).chunk(0, TEXT_WHOLE).end(0);
    // What is whole by itself and short of what it said was begun; it must not be a short success.
    assert!(world.aborted || world.pods() == [2, 3]);
}

#[test]
fn a_pod_that_pauses_while_it_is_asked_first_is_late() {
    let mut world = pairs(STREAMED);
    world.pass(seconds(5));
    assert_eq!((world.pods(), world.charged()), (vec![2, 3], vec![2]), "silent");
    world.stream(1).chunk(1, ROLE).pass(seconds(3));
    assert_eq!((world.status().as_u16(), world.charged()), (504, vec![2, 3]), "and idle");
}

#[test]
fn a_client_that_leaves_meanwhile_cancels_what_is_under_way() {
    let mut world = pairs(STREAMED);
    world.stream(0).chunk(0, ROLE).handle(Input::ClientDisconnected);
    assert_eq!((world.outcome(), world.cancelled.clone()), (&DispatchOutcome::ClientDisconnected, vec![0]));
    assert!(world.judged.is_empty());
    let mut world = pairs(STREAMED);
    misses(&mut world);
    world.handle(Input::ClientDisconnected);
    assert_eq!((world.outcome(), world.cancelled.clone()), (&DispatchOutcome::ClientDisconnected, vec![0, 1]));
}

#[test]
fn a_prefill_that_then_fails_is_retried_and_then_told() {
    let mut world = pairs(STREAMED);
    misses(&mut world);
    world.fails(1, connect()).fails(2, connect());
    assert_eq!((world.pods(), world.charged(), world.status().as_u16()), (vec![2, 0, 1], vec![0, 1], 502));
}

/// Without prefill the decode pod must work with what it has: asked by the client's threshold again it would decline again,
/// and the client would get an empty answer.
#[test]
fn a_prefill_that_is_left_out_leaves_the_decode_pod_without_a_threshold() {
    let steps = [step("prefill", &[0]).on_failure(FailurePolicy::Skip), step("decode", &[2])];
    let mut world = probe(STREAMED, plan(steps)).start();
    misses(&mut world);
    world.fails(1, connect());
    assert_eq!(world.pods(), [2, 0, 2]);
    assert_eq!(world.request(2), r#"{"cache_hit_threshold":0,"stream":true}"#);
}

#[test]
fn a_plan_without_prefill_has_no_threshold_either() {
    let world = probe(STREAMED, single(&[2])).start();
    assert_eq!(world.request(0), r#"{"cache_hit_threshold":0,"stream":true}"#);
}

/// A pod is judged once and by its worst: what it said first does not buy it off.
#[test]
fn a_pod_that_declines_and_then_fails_is_charged() {
    let mut world = pairs(WHOLE);
    world.head(0, 200).chunk(0, MISS_WHOLE);
    if world.pods().len() == 1 {
        world.end(0);
    }
    world.prefilled(1).fails(2, cut());
    assert_eq!(world.charged(), [2], "{:?}", world.judged);
}

/// The same where the answer's end tells: no chunk did, since the document was not whole before.
#[test]
fn a_pod_that_declines_by_the_end_of_its_answer_and_then_fails_is_charged() {
    let mut world = pairs(STREAMED);
    // The last event has no empty line, and is whole by `[DONE]`; its sample may come with the end.
    world.stream(0).chunk(0, ROLE).chunk(0, MISS).end(0);
    world.prefilled(1).fails(2, cut());
    assert_eq!(world.charged(), [2], "{:?}", world.judged);
}

#[test]
fn an_error_as_first_event_goes_to_another_pod_here_too() {
    let error = "data: {\"error\":{\"message\":\"boom\",\"code\":500}}\n\n";
    let mut world = pairs(STREAMED);
    world.stream(0).chunk(0, error).chunk(0, "data: [DONE]\n\n").end(0);
    assert_eq!((world.pods(), world.charged()), (vec![2, 3], vec![2]), "client got {:?}", world.text());
}

#[test]
fn an_answer_longer_than_what_is_kept_is_the_clients() {
    let mut probe = probe(WHOLE, two(&[0], &[2]));
    probe.config.max_buffered_bytes = 64;
    let mut world = probe.start();
    let long = format!(r#"{{"choices":[{{"message":{{"content":"{}"}},"finish_reason":"stop"}}]}}"#, "x".repeat(500));
    world.head(0, 200);
    for piece in long.as_bytes().chunks(10) {
        world.bytes(0, piece);
    }
    world.end(0);
    assert_eq!((world.text(), world.outcome()), (&*long, &DispatchOutcome::Completed(200)));
}

/// It would decline, and be sent the same again.
#[test]
fn a_pod_that_would_prefill_for_itself_is_not_asked_first() {
    let mut world = probe(STREAMED, two(&[0], &[0])).start();
    assert_eq!(world.pods(), [0]);
    assert_eq!(world.request(0), STREAMED.replace("0.8", "0"), "with nobody to turn to, it must not decline");
    world.stream(0).chunk(0, TEXT).end(0);
    assert_eq!(world.outcome(), &DispatchOutcome::Completed(200));
}

/// An API whose answers have no `choices` has none to decline in.
#[test]
fn only_chat_and_completions_are_asked_first() {
    for (path, first) in
        [("/v1/chat/completions", 2), ("/v1/completions", 2), ("/v1/responses", 0), ("/v1/messages", 0)]
    {
        let mut probe = probe(STREAMED, two(&[0], &[2]));
        probe.path = path;
        assert_eq!(probe.start().pods(), [first], "{path}");
    }
}

/// What comes first of a stream says nothing for ever: then the client gets it.
#[test]
fn so_much_of_a_stream_is_held_back_and_no_more() {
    let mut probe = probe(STREAMED, two(&[0], &[2]));
    probe.config.max_buffered_bytes = 1 << 20;
    let mut world = probe.start();
    world.stream(0);
    for _ in 0..(16 << 10) / ROLE.len() {
        world.chunk(0, ROLE);
    }
    assert!(world.body.is_empty());
    world.chunk(0, ROLE).chunk(0, ROLE);
    assert!(world.body.len() > 16 << 10);
}

/// A stream whose events have no `choices` must not wait for a MiB of it.
#[test]
fn a_stream_without_choices_is_not_held_back() {
    let mut probe = probe(STREAMED, two(&[0], &[2]));
    probe.config.max_buffered_bytes = 1 << 20;
    let mut world = probe.start();
    world.stream(0);
    for _ in 0..100 {
        world.chunk(
            0,
            "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n",
        );
    }
    assert!(!world.body.is_empty(), "a hundred events came and the client has none");
}

#[test]
fn a_new_plan_begins_with_the_decode_pod_again() {
    let replan = |name: &str, pods: &[usize]| step(name, pods).on_failure(FailurePolicy::Replan);
    // While it is asked first.
    let mut world = probe(STREAMED, plan([replan("prefill", &[0]), replan("decode", &[2])])).start();
    world.stream(0).chunk(0, ROLE).fails(0, cut());
    assert_eq!(world.replans, [[pod(2)]]);
    world.replanned(Some(two(&[0], &[3])));
    assert_eq!((world.pods(), world.request(1)), (vec![2, 3], STREAMED.to_owned()));
    // After it asked for prefill.
    let mut world = probe(STREAMED, plan([replan("prefill", &[0]), replan("decode", &[2])])).start();
    misses(&mut world);
    world.fails(1, cut());
    world.replanned(Some(two(&[1], &[2])));
    world.stream(2).chunk(2, ROLE).chunk(2, MISS);
    world.prefilled(3).stream(4).chunk(4, TEXT).end(4);
    assert_eq!((world.text(), world.outcome()), (TEXT, &DispatchOutcome::Completed(200)));
}

/// A dialect of engines that meet each other, whose decode pod is asked first.
#[derive(Debug)]
struct Meets;

impl Handoff for Meets {
    fn mode(&self) -> HandoffMode {
        HandoffMode::Concurrent
    }

    fn reuse(&self) -> HandoffReuse {
        HandoffReuse::Never
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        Ok(LegBody::new(leg.body.clone()))
    }

    fn decodes_first(&self, _: Api, _: &[u8]) -> bool {
        true
    }
}

#[test]
fn a_pod_that_is_asked_first_and_alone_is_watched_whatever_the_mode() {
    let mut probe = probe(STREAMED, two(&[0], &[2]));
    probe.handoff = Arc::new(Meets);
    let mut world = probe.start();
    world.pass(seconds(3600));
    assert!(world.report.is_some(), "it waits for ever");
}

#[test]
fn what_was_asked_first_is_in_the_report() {
    let mut world = pairs(STREAMED);
    misses(&mut world);
    world.prefilled(1).stream(2).chunk(2, TEXT).end(2);
    let outcomes: Vec<AttemptOutcome> =
        world.report.expect("it is over").attempts.into_iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [AttemptOutcome::Cancelled, AttemptOutcome::Completed, AttemptOutcome::Completed]);
}

/// However the pieces come, a document is read once, not once for each piece: 16 times as long takes 16 times as long, not 256.
#[test]
#[expect(clippy::disallowed_methods, reason = "how long it really takes is the question")]
fn a_long_document_is_not_read_again_for_every_piece() {
    let took = |length: usize| {
        let mut probe = probe(WHOLE, two(&[0], &[2]));
        probe.config.max_buffered_bytes = 1 << 20;
        let mut world = probe.start();
        world.head(0, 200).chunk(0, r#"{"choices":[{"message":{"content":""#);
        let begun = std::time::Instant::now();
        (0..length / 64).for_each(|_| {
            world.bytes(0, &[b'x'; 64]);
        });
        begun.elapsed()
    };
    let (short, long) = (took(4 << 10), took(64 << 10));
    assert!(long < short * 64, "4 KiB took {short:?}, 64 KiB {long:?}");
}

/// A pod that declines in a document is done: its connection can be used again, and its breaker hears that it answered.
#[test]
fn a_pod_that_declines_in_a_document_is_not_cancelled() {
    let mut world = pairs(WHOLE);
    world.head(0, 200).chunk(0, MISS_WHOLE);
    assert!(world.cancelled.is_empty(), "its end was all that was to come");
}
