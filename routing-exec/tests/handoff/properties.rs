//! What no dialect may do: touch what is not its own.

use bytes::Bytes;
use json_edit::Object;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use routing_exec::handoff::Api;

use crate::pair::{Pair, dialects};

/// Whatever a dialect may set, remove or replace.
const OWN: [&str; 12] = [
    "max_tokens",
    "max_completion_tokens",
    "min_tokens",
    "max_output_tokens",
    "stream",
    "stream_options",
    "sampling_params",
    "kv_transfer_params",
    "cache_hit_threshold",
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
];

fn value() -> impl Strategy<Value = String> {
    select(vec![
        "1.0",
        "-0",
        "1e2",
        "\"\\u00e9é\\/\"",
        "[ 1 , 2 ]",
        "{ \"a\" : null }",
        "12345678901234567890123",
        "true",
        "{}",
    ])
    .prop_map(str::to_owned)
}

/// A client's body, with its own spacing and members that nobody knows.
fn request() -> impl Strategy<Value = String> {
    let own = prop_oneof![select(OWN.to_vec()).prop_map(str::to_owned), "[a-z]{1,8}"];
    let space = select(vec!["", " ", "\n\t"]);
    vec((space.clone(), own, space.clone(), value(), space), 0..10).prop_map(|members| {
        let member =
            |(a, name, b, value, c): &(&str, String, &str, String, &str)| format!("{a}\"{name}\"{b}:{value}{c}");
        format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(","))
    })
}

/// The members that are no dialect's, as they are written.
fn others(text: &[u8]) -> Vec<(String, &[u8])> {
    let object = Object::parse(text).expect("an object");
    let members = object.members().map(|member| (member.name().expect("text").into_owned(), member.value().as_bytes()));
    members.filter(|(name, _)| !OWN.contains(&&**name)).collect()
}

const ANSWER: &[u8] = br#"{"kv_transfer_params":{"remote_block_ids":[1],"remote_engine_id":"e","remote_request_id":"r","remote_host":"h","remote_port":1}}"#;

proptest! {
    /// Members that are none of a dialect's own are sent as they came, in the same order, on either leg.
    #[test]
    fn what_a_client_writes_survives(request in request()) {
        let pair = Pair::at("10.0.0.5:8000");
        let body = Bytes::from(request);
        for api in [Api::Chat, Api::Completions, Api::Responses, Api::Messages, Api::Generate, Api::InferenceGenerate] {
            for handoff in dialects(&pair) {
                let prefill = pair.prefill(&*handoff, api, &body).expect("a leg");
                let decode = pair.decode(&*handoff, api, &body, Some(ANSWER)).expect("a leg");
                for leg in [&prefill, &decode] {
                    prop_assert_eq!(others(&leg.body), others(&body), "{:?} {:?}", handoff, api);
                }
                // Only what is handed over is new on the decode leg: limits and stream are the client's.
                let (sent, own) = (Object::parse(&decode.body).expect("JSON"), Object::parse(&body).expect("JSON"));
                for name in &OWN[..6] {
                    prop_assert_eq!(sent.get(name), own.get(name), "{:?} {:?} {}", handoff, api, name);
                }
            }
        }
    }

    /// Any bytes are answered on either leg, whatever the prefill pod answered.
    #[test]
    fn any_bytes_are_answered(body in vec(any::<u8>(), 0..50), answer in vec(any::<u8>(), 0..50)) {
        let pair = Pair::at("10.0.0.5:8000");
        let body = Bytes::from(body);
        for handoff in dialects(&pair) {
            let _ = pair.prefill(&*handoff, Api::Chat, &body);
            let _ = pair.decode(&*handoff, Api::Chat, &body, Some(&answer));
            let _ = handoff.usage(Api::Chat, true, Some(&answer));
            let _ = (handoff.decodes_first(Api::Chat, &body), handoff.wants_prefill(true, &answer), handoff.wants_prefill(false, &answer));
        }
    }
}
