//! Cases of preparers, and of what a host works out before it sends.

use std::num::NonZeroU32;

use routing_plugins::Positive;
use routing_plugins::load::OutputEstimate;
use serde_json::Value;

use super::case::{Case, Verdict};

pub(crate) fn check(case: &Case) -> Verdict {
    match case.plugin.as_str() {
        "inflight-token-estimator" => Verdict::of(estimate(case)),
        _ => Verdict::NotMine,
    }
}

/// Theirs are signed, and take what is not above 0 for none.
fn estimate(case: &Case) -> Result<(), String> {
    let mut estimate = OutputEstimate::default();
    for (name, value) in case.params.as_object().into_iter().flatten() {
        match name.as_str() {
            "outputRatio" => estimate.ratio = value.as_f64().and_then(Positive::new).ok_or("unknown ratio")?,
            "maxEstimatedOutputTokens" => estimate.most = cap(value)?.and_then(NonZeroU32::new),
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
    let cap = if value.is_null() { 0 } else { number(value)? };
    // More than there can be is no cap either.
    Ok(u32::try_from(cap).ok().filter(|&cap| cap > 0))
}

#[test]
fn cases_of_the_token_estimator_pass() {
    let cases = super::case::read(super::CASES);
    let verdicts: Vec<_> = cases.iter().map(|case| (&case.id, check(case))).collect();
    let passed = verdicts.iter().filter(|(_, verdict)| matches!(verdict, Verdict::Passed)).count();
    assert_eq!(verdicts.iter().find(|(_, verdict)| matches!(verdict, Verdict::Failed(_))).map(|(id, _)| id), None);
    assert!(passed >= 8, "{passed} cases");
}
