//! Their saturation detectors, as filters and as figures, and their ceilings by priority.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use routing_core::OnEmpty;
use routing_plugins::extra::{Ceilings, UtilizationFilter, UtilizationParameters};
use routing_plugins::filter::{
    ConcurrencyFilter, ConcurrencyParameters, Figures, InFlightLimit, Unreported, saturation,
};
use routing_plugins::load::PodLoad;
use routing_plugins::{Amount, Fraction, Positive};
use serde_json::Value;

use super::given::{as_expected, kept, profile, with_loads};
use crate::case::{Case, close, fleet, request};
use crate::read::{flag, known, known_case, list, number, refused, signed, whole};

fn positive(params: &Value, name: &str, default: f64) -> Result<Positive, String> {
    Positive::try_from(number(params, name)?.unwrap_or(default)).map_err(|error| error.to_string())
}

fn headroom(params: &Value) -> Result<Amount, String> {
    Amount::try_from(number(params, "headroom")?.unwrap_or_default()).map_err(|error| error.to_string())
}

fn is_saturated_by(case: &Case, saturation: f64) -> Result<(), String> {
    known(&case.expected, &["saturation"])?;
    number(&case.expected, "saturation")?.ok_or("no saturation")?;
    close(&[saturation], &Value::Array(vec![case.expected["saturation"].clone()]), case.tolerance)
}

const UTILIZATION: [&str; 4] =
    ["queueDepthThreshold", "kvCacheUtilThreshold", "metricsStalenessThresholdMs", "headroom"];

fn utilization_limits(case: &Case) -> Result<UtilizationParameters, String> {
    Ok(UtilizationParameters::default()
        .waiting(positive(&case.params, "queueDepthThreshold", 5.0)?)
        .kv_used(positive(&case.params, "kvCacheUtilThreshold", 0.8)?)
        .headroom(headroom(&case.params)?)
        .unreported(Unreported::Remove))
}

pub(super) fn utilization_config(case: &Case) -> Result<(), String> {
    known_case(case, &UTILIZATION, &[])?;
    refused(case, utilization_limits(case))
}

/// The limits and the pods' reports; where one is missing there is no age.
fn utilization(case: &Case) -> Result<(UtilizationParameters, Vec<PodLoad>), String> {
    known_case(case, &UTILIZATION, &["endpoints"])?;
    let freshest = number(&case.params, "metricsStalenessThresholdMs")?.unwrap_or(200.0);
    let mut loads = Vec::new();
    for endpoint in list(&case.input, "endpoints")? {
        let mut load = PodLoad::default();
        if !endpoint.is_null() {
            known(endpoint, &["queue", "kv", "stale", "age_ms"])?;
            load.waiting = whole(endpoint, "queue")?.unwrap_or_default() as u32;
            load.kv_used = number(endpoint, "kv")?.unwrap_or_default() as f32;
            // Figures of a stale report stay, as the tracker leaves them.
            load.age = Some(Duration::ZERO);
            load.stale = flag(endpoint, "stale")? || number(endpoint, "age_ms")?.is_some_and(|age| age > freshest);
        }
        loads.push(load);
    }
    Ok((utilization_limits(case)?, loads))
}

pub(super) fn utilization_filter(case: &Case) -> Result<(), String> {
    let (parameters, loads) = utilization(case)?;
    let (_, fleet) = fleet(loads.len(), |_, pod| pod);
    let profile = with_loads(profile("serve"), loads);
    let filter = move |d: &mut routing_core::Declare<'_>| UtilizationFilter::declare(d, parameters);
    as_expected(case, &kept(profile, &request(), &fleet, OnEmpty::KeepPrevious, filter)?)
}

pub(super) fn utilization_saturation(case: &Case) -> Result<(), String> {
    let (parameters, loads) = utilization(case)?;
    is_saturated_by(case, saturation::by_utilization(&parameters, loads))
}

const CONCURRENCY: [&str; 5] = ["mode", "concurrencyMode", "maxConcurrency", "maxTokenConcurrency", "headroom"];

/// The limits that their mode goes by.
fn concurrency_limits(params: &Value) -> Result<(Vec<InFlightLimit>, Amount), String> {
    let limit = |name, default| {
        let most = signed(params, name)?.unwrap_or(default);
        u64::try_from(most).ok().and_then(NonZeroU64::new).ok_or_else(|| format!("a limit of {most}"))
    };
    let requests = NonZeroU32::try_from(limit("maxConcurrency", 100)?).map_err(|error| error.to_string())?;
    let requests = InFlightLimit::Requests(requests);
    let tokens = InFlightLimit::Tokens(limit("maxTokenConcurrency", 1_000_000)?);
    let mode = if params["mode"].is_null() { &params["concurrencyMode"] } else { &params["mode"] };
    let limits = match mode.as_str() {
        None if !mode.is_null() => return Err(format!("unknown mode {mode}")),
        None | Some("requests") => vec![requests],
        Some("tokens") => vec![tokens],
        Some("hybrid") => vec![requests, tokens],
        other => return Err(format!("unknown mode {other:?}")),
    };
    Ok((limits, headroom(params)?))
}

pub(super) fn concurrency_config(case: &Case) -> Result<(), String> {
    known_case(case, &CONCURRENCY, &[])?;
    refused(case, concurrency_limits(&case.params))
}

/// The limits, and what is in flight: nothing, where that is not known.
fn concurrency(case: &Case) -> Result<(Vec<InFlightLimit>, Amount, Vec<PodLoad>), String> {
    known_case(case, &CONCURRENCY, &["inflight_requests", "inflight_tokens"])?;
    let (limits, headroom) = concurrency_limits(&case.params)?;
    let figures = |name| if case.input[name].is_null() { Ok(&[][..]) } else { list(&case.input, name) };
    let (requests, tokens) = (figures("inflight_requests")?, figures("inflight_tokens")?);
    let figure = |list: &[Value], at: usize| match list.get(at) {
        None | Some(Value::Null) => Ok(0),
        Some(number) => number.as_u64().ok_or_else(|| format!("unknown, no whole number: {number}")),
    };
    let mut loads = Vec::new();
    for at in 0..requests.len().max(tokens.len()) {
        let mut load = PodLoad::default();
        load.in_flight.requests = figure(requests, at)? as u32;
        load.in_flight.prompt_tokens = figure(tokens, at)?;
        loads.push(load);
    }
    Ok((limits, headroom, loads))
}

/// Theirs does not fail open: a limit that gives way is none.
pub(super) fn concurrency_filter(case: &Case) -> Result<(), String> {
    let (limits, headroom, loads) = concurrency(case)?;
    let (_, fleet) = fleet(loads.len(), |_, pod| pod);
    let mut passed: Vec<usize> = (0..loads.len()).collect();
    // Two limits are two filters, one after the other.
    for limit in limits {
        let parameters = ConcurrencyParameters::new(limit).headroom(headroom).figures(Figures::Counted);
        let profile = with_loads(profile("serve"), loads.clone());
        let filter = move |d: &mut routing_core::Declare<'_>| ConcurrencyFilter::declare(d, parameters);
        let kept = kept(profile, &request(), &fleet, OnEmpty::Fail, filter)?;
        passed.retain(|pod| kept.contains(pod));
    }
    as_expected(case, &passed)
}

pub(super) fn concurrency_saturation(case: &Case) -> Result<(), String> {
    let (limits, _, loads) = concurrency(case)?;
    is_saturated_by(case, saturation::by_concurrency(&limits, Figures::Counted, loads))
}

/// The ceilings of some priorities. How full the fleet is changes nothing, though theirs is told.
pub(super) fn ceilings(case: &Case) -> Result<(), String> {
    known_case(case, &["domain", "shape", "minCeiling", "maxCeiling"], &["priorities", "saturation"])?;
    known(&case.expected, &["ceilings", "error"])?;
    let mut priorities: Vec<i32> = Vec::new();
    for number in case.input["priorities"].as_array().into_iter().flatten() {
        let priority = number.as_i64().and_then(|number| i32::try_from(number).ok());
        priorities.push(priority.ok_or_else(|| format!("unknown priority {number}"))?);
    }
    if case.is_of_parameters() {
        return refused(case, spread(&case.params, &mut vec![0]));
    }
    let expected = list(&case.expected, "ceilings")?;
    if list(&case.input, "priorities")?.is_empty() && expected.is_empty() {
        // Nobody asks; ours cannot be made of nothing.
        return Ok(());
    }
    let ceilings = spread(&case.params, &mut priorities)?;
    let found: Vec<f64> = priorities.iter().map(|priority| ceilings.of(*priority)).collect();
    close(&found, &case.expected["ceilings"], case.tolerance)
}

fn spread(params: &Value, priorities: &mut Vec<i32>) -> Result<Ceilings, String> {
    let ceiling = |name, default: Option<f64>| {
        let given = number(params, name)?.or(default).ok_or_else(|| format!("no {name}"))?;
        Fraction::try_from(given).map_err(|error| error.to_string())
    };
    let (min, max) = (ceiling("minCeiling", None)?, ceiling("maxCeiling", Some(1.0))?);
    if !params["shape"].is_null() && params["shape"] != "linear" {
        return Err(format!("unknown shape {}", params["shape"]));
    }
    let ceilings = match params["domain"].as_str() {
        None | Some("rank") => {
            // By rank the order counts, whatever the numbers are.
            if !priorities.is_sorted_by(|higher, lower| higher > lower) {
                *priorities = (0..priorities.len() as i32).rev().collect();
            }
            Ceilings::by_rank(priorities, min, max)
        }
        Some("value") => {
            let (lowest, highest) = (priorities.iter().min(), priorities.iter().max());
            Ceilings::by_value(*lowest.ok_or("no priority")?, *highest.ok_or("no priority")?, min, max)
        }
        other => return Err(format!("unknown domain {other:?}")),
    };
    ceilings.map_err(|error| error.to_string())
}
