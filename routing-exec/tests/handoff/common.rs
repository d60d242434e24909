//! What is the same for all dialects: legs without a handoff, faults, headers, and what clients are told of usage.

use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use json_edit::Expected;
use kv_index::Pod;
use routing_core::Role;
use routing_exec::handoff::headers::{self, ENCODERS, PREFILLER, REQUEST_ID};
use routing_exec::handoff::{
    Api, Dialect, Handoff, HandoffError, HandoffMode, LegContext, Mooncake, MooncakeEngine, MooncakeEngines, Nixl,
    Plain, SglangBootstrap, UsageFix, check_roles, strip_routing_headers,
};

use crate::pair::{Pair, dialects};

const CHAT: &[u8] = br#"{"model":"m", "messages":[], "max_tokens":50}"#;

const HANDED: &str = r#"{"remote_block_ids":[[1,2,3]],"remote_engine_id":"5b5f","remote_request_id":"cmpl-1","remote_host":"10.0.0.5","remote_port":5600}"#;

fn pair() -> Pair {
    Pair::at("10.0.0.5:8000")
}

fn chat() -> Bytes {
    Bytes::from_static(CHAT)
}

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn a_leg_that_nobody_prefills_for_goes_out_as_it_came() {
    let pair = pair();
    for request in [chat(), Bytes::from_static(b"not json")] {
        for handoff in dialects(&pair) {
            for role in [Role::Both, Role::Decode] {
                let leg = LegContext::new(Api::Chat, &request, &()).step("one", role, true).pods(pair.decode, None);
                let sent = handoff.leg(&leg).expect("no fault");
                assert_eq!((sent.body.as_ptr(), sent.body.len()), (request.as_ptr(), request.len()), "{handoff:?}");
                assert!(sent.headers.is_empty() && sent.dropped.is_none());
            }
        }
    }
}

#[test]
fn no_stock_dialect_makes_a_completion_for_an_encode_pod() {
    let (pair, request) = (pair(), chat());
    for (handoff, dialect) in dialects(&pair).into_iter().zip(Dialect::ALL) {
        for (prefill, is_last) in [(None, true), (None, false), (Some(pair.prefill), true)] {
            let leg = LegContext::new(Api::Chat, &request, &()).step("see", Role::Encode, is_last);
            assert_eq!(handoff.leg(&leg.pods(pair.decode, prefill)), Err(HandoffError::Encode), "{handoff:?}");
        }
        let refused = check_roles(&*handoff, [("p", Role::Prefill), ("see", Role::Encode)]).expect_err("no fault");
        assert_eq!((&*refused.step, refused.role, &*refused.dialect), ("see", Role::Encode, dialect.name()));
    }
}

#[test]
fn plain_sends_the_same_bytes_to_both() {
    for mode in [HandoffMode::Single, HandoffMode::Serial, HandoffMode::Concurrent] {
        let plain = Plain::new(mode);
        assert_eq!(plain.mode(), mode);
        let own = chat();
        assert_eq!(pair().prefill(&plain, Api::Other, &own).expect("no fault").body.as_ptr(), own.as_ptr());
        assert_eq!(pair().decode(&plain, Api::Other, &own, None).expect("no fault").body.as_ptr(), own.as_ptr());
    }
    assert_eq!(Plain::default().mode(), HandoffMode::Single);
}

#[test]
fn faults_are_told_apart() {
    #[derive(Debug)]
    struct Nobody;
    impl MooncakeEngines for Nobody {
        fn engine(&self, _: Pod) -> Option<MooncakeEngine> {
            None
        }
    }
    let pair = pair();
    let broken = pair.prefill(&Nixl::default(), Api::Chat, &body("[]")).expect_err("a fault");
    assert_eq!(broken.status(), 400);
    assert!(matches!(broken, HandoffError::Body(error) if error.expected == Expected::Object));
    let mooncake = Mooncake::new(Arc::new(Nobody));
    let unknown = pair.prefill(&mooncake, Api::Chat, &chat()).expect_err("a fault");
    assert_eq!((unknown, unknown.status()), (HandoffError::NoEngine(pair.prefill), 502));
    let request = chat();
    let leg = LegContext::new(Api::Chat, &request, &()).step("p", Role::Prefill, false);
    let sglang = SglangBootstrap::default();
    assert_eq!(sglang.leg(&leg), Err(HandoffError::NoPod));
    assert_eq!(sglang.leg(&leg.pods(pair.prefill, None)), Err(HandoffError::NoAddress(pair.prefill)));
}

#[test]
fn cached_tokens_are_the_prefill_pods() {
    let fixed = |api, parameters: &str, usage: &str, answer: &str| {
        let prefilled = format!(r#"{{"usage":{usage},"kv_transfer_params":{parameters}}}"#);
        let mut fix: UsageFix = Nixl::default().usage(api, false, Some(prefilled.as_bytes()))?;
        assert!(fix.pass(body(answer)).is_empty());
        Some(String::from_utf8(fix.finish().to_vec()).expect("no fault"))
    };
    let seven = r#"{"prompt_tokens_details":{"cached_tokens":7}}"#;
    let cases = [
        (seven, r#"{"usage": {"n":1}}"#, r#"{"usage": {"n":1,"prompt_tokens_details":{"cached_tokens":7}}}"#),
        (
            seven,
            r#"{"usage":{"prompt_tokens_details":null}}"#,
            r#"{"usage":{"prompt_tokens_details":{"cached_tokens":7}}}"#,
        ),
        (
            seven,
            r#"{"usage":{"prompt_tokens_details":{"cached_tokens":49, "audio":0}}}"#,
            r#"{"usage":{"prompt_tokens_details":{"cached_tokens":7, "audio":0}}}"#,
        ),
        (
            "null",
            r#"{"usage":{"prompt_tokens_details":{"cached_tokens":49}}}"#,
            r#"{"usage":{"prompt_tokens_details":{"cached_tokens":0}}}"#,
        ),
        (seven, r#"{"usage":null}"#, r#"{"usage":null}"#),
        (seven, r#"{"error":{}}"#, r#"{"error":{}}"#),
        (seven, "not json \"usage\"", "not json \"usage\""),
    ];
    for (usage, answer, expected) in cases {
        assert_eq!(fixed(Api::Chat, HANDED, usage, answer).as_deref(), Some(expected));
    }
    let input = r#"{"input_tokens_details":{"cached_tokens":7}}"#;
    let answer = r#"{"type":"response.completed","response":{"usage":{"input_tokens_details":{"cached_tokens":9}}}}"#;
    assert_eq!(fixed(Api::Responses, HANDED, input, answer).expect("no fault"), answer.replace('9', "7"));
    assert_eq!(fixed(Api::Messages, HANDED, seven, "{}"), None);
    assert_eq!(fixed(Api::Chat, "null", seven, "{}"), None, "nothing was passed on");
    assert!(Nixl::default().usage(Api::Chat, true, None).is_none());
    for handoff in dialects(&pair()).into_iter().skip(1) {
        assert!(
            handoff.usage(Api::Chat, true, Some(format!(r#"{{"kv_transfer_params":{HANDED}}}"#).as_bytes())).is_none(),
            "{handoff:?}"
        );
    }
}

#[test]
fn a_client_steers_nothing_by_headers() {
    let mut headers = HeaderMap::new();
    for name in headers::ROUTING {
        headers.append(name.clone(), "evil:1".parse().expect("no fault"));
        headers.append(name, "evil:2".parse().expect("no fault"));
    }
    headers.insert("x-tenant", "acme".parse().expect("no fault"));
    strip_routing_headers(&mut headers);
    assert_eq!(headers.len(), 1);
    headers.insert(PREFILLER, "evil".parse().expect("no fault"));
    headers.insert(ENCODERS, "evil".parse().expect("no fault"));
    headers::name_pods_to_sidecar(&mut headers, Some("10.0.0.5:8000"), &["a:1", "b:2"]).expect("no fault");
    assert_eq!(
        (&headers[PREFILLER], &headers[ENCODERS]),
        (&"10.0.0.5:8000".parse().expect("no fault"), &"a:1,b:2".parse().expect("no fault"))
    );
    headers::name_pods_to_sidecar(&mut headers, None, &[]).expect("no fault");
    assert_eq!(headers.len(), 1);
    assert!(headers::name_pods_to_sidecar(&mut headers, Some("a\nb"), &[]).is_err());
}

#[test]
fn a_request_has_one_id() {
    let mut headers = HeaderMap::new();
    headers::ensure_request_id(&mut headers, 7);
    let id = headers[REQUEST_ID].clone();
    assert_eq!(id.len(), 36);
    headers::ensure_request_id(&mut headers, 8);
    assert_eq!(headers[REQUEST_ID], id);
}
