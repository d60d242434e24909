//! Cases of preparers, and of what a host works out before it sends.

use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Index, Matches, Predictor};
use routing_plugins::Amount;
use routing_plugins::load::OutputEstimate;
use serde_json::Value;

use super::case::{Case, Verdict};

pub(crate) fn check(case: &Case) -> Verdict {
    match case.plugin.as_str() {
        "inflight-token-estimator" => Verdict::of(estimate(case)),
        "approx-prefix-index" => Verdict::of(predicted(case)),
        "approx-prefix-cache-producer" if case.kind == "produce" => Verdict::of(matched(case)),
        "approx-prefix-cache-producer" if case.kind == "config" => Verdict::of(configured(case)),
        _ => Verdict::NotMine,
    }
}

/// What was routed is taken to be cached, as far as there is room.
fn predicted(case: &Case) -> Result<(), String> {
    only(&case.input, &["capacity", "server_gpu_blocks", "add"])?;
    let number = |name: &str| case.input[name].as_u64().map(|number| number as usize);
    let capacity = number("server_gpu_blocks").or(number("capacity")).ok_or("unknown capacity")?;
    let added = case.input["add"].as_array().ok_or("unknown blocks")?;
    let added: Vec<BlockHash> = added.iter().filter_map(Value::as_u64).map(BlockHash::new).collect();
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").map_err(|error| error.to_string())?;
    let mut predictor = Predictor::new(capacity);
    predictor.routed(&index, pod, &added).map_err(|error| error.to_string())?;
    equal(&serde_json::json!({ "len": predictor.blocks(pod) }), &case.expected)
}

/// Who is predicted to hold how much of a prompt, after what was routed.
fn matched(case: &Case) -> Result<(), String> {
    only(&case.params, &["blockSizeTokens"])?;
    only(&case.input, &["history", "query_tokens", "endpoints"])?;
    let size = case.params["blockSizeTokens"].as_u64().and_then(|size| BlockSize::new(size as u32));
    let hasher = ChainHasher::new(ChainSeed::new("m"), size.ok_or("unknown block size")?);
    let chain = |tokens: &Value| -> Vec<BlockHash> {
        let tokens: Vec<u32> =
            tokens.as_array().into_iter().flatten().filter_map(|token| Some(token.as_u64()? as u32)).collect();
        hasher.hash(&tokens)
    };
    let index: Index = Index::new(Config::default());
    let names: Vec<&str> = case.input["endpoints"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let pods: Vec<_> = names.iter().map(|name| index.join(name).expect("room")).collect();
    let mut predictor = Predictor::new(1_000);
    for routed in case.input["history"].as_array().ok_or("unknown history")? {
        only(routed, &["tokens", "routed_to"])?;
        for to in routed["routed_to"].as_object().ok_or("unknown targets")?.values() {
            let at = names.iter().position(|name| Some(*name) == to.as_str()).ok_or("unknown target")?;
            predictor.routed(&index, pods[at], &chain(&routed["tokens"])).map_err(|error| error.to_string())?;
        }
    }
    let mut matches = Matches::default();
    index.search(&chain(&case.input["query_tokens"]), &mut matches);
    let depths: Vec<usize> = pods.iter().map(|pod| matches.depth(pod.id())).collect();
    equal(&serde_json::json!({ "matched": depths, "total": matches.blocks() }), &case.expected)
}

/// A block of no tokens is no block.
fn configured(case: &Case) -> Result<(), String> {
    only(&case.params, &["autoTune", "blockSizeTokens"])?;
    let size = case.params["blockSizeTokens"].as_i64().ok_or("unknown block size")?;
    let refused = u32::try_from(size).ok().and_then(BlockSize::new).is_none();
    equal(&serde_json::json!({ "error": refused }), &case.expected)
}

/// Whether nothing is there but what is known.
fn only(given: &Value, known: &[&str]) -> Result<(), String> {
    let odd = given.as_object().and_then(|given| given.keys().find(|name| !known.contains(&name.as_str())));
    odd.map_or(Ok(()), |name| Err(format!("unknown field {name}")))
}

fn equal(found: &Value, expected: &Value) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("found {found}, expected {expected}")) }
}

/// Theirs are signed, and take what is below 0 for none.
fn estimate(case: &Case) -> Result<(), String> {
    let mut estimate = OutputEstimate::default();
    for (name, value) in case.params.as_object().into_iter().flatten() {
        match name.as_str() {
            "outputRatio" => estimate.ratio = value.as_f64().and_then(Amount::new).ok_or("unknown ratio")?,
            "maxEstimatedOutputTokens" => estimate.most = cap(value)?,
            _ => return Err(format!("unknown parameter {name}")),
        }
    }
    let (mut prompt, mut client) = (0, None);
    for (name, value) in case.input.as_object().into_iter().flatten() {
        match name.as_str() {
            "input_tokens" => prompt = number(value)?.max(0).unsigned_abs(),
            "client_cap" => client = cap(value)?,
            _ => return Err(format!("unknown input {name}")),
        }
    }
    let output = estimate.of(prompt, client);
    let found = match case.kind.as_str() {
        "estimate" => serde_json::json!({ "total": prompt + output }),
        "estimate_output" => serde_json::json!({ "output": output }),
        kind => return Err(format!("unknown kind {kind}")),
    };
    if found == case.expected { Ok(()) } else { Err(format!("found {found}, expected {}", case.expected)) }
}

fn number(value: &Value) -> Result<i64, String> {
    value.as_i64().ok_or_else(|| format!("unknown number {value}"))
}

fn cap(value: &Value) -> Result<Option<u32>, String> {
    let cap = if value.is_null() { -1 } else { number(value)? };
    // More than there can be is no cap either.
    Ok(u32::try_from(cap).ok())
}

#[test]
fn cases_of_the_token_estimator_pass() {
    let cases = super::case::read(super::CASES);
    let verdicts: Vec<_> = cases.iter().map(|case| (&case.id, check(case))).collect();
    let passed = verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Passed)).count();
    assert_eq!(verdicts.iter().find(|(_, verdict)| matches!(verdict, Verdict::Failed(_))).map(|(id, _)| id), None);
    assert!(passed >= 8, "{passed} cases");
}
