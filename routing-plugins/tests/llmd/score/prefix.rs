//! The scorer of what endpoints hold of the prompt.

use routing_plugins::Fraction;
use routing_plugins::score::{CacheAffinityParameters, CacheAffinityScorer};
use serde_json::{Value, json};

use super::expect::expect;
use super::setup::Setup;
use crate::case::Case;
use crate::read::{counts, known, known_case, list, number, refused, signed, whole};

const PARAMETERS: [&str; 2] = ["matchLengthWeight", "matchLengthScaleTokens"];

fn parameters(params: &Value) -> Result<CacheAffinityParameters, String> {
    let mut parameters = CacheAffinityParameters::default();
    if let Some(weight) = number(params, "matchLengthWeight")? {
        parameters.length_weight = Fraction::try_from(weight).map_err(|error| error.to_string())?;
    }
    if let Some(scale) = signed(params, "matchLengthScaleTokens")? {
        let scale = u32::try_from(scale).map_err(|error| error.to_string())?;
        parameters.length_scale = scale.try_into().map_err(|error: std::num::TryFromIntError| error.to_string())?;
    }
    Ok(parameters)
}

/// Totals differ by endpoint there, so each is asked alone.
pub(crate) fn score(case: &Case) -> Result<(), String> {
    known_case(case, &PARAMETERS, &["match", "match_ratio", "block_size"])?;
    let parameters = parameters(&case.params)?;
    let block = whole(&case.input, "block_size")?.unwrap_or(16) as usize;
    let mut found = Vec::new();
    for matched in list(&case.input, if case.input["match"].is_null() { "match_ratio" } else { "match" })? {
        let (held, total) = held_of(matched)?;
        let setup = Setup::new(1).prompt(total * block, block as u32);
        setup.hold(0, held);
        found.extend(setup.scores(move |d| CacheAffinityScorer::declare(d, parameters))?);
    }
    expect(case, &found)
}

/// Blocks held, of so many; as two numbers, or as a share in thousandths. Nothing, where it is missing.
fn held_of(matched: &Value) -> Result<(usize, usize), String> {
    if matched.is_null() {
        return Ok((0, 1));
    }
    if let Some(share) = matched.as_f64() {
        let blocks = (share * 1000.0).round();
        let is_exact = (blocks - share * 1000.0).abs() < 1e-9 && (0.0..=1.0).contains(&share);
        return if is_exact { Ok((blocks as usize, 1000)) } else { Err(format!("unknown share {share}")) };
    }
    match counts(matched)?[..] {
        [held, total] => Ok((held as usize, total as usize)),
        _ => Err("unknown match".into()),
    }
}

/// What is refused; and what is taken where little is given.
pub(crate) fn config(case: &Case) -> Result<(), String> {
    known_case(case, &PARAMETERS, &[])?;
    known(&case.expected, &["error", "matchLengthWeight", "matchLengthScaleTokens"])?;
    let built = parameters(&case.params);
    refused(&Case { expected: json!({ "error": case.expected["error"] }), ..case.clone() }, built.clone())?;
    let Ok(built) = built else { return Ok(()) };
    let found = [f64::from(built.length_weight.get()), f64::from(built.length_scale.get())];
    for (name, found) in PARAMETERS.into_iter().zip(found) {
        if number(&case.expected, name)?.is_some_and(|expected| (expected - found).abs() > 1e-6) {
            return Err(format!("found {name} {found}"));
        }
    }
    Ok(())
}
