//! The scorer of predicted latencies.

use std::time::Duration;

use kv_index::PodId;
use routing_core::Declare;
use routing_plugins::extra::{
    HeadroomParameters, HeadroomScorer, Prediction, PredictionTable, Predictions, PreferredHeadroom,
};
use routing_plugins::{Amount, Positive};
use serde_json::Value;

use super::expect::expect;
use super::setup::Setup;
use crate::case::Case;
use crate::plugins::Given;
use crate::read::{counts, flag, known, known_case, list, number, whole};

/// A target far enough away that every headroom of a case can be predicted.
const TARGET_MS: f64 = 1e6;

/// What their scorer is told of an endpoint. It does not go by how many run there, by whether a target is met apart from
/// the headroom, nor by the predicted times themselves.
const FIGURES: [&str; 11] = [
    "ttft_headroom",
    "tpot_headroom",
    "ttft_valid",
    "tpot_valid",
    "ttft",
    "tpot",
    "dispatched",
    "running",
    "kv",
    "queue",
    "match",
];

/// Headrooms are given there; here they come of a target and predictions that lie so far below it.
pub(crate) fn latency(case: &Case) -> Result<(), String> {
    let weights = ["ttftWeight", "tpotWeight", "compositeKVWeight", "compositeQueueWeight", "compositePrefixWeight"];
    let params: Vec<&str> = weights.into_iter().chain(["headroomSelectionStrategy"]).collect();
    known_case(case, &params, &["endpoints", "predictions"])?;
    let parameters = parameters(&case.params)?;
    let endpoints = list(&case.input, "endpoints")?;
    let blocks = endpoints.iter().find_map(|endpoint| endpoint["match"][1].as_u64()).unwrap_or_default();
    let mut setup = Setup::new(endpoints.len()).prompt(blocks as usize, 1);
    let mut predictions = Vec::new();
    for (at, endpoint) in endpoints.iter().enumerate() {
        known(endpoint, &FIGURES)?;
        if !endpoint["match"].is_null() {
            let [held, total] = counts(&endpoint["match"])?[..] else { return Err("unknown match".into()) };
            if u64::from(total) != blocks {
                return Err("unknown: prompts of different lengths".into());
            }
            setup.hold(at, held as usize);
        }
        predictions.push(prediction(endpoint)?);
        let count = |name| whole(endpoint, name).map(|count| count.unwrap_or_default() as u32);
        let load = &mut setup.loads[at];
        load.kv_used = number(endpoint, "kv")?.unwrap_or_default() as f32;
        (load.waiting, load.running) = (count("queue")?, count("running")?);
        load.in_flight.requests = count("dispatched")?;
    }
    if case.input.get("predictions").is_some_and(|given| !given.is_null()) {
        return Err("unknown predictions".into());
    }
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

/// None, where no headroom is told.
fn prediction(endpoint: &Value) -> Result<Option<Prediction>, String> {
    let headroom = |name: &str, valid: &str| {
        let headroom = number(endpoint, name)?;
        if !endpoint[valid].is_null() && Some(flag(endpoint, valid)?) != headroom.map(|headroom| headroom >= 0.0) {
            return Err(format!("unknown: {valid} with a headroom of {headroom:?}"));
        }
        Ok(headroom.map(predicted))
    };
    number(endpoint, "ttft")?;
    number(endpoint, "tpot")?;
    let (ttft, tpot) = (headroom("ttft_headroom", "ttft_valid")?, headroom("tpot_headroom", "tpot_valid")?);
    Ok((ttft.is_some() || tpot.is_some()).then_some(Prediction { ttft, tpot }))
}

fn predicted(headroom: f64) -> Duration {
    Duration::from_secs_f64((TARGET_MS - headroom) / 1e3)
}

fn parameters(params: &Value) -> Result<HeadroomParameters, String> {
    let target = Positive::new(TARGET_MS);
    let mut parameters = HeadroomParameters::default().ttft_target_ms(target).tpot_target_ms(target);
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
        if let Some(weight) = number(params, key)? {
            *place = Amount::new(weight).ok_or(format!("unknown weight {weight}"))?;
        }
    }
    Ok(parameters)
}
