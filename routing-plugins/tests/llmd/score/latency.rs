//! The scorer of predicted latencies.

use std::time::Duration;

use kv_index::PodId;
use routing_core::Declare;
use routing_plugins::extra::{
    HeadroomParameters, HeadroomScorer, Prediction, PredictionTable, Predictions, PreferredHeadroom,
};
use routing_plugins::{Amount, Positive};
use serde_json::Value;

use super::super::case::Case;
use super::expect::expect;
use super::known;
use super::setup::{Given, Setup};

/// A target far enough away that every headroom of a case can be predicted.
const TARGET_MS: f64 = 1e6;

/// Headrooms are given there; here they come of a target and predictions that lie so far below it.
pub(crate) fn latency(case: &Case) -> Result<(), String> {
    let weights = ["ttftWeight", "tpotWeight", "compositeKVWeight", "compositeQueueWeight", "compositePrefixWeight"];
    let params: Vec<&str> = weights.into_iter().chain(["headroomSelectionStrategy"]).collect();
    known(case, &params, &["endpoints", "predictions"])?;
    let parameters = parameters(&case.params)?;
    let endpoints = case.input["endpoints"].as_array().ok_or("no endpoints")?;
    let blocks = endpoints.iter().find_map(|endpoint| endpoint["match"][1].as_u64()).unwrap_or_default();
    let setup = Setup::new(endpoints.len()).prompt(blocks as usize, 1);
    let mut predictions = Vec::new();
    for (at, endpoint) in endpoints.iter().enumerate() {
        let keys = ["ttft_headroom", "tpot_headroom", "dispatched", "kv", "queue", "match"];
        let unknown = endpoint.as_object().ok_or("no endpoint")?.keys().find(|key| !keys.contains(&key.as_str()));
        if let Some(key) = unknown {
            return Err(format!("unknown figure `{key}`"));
        }
        if endpoint["match"].is_array() && endpoint["match"][1].as_u64() != Some(blocks) {
            return Err("unknown: prompts of different lengths".into());
        }
        setup.hold(at, endpoint["match"][0].as_u64().unwrap_or_default() as usize);
        let headroom = |key: &str| endpoint[key].as_f64().map(predicted);
        let (ttft, tpot) = (headroom("ttft_headroom"), headroom("tpot_headroom"));
        predictions.push((ttft.is_some() || tpot.is_some()).then_some(Prediction { ttft, tpot }));
    }
    if case.input.get("predictions").is_some_and(|given| !given.is_null()) {
        return Err("unknown predictions".into());
    }
    let setup = setup.loads(endpoints, |endpoint, load| {
        load.kv_used = endpoint["kv"].as_f64().unwrap_or_default() as f32;
        load.waiting = endpoint["queue"].as_u64().unwrap_or_default() as u32;
        load.in_flight.requests = endpoint["dispatched"].as_u64().unwrap_or_default() as u32;
    });
    let make = move || {
        let mut table = PredictionTable::default();
        for (at, prediction) in predictions.iter().enumerate() {
            if let Some(prediction) = prediction {
                table.set(PodId::new(at as u16), *prediction);
            }
        }
        table
    };
    let profile = setup
        .profile()
        .preparer("predict", move |d: &mut Declare<'_>| Given::<Predictions, _>(d.writes(), make))
        .scorer("headroom", 1.0, move |d: &mut Declare<'_>| HeadroomScorer::declare(d, parameters));
    expect(case, &setup.scores_of(&setup.request(), profile)?)
}

fn predicted(headroom: f64) -> Duration {
    Duration::from_secs_f64((TARGET_MS - headroom) / 1e3)
}

fn parameters(params: &Value) -> Result<HeadroomParameters, String> {
    let target = Positive::new(TARGET_MS);
    let mut parameters =
        HeadroomParameters { ttft_target_ms: target, tpot_target_ms: target, ..HeadroomParameters::default() };
    parameters.prefer = match params["headroomSelectionStrategy"].as_str() {
        None | Some("least") => PreferredHeadroom::Least,
        Some("most") => PreferredHeadroom::Most,
        Some(other) => return Err(format!("unknown strategy `{other}`")),
    };
    for (key, place) in [
        ("ttftWeight", &mut parameters.ttft_weight),
        ("tpotWeight", &mut parameters.tpot_weight),
        ("compositeKVWeight", &mut parameters.kv_weight),
        ("compositeQueueWeight", &mut parameters.queue_weight),
        ("compositePrefixWeight", &mut parameters.held_weight),
    ] {
        if let Some(weight) = params[key].as_f64() {
            *place = Amount::new(weight).ok_or(format!("unknown weight {weight}"))?;
        }
    }
    Ok(parameters)
}
