//! Their estimate of an answer's tokens.

use routing_plugins::Amount;
use routing_plugins::load::OutputEstimate;
use serde_json::json;

use crate::case::Case;
use crate::read::{equal, known, known_case, number, refused, signed};

pub(super) fn estimate(case: &Case) -> Result<(), String> {
    known_case(
        case,
        &["outputRatio", "maxEstimatedOutputTokens", "addEstimatedOutputTokens"],
        &["input_tokens", "client_cap"],
    )?;
    known(&case.expected, &["total", "input", "output", "error"])?;
    let parameters = parameters(case);
    if case.is_of_parameters() {
        return refused(case, parameters);
    }
    let estimate = parameters?;
    // Below 0 there is no prompt, as without a request.
    let prompt = signed(&case.input, "input_tokens")?.unwrap_or_default().max(0).unsigned_abs();
    let client = signed(&case.input, "client_cap")?.and_then(cap);
    let output = estimate.of(prompt, client);
    let found = match &*case.kind {
        "estimate" => json!({ "total": prompt + output }),
        "estimate_input" => json!({ "input": prompt }),
        "estimate_output" => json!({ "output": output }),
        kind => return Err(format!("unknown kind {kind}")),
    };
    equal(&found, &case.expected)
}

fn parameters(case: &Case) -> Result<OutputEstimate, String> {
    let mut estimate = OutputEstimate::default();
    if let Some(ratio) = number(&case.params, "outputRatio")? {
        estimate.ratio = Amount::try_from(ratio).map_err(|error| error.to_string())?;
    }
    let most = signed(&case.params, "maxEstimatedOutputTokens")?;
    if most.is_some_and(|most| most < 0) {
        // Their producer refuses it too.
        return Err("a cap below 0".into());
    }
    estimate.most = most.and_then(cap);
    Ok(estimate)
}

/// Below 0, theirs is none; more than there can be is none either.
fn cap(cap: i64) -> Option<u32> {
    u32::try_from(cap).ok()
}
