//! What a router counts and expects of pods that work on a request one after the other.

use kv_index::Pod;
use routing_core::{InFlightGuard, Role};
use routing_exec::{AttemptRecord, DispatchHost, DispatchOutcome, DispatchReport, Failure};
use routing_plugins::load::{InFlight, LoadGuard, Work};

use super::*;
use crate::Prepared;
use crate::llm_request::tests::Bytewise;

const PROMPT: usize = 4096;

/// A pod that computes prompts, and one that answers.
fn apart() -> (Router, [Pod; 2]) {
    let roles = [("a", Role::Prefill), ("b", Role::Decode)];
    let pods = roles.map(|(name, role)| PodSpec::new(name, format!("http://{name}")).role(role));
    let router = Router::builder("m").pods(pods).tokens_given().profile("prefill_decode").build().unwrap();
    let pods = ["a", "b"].map(|name| router.pod(name).unwrap());
    (router, pods)
}

fn routed(router: &Router) -> Routed {
    let routed = router.route(&router.request(router.now()).tokens(&[7; PROMPT])).unwrap();
    assert_eq!(routed.plan().steps().len(), 2);
    routed
}

/// Requests, and prompt tokens that are still to be computed.
fn on(router: &Router, pod: Pod) -> (u32, u64) {
    let InFlight { requests, uncached_tokens, .. } = router.plugin_state().load.in_flight(pod.id());
    (requests, uncached_tokens)
}

#[test]
fn a_pod_that_answers_counts_from_the_decision_on_and_once() {
    let (router, [a, b]) = apart();
    let mut sent = routed(&router);
    let both = || [a, b].map(|pod| on(&router, pod));
    assert_eq!(both(), [(1, PROMPT as u64), (1, 0)], "the prompt is computed elsewhere");
    let prefill = sent.begin(0, a).unwrap();
    assert_eq!(both(), [(1, PROMPT as u64), (1, 0)]);
    prefill.succeeded();
    assert_eq!(both(), [(0, 0), (1, 0)]);
    let decode = sent.begin(1, b).unwrap();
    assert_eq!(both(), [(0, 0), (1, 0)]);
    drop((decode, sent));
    assert_eq!(both(), [(0, 0); 2]);
    // One that is sent nowhere.
    drop(routed(&router));
    assert_eq!(both(), [(0, 0); 2]);
}

#[test]
fn a_prefill_that_fails_computed_nothing() {
    let (router, [a, b]) = apart();
    let mut sent = routed(&router);
    sent.begin(0, a).unwrap().failed(Failure::Status(503));
    let decode = sent.begin(1, b).unwrap();
    assert_eq!([a, b].map(|pod| on(&router, pod)), [(0, 0), (1, PROMPT as u64)], "the other one computes it");
    drop((decode, sent));
    assert_eq!([a, b].map(|pod| on(&router, pod)), [(0, 0); 2]);
}

/// The same by the executor's host, whose prefill is over when its response is whole.
#[test]
fn a_host_counts_what_became_of_the_prefill() {
    let (router, [a, b]) = apart();
    for has_computed in [true, false] {
        let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
        let request =
            router.read(parts, bytes::Bytes::from(format!(r#"{{"model":"m","prompt":"{}"}}"#, "x".repeat(4_000))));
        let Prepared { dispatch, mut host, .. } = router.prepare(request.unwrap(), None).unwrap();
        let (_, lacking) = on(&router, a);
        assert!(lacking > 0 && on(&router, b) == (1, 0));
        let [prefill, decode] = dispatch.plan().steps() else { panic!("two steps") };
        let mut guard = host.begin_attempt(a, prefill);
        if has_computed {
            guard.first_byte();
        }
        drop(guard);
        let guard = host.begin_attempt(b, decode);
        assert_eq!(on(&router, b), (1, if has_computed { 0 } else { lacking }), "{has_computed}");
        drop((guard, host));
        assert_eq!([a, b].map(|pod| on(&router, pod)), [(0, 0); 2]);
    }
}

/// Its whole response is its first token, where nobody worked beside it.
#[test]
fn how_fast_a_pod_computes_prompts_for_others_is_learned() {
    for (is_beside, is_learned) in [(false, true), (true, false)] {
        let pods = [("a", Role::Prefill), ("b", Role::Decode)]
            .map(|(name, role)| PodSpec::new(name, format!("http://{name}")).role(role));
        let builder = Router::builder("m").pods(pods).tokenizer(Arc::new(Bytewise));
        let (router, millis) = with_clock(builder.profile("prefill_decode_conditional"));
        let [a, b] = ["a", "b"].map(|name| router.pod(name).unwrap());
        // Many decode, so that the prompt is computed elsewhere.
        let begun = || {
            let mut guard = router.plugin_state().load.begin(b, Work::of(4_000).output(500));
            guard.first_token();
            guard
        };
        let _busy: Vec<LoadGuard> = (0..100).map(|_| begun()).collect();
        for at in 0..30 {
            let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
            let body = format!(r#"{{"prompt":"{}","model":"m"}}"#, format!("{at:04}").repeat(2_000));
            let request = router.read(parts, body.into()).unwrap();
            let Prepared { dispatch, mut host, .. } = router.prepare(request, None).unwrap();
            // Until it is known to be too slow for that.
            let [prefill, decode] = dispatch.plan().steps() else { break };
            let mut guard = host.begin_attempt(a, prefill);
            let sent = router.now();
            millis.fetch_add(2_000, Ordering::Relaxed);
            guard.first_byte();
            drop((guard, host.begin_attempt(b, decode)));
            let record = |step: &routing_core::PlanStep, pod, sent| {
                let mut record = AttemptRecord::completed(Arc::clone(&step.name), pod, sent, None);
                (record.first_byte, record.bytes) = (Some(router.now()), 100);
                record
            };
            let mut report = DispatchReport::new(DispatchOutcome::Completed(200));
            let second = if is_beside { sent } else { router.now() };
            report.attempts = vec![record(prefill, a, sent), record(decode, b, second)];
            host.finished(report);
            millis.fetch_add(1_000, Ordering::Relaxed);
        }
        let pace = router.pods().iter().find(|entry| entry.pod == a).unwrap().pace;
        assert_eq!(pace > 1.5, is_learned, "{is_beside}: {pace}");
    }
}

#[test]
fn a_pod_that_may_not_be_sent_the_request_is_no_reason_to_hand_it_off() {
    let pods = ["a", "b", "idle"].map(|name| PodSpec::new(name, format!("http://{name}")));
    let router = Router::builder("m").pods(pods).tokens_given().profile("prefill_decode_conditional").build().unwrap();
    let [a, b, idle] = ["a", "b", "idle"].map(|name| router.pod(name).unwrap());
    let decoding = |pod: Pod| {
        let mut guard = router.plugin_state().load.begin(pod, Work::of(4_000).output(500));
        guard.first_token();
        guard
    };
    let _busy: Vec<LoadGuard> = (0..60).flat_map(|_| [a, b]).map(decoding).collect();
    let tokens = [7; 8_000];
    let routed = router.route_with(&router.request(router.now()).tokens(&tokens), &[idle], None).unwrap();
    assert_eq!(routed.plan().steps().len(), 1, "both that are left are as busy");
}
