//! What each dialect sends, to the byte.

use std::sync::Arc;

use bytes::Bytes;
use json_edit::Object;
use routing_exec::handoff::headers::DATA_PARALLEL_RANK;
use routing_exec::handoff::{
    Api, DroppedHandoff, Handoff, HandoffError, HandoffMode, HandoffReuse, LegBody, LegContext, Mooncake,
    MooncakeEngine, Nixl, Plain, SglangBootstrap, SharedStorage,
};

use crate::pair::{Pair, TRANSFER, dialects};

const CHAT: &[u8] = br#"{"model":"m", "messages":[{"role":"user","content":"\u0048i"}], "max_tokens":50, "top_p":1.0, "stream":true, "stream_options":{"include_usage":true}}"#;

const ASKED: &str = r#"{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}"#;

const HANDED: &str = r#"{"do_remote_prefill":true, "do_remote_decode":false, "remote_block_ids":[[1,2,3]], "remote_engine_id":"5b5f", "remote_request_id":"cmpl-1", "remote_host":"10.0.0.5", "remote_port":5600, "tp_size":1.0, "new":[]}"#;

fn text(leg: &LegBody) -> &str {
    std::str::from_utf8(&leg.body).expect("text")
}

fn pair() -> Pair {
    Pair::at("10.0.0.5:8000")
}

fn chat() -> Bytes {
    Bytes::from_static(CHAT)
}

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn answered(parameters: &str) -> String {
    format!(
        r#"{{"choices":[],"usage":{{"prompt_tokens_details":{{"cached_tokens":7}}}},"kv_transfer_params":{parameters}}}"#
    )
}

/// What a prefill leg becomes.
fn prefill(handoff: &dyn Handoff, api: Api, request: &str) -> String {
    text(&pair().prefill(handoff, api, &body(request)).expect("a leg")).to_owned()
}

#[test]
fn nixl_prefills_one_token_and_asks_for_a_transfer() {
    let leg = pair().prefill(&Nixl::default(), Api::Chat, &chat()).expect("no fault");
    let expected = format!(
        r#"{{"model":"m", "messages":[{{"role":"user","content":"\u0048i"}}], "max_tokens":1, "top_p":1.0, "stream":false,"max_completion_tokens":1,"min_tokens":1,"kv_transfer_params":{ASKED}}}"#
    );
    assert_eq!(text(&leg), expected);
    assert_eq!(leg.dropped, None);
}

#[test]
fn nixl_decodes_the_clients_body_with_the_parameters_as_they_came() {
    let answer = answered(HANDED);
    let leg = pair().decode(&Nixl::default(), Api::Chat, &chat(), Some(answer.as_bytes())).expect("no fault");
    let client = std::str::from_utf8(CHAT).expect("no fault").strip_suffix('}').expect("no fault");
    assert_eq!(text(&leg), format!(r#"{client},"kv_transfer_params":{HANDED}}}"#));
    assert_eq!(leg.dropped, None);
    assert_eq!(Nixl::default().mode(), HandoffMode::Serial);
    assert_eq!(Nixl::default().reuse(), HandoffReuse::IfUnprocessed);
}

#[test]
fn nixl_sets_the_limits_that_an_api_has() {
    let nixl = Nixl::default();
    let asked = format!(r#""kv_transfer_params":{ASKED}"#);
    assert_eq!(
        prefill(&nixl, Api::Completions, r#"{"prompt":"a","min_tokens":5}"#),
        format!(r#"{{"prompt":"a","min_tokens":1,"stream":false,"max_tokens":1,"max_completion_tokens":1,{asked}}}"#)
    );
    assert_eq!(
        prefill(&nixl, Api::Messages, r#"{"max_tokens":9}"#),
        format!(r#"{{"max_tokens":1,"stream":false,"max_completion_tokens":1,"min_tokens":1,{asked}}}"#)
    );
    assert_eq!(
        prefill(&nixl, Api::Responses, r#"{"input":"a","max_output_tokens":5}"#),
        format!(r#"{{"input":"a","max_output_tokens":1,"stream":false,{asked}}}"#)
    );
    assert_eq!(
        prefill(&nixl, Api::InferenceGenerate, r#"{"token_ids":[1],"sampling_params":{"max_tokens":9,"seed":1}}"#),
        format!(
            r#"{{"token_ids":[1],"sampling_params":{{"max_tokens":1,"seed":1,"min_tokens":1,"extra_args":{{{asked}}}}},"stream":false,{asked}}}"#
        )
    );
    assert_eq!(
        prefill(&nixl, Api::Generate, r#"{"text":"a","sampling_params":{"max_new_tokens":9,"min_new_tokens":2}}"#),
        format!(r#"{{"text":"a","sampling_params":{{"max_new_tokens":1,"min_new_tokens":1}},"stream":false,{asked}}}"#)
    );
    let other = pair().prefill(&nixl, Api::Other, &chat());
    assert_eq!(other, Err(HandoffError::Api(Api::Other)));
}

#[test]
fn tokens_in_are_told_of_the_transfer_where_they_read_it() {
    let request = body(r#"{"token_ids":[1],"sampling_params":{"max_tokens":9,"extra_args":{"x":1}}}"#);
    let answer = answered(HANDED);
    let leg =
        pair().decode(&Nixl::default(), Api::InferenceGenerate, &request, Some(answer.as_bytes())).expect("no fault");
    assert_eq!(
        text(&leg),
        format!(
            r#"{{"token_ids":[1],"sampling_params":{{"max_tokens":9,"extra_args":{{"x":1,"kv_transfer_params":{HANDED}}}}},"kv_transfer_params":{HANDED}}}"#
        )
    );
}

#[test]
fn nixl_passes_nothing_on_if_one_of_the_five_is_missing() {
    let five = ["remote_block_ids", "remote_engine_id", "remote_request_id", "remote_host", "remote_port"];
    for name in five {
        let own = |value: &str| {
            let others = five.iter().filter(|other| **other != name).map(|other| format!(r#""{other}":"x""#));
            let all: Vec<String> = others.chain([value.to_owned()].into_iter().filter(|own| !own.is_empty())).collect();
            answered(&format!("{{{}}}", all.join(",")))
        };
        for value in
            ["".to_owned(), format!(r#""{name}":null"#), format!(r#""{name}":"""#), format!(r#""{name}":[[],[]]"#)]
        {
            let answer = own(&value);
            let leg = pair().decode(&Nixl::default(), Api::Chat, &chat(), Some(answer.as_bytes())).expect("no fault");
            assert_eq!(leg.dropped, Some(DroppedHandoff::Missing(name)), "{answer}");
            assert_eq!(leg.body, CHAT);
            assert!(Nixl::default().usage(Api::Chat, false, Some(answer.as_bytes())).is_none());
        }
        let answer = own(&format!(r#""{name}":"y""#));
        let leg = pair().decode(&Nixl::default(), Api::Chat, &chat(), Some(answer.as_bytes())).expect("no fault");
        assert_eq!(leg.dropped, None, "{answer}");
    }
}

#[test]
fn nixl_says_why_it_passes_nothing_on() {
    let dropped = |answer: Option<&str>| {
        let own = chat();
        let leg = pair().decode(&Nixl::default(), Api::Chat, &own, answer.map(str::as_bytes)).expect("no fault");
        assert_eq!(leg.body.as_ptr(), own.as_ptr(), "the very same bytes");
        leg.dropped
    };
    assert_eq!(dropped(None), Some(DroppedHandoff::Unreadable));
    assert_eq!(dropped(Some("<html>")), Some(DroppedHandoff::Unreadable));
    assert_eq!(dropped(Some("{}")), Some(DroppedHandoff::NoParameters));
    assert_eq!(dropped(Some(r#"{"kv_transfer_params":null}"#)), Some(DroppedHandoff::NoParameters));
    assert_eq!(dropped(Some(r#"{"kv_transfer_params":[]}"#)), Some(DroppedHandoff::NoParameters));
}

#[test]
fn a_batch_is_not_handed_over_by_nixl() {
    let answer = answered(HANDED);
    let decode = |request: &str| {
        pair()
            .decode(&Nixl::default(), Api::Completions, &body(request), Some(answer.as_bytes()))
            .expect("no fault")
            .dropped
    };
    assert_eq!(decode(r#"{"prompt":["a","b"]}"#), Some(DroppedHandoff::Batched));
    assert_eq!(decode(r#"{"prompt":[[1],[2]]}"#), Some(DroppedHandoff::Batched));
    assert_eq!(decode(r#"{"prompt":["a"]}"#), None);
    assert_eq!(decode(r#"{"prompt":[1,2]}"#), None);
}

/// vLLM makes several requests of it, and a transfer is of one: blocks would be pinned that nobody fetches, or be another prompt's.
#[test]
fn what_an_engine_splits_is_prefilled_where_it_is_decoded() {
    let (pair, answer) = (pair(), answered(HANDED));
    let dialects: [Box<dyn Handoff>; 2] = [Box::new(Nixl::default()), Box::new(Mooncake::new(Arc::new(pair.clone())))];
    for (dialect, api, request) in dialects.iter().flat_map(|dialect| {
        [
            (Api::Completions, r#"{"prompt":["a","b"],"kv_transfer_params":{"x":1}}"#),
            (Api::Completions, r#"{"prompt":"a","n":2}"#),
            (Api::Completions, r#"{"prompt":"a","best_of":3,"n":1}"#),
            (Api::Completions, r#"{"prompt":"a","prompt_embeds":["x","y"]}"#),
            (Api::Completions, r#"{"prompt":["a"],"prompt_embeds":["x"]}"#),
            (Api::Chat, r#"{"messages":[],"n":2.0}"#),
            (Api::Chat, r#"{"messages":[],"n":"2"}"#),
        ]
        .map(|(api, request)| (dialect, api, body(request)))
    }) {
        let prefill = pair.prefill(&**dialect, api, &request).expect("no fault");
        assert!(!text(&prefill).contains("kv_transfer_params") && prefill.headers.is_empty(), "{}", text(&prefill));
        let decode = pair.decode(&**dialect, api, &request, Some(answer.as_bytes())).expect("no fault");
        assert_eq!(decode.dropped, Some(DroppedHandoff::Batched), "{}", dialect.name());
        assert!(!text(&decode).contains("kv_transfer_params"), "{}", text(&decode));
    }
    for request in [r#"{"messages":[],"n":1}"#, r#"{"messages":[],"n":null}"#] {
        let decode =
            pair.decode(&Nixl::default(), Api::Chat, &body(request), Some(answer.as_bytes())).expect("no fault");
        assert_eq!(decode.dropped, None, "{request}");
    }
}

#[test]
fn a_clients_own_parameters_never_reach_a_pod_that_takes_part() {
    let request = body(r#"{"kv_transfer_params":{"remote_host":"evil"},"bootstrap_host":"evil"}"#);
    let answer = answered(HANDED);
    let leg = pair().decode(&Nixl::default(), Api::Chat, &request, Some(answer.as_bytes())).expect("no fault");
    assert_eq!(text(&leg), format!(r#"{{"kv_transfer_params":{HANDED},"bootstrap_host":"evil"}}"#));
    let leg = pair().decode(&Nixl::default(), Api::Chat, &request, None).expect("no fault");
    assert_eq!(text(&leg), r#"{"bootstrap_host":"evil"}"#);
    let leg = pair().decode(&SglangBootstrap::default(), Api::Chat, &request, None).expect("no fault");
    assert!(text(&leg).contains(r#""bootstrap_host":"10.0.0.5""#));
    assert!(!text(&leg).contains(r#""bootstrap_host":"evil""#));
}

#[test]
fn sglang_sends_the_same_to_both_with_a_place_to_meet() {
    let (pair, sglang) = (pair(), SglangBootstrap::default());
    let prefill = pair.prefill(&sglang, Api::Chat, &chat()).expect("no fault");
    let decode = pair.decode(&sglang, Api::Chat, &chat(), None).expect("no fault");
    let client = std::str::from_utf8(CHAT).expect("no fault").strip_suffix('}').expect("no fault");
    let room = TRANSFER & i64::MAX as u64;
    let expected = format!(r#"{client},"bootstrap_host":"10.0.0.5","bootstrap_port":8998,"bootstrap_room":{room}}}"#);
    assert_eq!(text(&prefill), expected);
    assert_eq!(decode, prefill);
    assert_eq!(sglang.mode(), HandoffMode::Concurrent);
    assert_eq!(sglang.reuse(), HandoffReuse::Never);
    let other = pair.prefill(&SglangBootstrap::new(9000), Api::Generate, &body("{}")).expect("no fault");
    assert_eq!(
        text(&other),
        format!(r#"{{"bootstrap_host":"10.0.0.5","bootstrap_port":9000,"bootstrap_room":{room}}}"#)
    );
}

#[test]
fn sglang_has_a_room_for_every_prompt() {
    let (pair, sglang) = (pair(), SglangBootstrap::default());
    let cases = [
        (Api::Completions, r#"{"prompt":["a","b","c"]}"#, 3),
        (Api::Completions, r#"{"prompt":[[1,2],[3]]}"#, 2),
        (Api::Generate, r#"{"text":["a"]}"#, 1),
        (Api::Generate, r#"{"input_ids":[[1],[2]]}"#, 2),
    ];
    for (api, request, count) in cases {
        let request = body(request);
        let (prefill, decode) = (pair.prefill(&sglang, api, &request), pair.decode(&sglang, api, &request, None));
        let leg = prefill.expect("no fault");
        assert_eq!(decode.expect("no fault"), leg);
        let sent = Object::parse(&leg.body).expect("no fault");
        let list = |name| sent.get(name).expect("no fault").array().expect("no fault");
        assert!(list("bootstrap_host").all(|host| host.as_bytes() == br#""10.0.0.5""#));
        assert!(list("bootstrap_port").all(|port| port.as_u64() == Some(8998)));
        let rooms: std::collections::BTreeSet<u64> =
            list("bootstrap_room").map(|room| room.as_u64().expect("no fault")).collect();
        assert_eq!(
            (list("bootstrap_host").count(), list("bootstrap_port").count(), rooms.len()),
            (count, count, count)
        );
        assert!(rooms.iter().all(|room| i64::try_from(*room).is_ok()));
    }
    for (api, request) in [
        (Api::Completions, r#"{"prompt":[1,2]}"#),
        (Api::Generate, r#"{"input_ids":[1,2]}"#),
        (Api::Chat, r#"{"prompt":["a"]}"#),
    ] {
        assert!(
            text(&pair.prefill(&sglang, api, &body(request)).expect("no fault")).contains(r#""bootstrap_port":8998"#)
        );
    }
}

#[test]
fn a_host_of_version_6_is_left_in_brackets() {
    let leg =
        Pair::at("[fd00::5]:8000").prefill(&SglangBootstrap::default(), Api::Chat, &body("{}")).expect("no fault");
    assert!(text(&leg).starts_with(r#"{"bootstrap_host":"[fd00::5]","#));
}

#[test]
fn mooncake_names_one_transfer_to_both() {
    let pair = pair();
    let mooncake = Mooncake::new(Arc::new(pair.clone()));
    let request = body(r#"{"max_tokens":50,"stream":true,"min_tokens":2}"#);
    let (prefill, decode) = (
        pair.prefill(&mooncake, Api::Chat, &request).expect("no fault"),
        pair.decode(&mooncake, Api::Chat, &request, None).expect("no fault"),
    );
    let id = Object::parse(&prefill.body)
        .expect("no fault")
        .get_path(&["kv_transfer_params", "transfer_id"])
        .expect("no fault");
    let id = id.as_str().expect("no fault");
    assert!(id.starts_with("xfer-") && id.len() == 41, "{id}");
    assert_eq!(
        text(&prefill),
        format!(
            r#"{{"max_tokens":1,"stream":false,"min_tokens":1,"kv_transfer_params":{{"do_remote_prefill":false,"do_remote_decode":true,"transfer_id":"{id}"}}}}"#
        )
    );
    assert_eq!(prefill.headers[DATA_PARALLEL_RANK], "3");
    assert_eq!(
        text(&decode),
        format!(
            r#"{{"max_tokens":50,"stream":true,"min_tokens":2,"kv_transfer_params":{{"do_remote_prefill":true,"do_remote_decode":false,"transfer_id":"{id}","remote_bootstrap_addr":"http://10.0.0.5:8998","remote_engine_id":"engine-1"}}}}"#
        )
    );
    assert!(decode.headers.is_empty());
    assert_eq!((mooncake.mode(), mooncake.reuse()), (HandoffMode::Concurrent, HandoffReuse::Never));
    let capped = text(&pair.prefill(&mooncake, Api::Chat, &body(r#"{"max_completion_tokens":9}"#)).expect("no fault"))
        .to_owned();
    assert!(capped.starts_with(r#"{"max_completion_tokens":1,"stream":false,"max_tokens":1,"kv"#), "{capped}");
    assert_eq!(mooncake.port(9).bootstrap_url("[fd00::5]:80"), "http://[fd00::5]:9");
}

#[test]
fn a_bootstrap_servers_engines_are_read() {
    let answer = br#"{"0":{"engine_id":"a","worker":{}},"1":{"engine_id":"b"},"x":{"engine_id":"c"},"2":{}}"#;
    let engine = |id: &str, rank| MooncakeEngine { id: id.into(), rank };
    assert_eq!(MooncakeEngine::query(answer).expect("no fault"), [engine("a", 0), engine("b", 1)]);
    assert!(MooncakeEngine::query(b"[]").is_err());
}

#[test]
fn shared_storage_lifts_the_threshold_on_both_legs() {
    let storage = SharedStorage::default();
    let request = body(r#"{"cache_hit_threshold":0.8,"max_tokens":50,"stream":true,"stream_options":{}}"#);
    let prefill = pair().prefill(&storage, Api::Chat, &request).expect("no fault");
    assert_eq!(text(&prefill), r#"{"cache_hit_threshold":0,"max_tokens":1,"stream":false,"max_completion_tokens":1}"#);
    let decode = pair().decode(&storage, Api::Chat, &request, Some(b"{}")).expect("no fault");
    assert_eq!(text(&decode), r#"{"cache_hit_threshold":0,"max_tokens":50,"stream":true,"stream_options":{}}"#);
    assert_eq!((storage.mode(), storage.reuse()), (HandoffMode::Serial, HandoffReuse::Always));
}

#[test]
fn shared_storage_lifts_the_threshold_where_nobody_prefills() {
    let (storage, addresses) = (SharedStorage::default(), pair());
    let request = body(r#"{"cache_hit_threshold":0.8,"stream":true}"#);
    let leg = LegContext::new(Api::Chat, &request, &addresses);
    assert_eq!(text(&storage.leg(&leg).expect("no fault")), r#"{"cache_hit_threshold":0,"stream":true}"#);
    let asked_first = storage.leg(&leg.probing(true)).expect("no fault");
    assert_eq!(asked_first.body.as_ptr(), request.as_ptr(), "the client's own");
    let plain = body(r#"{"stream":true}"#);
    let without = storage.leg(&LegContext::new(Api::Chat, &plain, &addresses)).expect("no fault");
    assert_eq!(without.body.as_ptr(), plain.as_ptr());
}

#[test]
fn shared_storage_lets_the_decode_pod_judge_first() {
    let storage = SharedStorage::default();
    assert!(storage.decodes_first(Api::Chat, br#"{"cache_hit_threshold":0.8}"#));
    assert!(!storage.decodes_first(Api::Chat, br#"{"max_tokens":1}"#));
    assert!(
        !storage.decodes_first(Api::Responses, br#"{"cache_hit_threshold":0.8}"#),
        "it has no choices to decline in"
    );
    let document = |answer: &str| storage.wants_prefill(false, answer.as_bytes());
    assert_eq!(document(r#"{"choices":[{"finish_reason":"cache_threshold"}]}"#), Some(true));
    assert_eq!(document(r#"{"choices":[{"finish_reason":"stop"}]}"#), Some(false));
    assert_eq!(document(r#"{"choices":[]}"#), Some(false));
    assert_eq!(document(r#"{"choices":[{"finish_reason":"cache_"#), None);
    let events = |answer: &str| storage.wants_prefill(true, answer.as_bytes());
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n";
    assert_eq!(events(role), None);
    let below = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"cache_threshold\"}]}\n\n";
    assert_eq!(events(&format!("{role}{below}")), Some(true));
    assert_eq!(events(&below[..below.len() - 1]), None);
    assert_eq!(events("data: {\"type\":\"response.created\"}\n\n"), Some(false), "no choices, so none that declines");
    assert_eq!((events("data: [DONE]\n\n"), events(": ping\n\n")), (Some(false), None));
    let word = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":null}]}\n\n";
    assert_eq!(events(&format!("{role}{word}")), Some(false));
    assert_eq!(events("data: {\"choices\":[{\"text\":\"Hi\",\"finish_reason\":null}]}\n\n"), Some(false));
    assert!(!Nixl::default().decodes_first(Api::Chat, br#"{"cache_hit_threshold":0.8}"#));
    assert_eq!(Nixl::default().wants_prefill(false, b""), Some(false));
}

#[test]
fn every_dialect_says_how_its_legs_stand() {
    let stand: Vec<(HandoffMode, HandoffReuse)> =
        dialects(&pair()).iter().map(|handoff| (handoff.mode(), handoff.reuse())).collect();
    let (serial, concurrent) =
        ((HandoffMode::Serial, HandoffReuse::Always), (HandoffMode::Concurrent, HandoffReuse::Never));
    let (nixl, single) =
        ((HandoffMode::Serial, HandoffReuse::IfUnprocessed), (HandoffMode::Single, HandoffReuse::Always));
    assert_eq!(stand, [nixl, concurrent, concurrent, serial, single]);
    let plain = Plain::new(HandoffMode::Serial);
    assert_eq!((plain.mode(), plain.reuse()), serial);
}
