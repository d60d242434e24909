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

use super::given::{as_expected, kept, known, list, number, profile, whole, with_loads};
use crate::case::{Case, close, fleet, request};

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

/// The limits and the pods' reports; where one is missing there is no age.
fn utilization(case: &Case) -> Result<(UtilizationParameters, Vec<PodLoad>), String> {
    known(&case.params, &["queueDepthThreshold", "kvCacheUtilThreshold", "metricsStalenessThresholdMs", "headroom"])?;
    known(&case.input, &["endpoints"])?;
    let parameters = UtilizationParameters {
        waiting: positive(&case.params, "queueDepthThreshold", 5.0)?,
        kv_used: positive(&case.params, "kvCacheUtilThreshold", 0.8)?,
        headroom: headroom(&case.params)?,
        unreported: Unreported::Remove,
    };
    let mut loads = Vec::new();
    for endpoint in list(&case.input, "endpoints")? {
        let mut load = PodLoad::default();
        if !endpoint.is_null() {
            known(endpoint, &["queue", "kv", "stale"])?;
            load.waiting = whole(endpoint, "queue")?.unwrap_or_default() as u32;
            load.kv_used = number(endpoint, "kv")?.unwrap_or_default() as f32;
            // Figures of a stale report stay, as the tracker leaves them.
            (load.age, load.stale) = (Some(Duration::ZERO), endpoint["stale"] == true);
        }
        loads.push(load);
    }
    Ok((parameters, loads))
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

/// The limits that their mode goes by, and what is in flight.
fn concurrency(case: &Case) -> Result<(Vec<InFlightLimit>, Vec<PodLoad>), String> {
    known(&case.params, &["mode", "maxConcurrency", "maxTokenConcurrency", "headroom"])?;
    known(&case.input, &["inflight_requests", "inflight_tokens"])?;
    let requests = whole(&case.params, "maxConcurrency")?.unwrap_or(100);
    let requests = u32::try_from(requests).ok().and_then(NonZeroU32::new).map(InFlightLimit::Requests);
    let tokens = NonZeroU64::new(whole(&case.params, "maxTokenConcurrency")?.unwrap_or(1_000_000));
    let tokens = tokens.map(InFlightLimit::Tokens);
    let limits = match case.params["mode"].as_str() {
        None | Some("requests") => vec![requests],
        Some("tokens") => vec![tokens],
        Some("hybrid") => vec![requests, tokens],
        other => return Err(format!("unknown mode {other:?}")),
    };
    let limits = limits.into_iter().collect::<Option<Vec<_>>>().ok_or("unknown limit of 0")?;
    let figures = |name| if case.input[name].is_null() { Ok(&[][..]) } else { list(&case.input, name) };
    let (requests, tokens) = (figures("inflight_requests")?, figures("inflight_tokens")?);
    let figure = |list: &[Value], at: usize| match list.get(at) {
        None => Ok(0),
        Some(number) => number.as_u64().ok_or_else(|| format!("no whole number: {number}")),
    };
    let mut loads = Vec::new();
    for at in 0..requests.len().max(tokens.len()) {
        let mut load = PodLoad::default();
        load.in_flight.requests = figure(requests, at)? as u32;
        load.in_flight.prompt_tokens = figure(tokens, at)?;
        loads.push(load);
    }
    Ok((limits, loads))
}

pub(super) fn concurrency_filter(case: &Case) -> Result<(), String> {
    let (limits, loads) = concurrency(case)?;
    let (count, headroom) = (loads.len(), headroom(&case.params)?);
    let (_, fleet) = fleet(count, |_, pod| pod);
    let mut passed: Vec<usize> = (0..count).collect();
    // Two limits are two filters, one after the other.
    for limit in limits {
        let parameters = ConcurrencyParameters { limit, headroom, figures: Figures::Counted };
        let profile = with_loads(profile("serve"), loads.clone());
        let filter = move |d: &mut routing_core::Declare<'_>| ConcurrencyFilter::declare(d, parameters);
        let kept = kept(profile, &request(), &fleet, OnEmpty::Fail, filter)?;
        passed.retain(|pod| kept.contains(pod));
    }
    // Theirs fails open where nobody passes both.
    let kept = if passed.is_empty() { (0..count).collect() } else { passed };
    as_expected(case, &kept)
}

pub(super) fn concurrency_saturation(case: &Case) -> Result<(), String> {
    let (limits, loads) = concurrency(case)?;
    is_saturated_by(case, saturation::by_concurrency(&limits, Figures::Counted, loads))
}

pub(super) fn ceilings(case: &Case) -> Result<(), String> {
    known(&case.params, &["domain", "minCeiling", "maxCeiling"])?;
    known(&case.input, &["priorities"])?;
    known(&case.expected, &["ceilings"])?;
    list(&case.expected, "ceilings")?;
    let ceiling = |name, default| {
        Fraction::try_from(number(&case.params, name)?.unwrap_or(default)).map_err(|error| error.to_string())
    };
    let (min, max) = (ceiling("minCeiling", 0.0)?, ceiling("maxCeiling", 1.0)?);
    let numbers = list(&case.input, "priorities")?;
    let mut priorities: Vec<i32> = Vec::new();
    for number in numbers {
        let priority = number.as_i64().and_then(|number| i32::try_from(number).ok());
        priorities.push(priority.ok_or_else(|| format!("unknown priority {number}"))?);
    }
    let ceilings = match case.params["domain"].as_str() {
        Some("rank") => {
            // By rank the order counts, whatever the numbers are.
            if !priorities.is_sorted_by(|higher, lower| higher > lower) {
                priorities = (0..priorities.len() as i32).rev().collect();
            }
            Ceilings::by_rank(&priorities, min, max)
        }
        Some("value") => {
            let (lowest, highest) = (priorities.iter().min(), priorities.iter().max());
            Ceilings::by_value(*lowest.ok_or("no priority")?, *highest.ok_or("no priority")?, min, max)
        }
        other => return Err(format!("unknown domain {other:?}")),
    };
    let ceilings = ceilings.map_err(|error| error.to_string())?;
    let found: Vec<f64> = priorities.iter().map(|priority| ceilings.of(*priority)).collect();
    close(&found, &case.expected["ceilings"], case.tolerance)
}
