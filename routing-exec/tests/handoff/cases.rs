//! Handoffs as another project's tests state them.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use routing_exec::handoff::{Api, Handoff, HandoffMode, Mooncake, Nixl, SglangBootstrap, SharedStorage, headers};
use serde_json::{Map, Value, json};

use crate::pair::{Pair, dialects};

#[test]
fn every_case_comes_out_as_it_is_stated() {
    let mut cases = read(include_str!("../fixtures/handoff_cases.json"));
    assert_eq!(cases.len(), 6, "every case of the fixture");
    cases.extend(further("llmd_plugin_cases.json").as_deref().map(read).into_iter().flatten());
    let failed: Vec<String> =
        cases.iter().filter_map(|case| Some(format!("{}: {}", case["id"], check(case).err()?))).collect();
    assert!(failed.is_empty(), "{} of {} failed:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

/// The cases of a file that are about handoffs.
fn read(text: &str) -> Vec<Value> {
    let mut file: Value = serde_json::from_str(text).expect("a file of cases");
    let Value::Array(cases) = file["cases"].take() else { panic!("no cases") };
    let is_ours = |case: &Value| case["plugin"].as_str().is_some_and(|plugin| plugin.starts_with("pd-"));
    cases.into_iter().filter(is_ours).collect()
}

/// A file of the same form in the folder that `POINTSMAN_VECTORS` names, if it does.
fn further(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "a test is configured by its environment")]
    let folder = std::env::var_os("POINTSMAN_VECTORS")?;
    std::fs::read_to_string(std::path::Path::new(&folder).join(name)).ok()
}

fn check(case: &Value) -> Result<(), String> {
    known(&case["params"], &[])?;
    let (input, expected) = (&case["input"], &case["expected"]);
    match case["kind"].as_str() {
        Some("wire") => wire(&case["plugin"], input, expected),
        Some("usage") => usage(input, expected),
        Some("prerequest") => sidecar(input, expected),
        _ => Err(format!("unknown kind {}", case["kind"])),
    }
}

/// What goes out on both legs.
fn wire(dialect: &Value, input: &Value, expected: &Value) -> Result<(), String> {
    known(input, &["request", "path", "prefill_host_port", "prefill_response"])?;
    let keys = ["prefill", "decode", "prefill_absent", "decode_absent", "both_legs_add", "unchanged", "concurrent"];
    known(expected, &keys)?;
    let pair = Pair::at(input["prefill_host_port"].as_str().unwrap_or("10.0.0.5:8000"));
    let handoff = named(dialect, &pair)?;
    let api = Api::of(input["path"].as_str().unwrap_or("/v1/chat/completions"));
    let request = Bytes::from(input["request"].to_string());
    let answer = input.get("prefill_response").cloned().unwrap_or_else(|| answer(&Value::Null)).to_string();
    let prefill = pair.prefill(&*handoff, api, &request).map_err(|error| error.to_string())?;
    let decode = pair.decode(&*handoff, api, &request, Some(answer.as_bytes())).map_err(|error| error.to_string())?;
    let leg = |body: &Bytes| serde_json::from_slice::<Value>(body).map_err(|error| error.to_string());
    let (prefill, decode) = (leg(&prefill.body)?, leg(&decode.body)?);

    has(&prefill, &expected["prefill"])?;
    has(&decode, &expected["decode"])?;
    has_not(&prefill, &expected["prefill_absent"])?;
    has_not(&decode, &expected["decode_absent"])?;
    let added = &expected["both_legs_add"];
    has(&prefill, added)?;
    has(&decode, added)?;
    for name in members(added).map(|(name, _)| name) {
        equal(name, &prefill[name], &decode[name])?;
    }
    for name in expected["unchanged"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        equal(name, &prefill[name], &input["request"][name])?;
        equal(name, &decode[name], &input["request"][name])?;
    }
    match expected.get("concurrent").and_then(Value::as_bool) {
        Some(concurrent) if concurrent != (handoff.mode() == HandoffMode::Concurrent) => Err("another mode".to_owned()),
        _ => Ok(()),
    }
}

fn named(dialect: &Value, pair: &Pair) -> Result<Box<dyn Handoff>, String> {
    match dialect.as_str() {
        Some("pd-nixlv2") => Ok(Box::new(Nixl::default())),
        Some("pd-sglang") => Ok(Box::new(SglangBootstrap::default())),
        Some("pd-mooncake") => Ok(Box::new(Mooncake::new(Arc::new(pair.clone())))),
        Some("pd-shared-storage") => Ok(Box::new(SharedStorage::default())),
        _ => Err(format!("unknown dialect {dialect}")),
    }
}

/// A prefill pod's answer that hands everything over.
fn answer(usage: &Value) -> Value {
    json!({"usage": usage, "kv_transfer_params": {
        "do_remote_prefill": true, "do_remote_decode": false, "remote_block_ids": [[1, 2, 3]], "remote_engine_id": "e",
        "remote_request_id": "r", "remote_host": "10.0.0.5", "remote_port": 5600}})
}

/// What a client is told of cached tokens, in a document and in a stream.
fn usage(input: &Value, expected: &Value) -> Result<(), String> {
    known(input, &["prefill_usage", "decode_usage"])?;
    known(expected, &["client_cached_tokens"])?;
    // The figure may stand alone or where engines have it.
    let cached = &input["prefill_usage"]["cached_tokens"];
    let prefill_usage = match cached {
        Value::Null => input["prefill_usage"].clone(),
        cached => json!({"prompt_tokens_details": {"cached_tokens": cached}}),
    };
    let prefilled = answer(&prefill_usage).to_string();
    let document = json!({"choices": [], "usage": input["decode_usage"]}).to_string();
    for events in [false, true] {
        let text = if events { format!("data: {document}\n\n") } else { document.clone() };
        let mut fix = Nixl::default().usage(Api::Chat, events, Some(prefilled.as_bytes())).ok_or("nothing is fixed")?;
        let fixed = [fix.pass(Bytes::from(text)), fix.finish()].concat();
        let json = if events { fixed.strip_prefix(b"data: ").ok_or("no event")? } else { &fixed };
        let fixed: Value = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        let told = &fixed["usage"]["prompt_tokens_details"]["cached_tokens"];
        equal("cached_tokens", told, &expected["client_cached_tokens"])?;
    }
    Ok(())
}

/// What a sidecar is told of a plan's pods.
fn sidecar(input: &Value, expected: &Value) -> Result<(), String> {
    known(input, &["prefill_target", "encode_targets", "inbound"])?;
    known(expected, &["header_absent", "headers"])?;
    let mut headers = HeaderMap::new();
    for (name, value) in members(&input["inbound"]) {
        let name: HeaderName = name.parse().map_err(|_| "no header's name")?;
        let value = HeaderValue::from_str(value.as_str().unwrap_or_default()).map_err(|_| "no header's value")?;
        headers.insert(name, value);
    }
    let encoders: Vec<&str> =
        input["encode_targets"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    headers::name_pods_to_sidecar(&mut headers, input["prefill_target"].as_str(), &encoders)
        .map_err(|error| error.to_string())?;
    for name in expected["header_absent"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if headers.contains_key(name) {
            return Err(format!("header {name} is there"));
        }
    }
    for (name, value) in members(&expected["headers"]) {
        let found = headers.get(name).and_then(|value| value.to_str().ok());
        equal(name, &json!(found), value)?;
    }
    Ok(())
}

fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flat_map(Map::iter)
}

/// Nothing but these names: what is not understood must not pass.
fn known(object: &Value, names: &[&str]) -> Result<(), String> {
    members(object)
        .find(|(name, _)| !names.contains(&&***name))
        .map_or(Ok(()), |(name, _)| Err(format!("unknown {name}")))
}

/// Members that a leg must have; of one that is described in words, only that it is there.
fn has(leg: &Value, expected: &Value) -> Result<(), String> {
    for (name, value) in members(expected) {
        let is_described = value.as_str().is_some_and(|text| text.starts_with('<'));
        match leg.get(name) {
            Some(found) if is_described && !found.is_null() => {}
            Some(found) => equal(name, found, value)?,
            None => return Err(format!("{name} is missing")),
        }
    }
    Ok(())
}

fn has_not(leg: &Value, names: &Value) -> Result<(), String> {
    let mut names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.find(|name| leg.get(name).is_some()).map_or(Ok(()), |name| Err(format!("{name} is there")))
}

fn equal(name: &str, found: &Value, expected: &Value) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{name} is {found}, expected {expected}")) }
}

#[test]
fn every_dialect_but_the_plain_one_changes_the_prefill_leg() {
    let (pair, body) = (Pair::at("h:1"), Bytes::from_static(b"{}"));
    let changed = dialects(&pair)
        .iter()
        .filter(|handoff| pair.prefill(&***handoff, Api::Chat, &body).expect("no fault").body != body)
        .count();
    assert_eq!(changed, 4);
}
