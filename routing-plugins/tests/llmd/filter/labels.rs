//! Their filters of labels: roles, selectors, one label's values, and topology.

use routing_core::{OnEmpty, Role};
use routing_plugins::extra::{LabelFilter, LabelParameters, LabelSelector};
use routing_plugins::filter::{RoleFilter, RoleParameters, Unlabelled};
use serde_json::Value;

use super::given::{as_expected, kept, profile};
use crate::case::{Case, fleet, request};
use crate::read::{flag, known, known_case, list, refused, texts};
use crate::topology;

pub(super) fn role(case: &Case) -> Result<(), String> {
    known_case(case, &[], &["role_label"])?;
    let labels = list(&case.input, "role_label")?;
    if let Some(odd) = labels.iter().find(|label| !label.is_null() && !label.is_string()) {
        return Err(format!("unknown label {odd}"));
    }
    let (_, fleet) =
        fleet(labels.len(), |at, pod| labels[at].as_str().into_iter().fold(pod, |pod, role| pod.label("role", role)));
    // Only for decode does theirs take a pod without a label for one that does both.
    let (role, unlabelled) = match &*case.plugin {
        "prefill-filter" => (Role::Prefill, Unlabelled::None),
        "encode-filter" => (Role::Encode, Unlabelled::None),
        _ => (Role::Decode, Unlabelled::Both),
    };
    let parameters = RoleParameters::new(role).label("role").unlabelled(unlabelled);
    let kept = kept(profile("serve"), &request(), &fleet, OnEmpty::Fail, |d| RoleFilter::declare(d, parameters))?;
    as_expected(case, &kept)
}

/// A selector as text, or as the two lists that Kubernetes objects have.
pub(super) fn label_selector(case: &Case) -> Result<(), String> {
    known_case(case, &["selector", "matchLabels", "matchExpressions"], &["labels"])?;
    let lists = if case.params["selector"].is_object() { &case.params["selector"] } else { &case.params };
    known(lists, &["selector", "matchLabels", "matchExpressions"])?;
    for expression in lists["matchExpressions"].as_array().into_iter().flatten() {
        known(expression, &["key", "operator", "values"])?;
    }
    let selector = match &case.params["selector"] {
        Value::String(text) => text.parse::<LabelSelector>().map_err(|error| error.to_string()),
        _ => from_lists(lists),
    };
    if case.is_of_parameters() {
        return refused(case, selector);
    }
    by_selector(case, selector?)
}

/// The values that one label may have.
pub(super) fn by_label(case: &Case) -> Result<(), String> {
    known_case(case, &["label", "validValues", "allowsNoLabel"], &["labels"])?;
    let selector = by_values(&case.params);
    if case.is_of_parameters() {
        return refused(case, selector);
    }
    by_selector(case, selector?)
}

fn by_values(params: &Value) -> Result<LabelSelector, String> {
    let label = params["label"].as_str().filter(|label| !label.is_empty()).ok_or("no label")?;
    let values = if params["validValues"].is_null() { Vec::new() } else { texts(&params["validValues"])? };
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    match (values.is_empty(), flag(params, "allowsNoLabel")?) {
        (true, false) => Err("nobody is left".into()),
        (true, true) => Ok(LabelSelector::default().absent(label)),
        // One selector does not say "or none".
        (false, _) => Ok(LabelSelector::default().within(label, &values)),
    }
}

fn by_selector(case: &Case, selector: LabelSelector) -> Result<(), String> {
    let pods = list(&case.input, "labels")?.iter().map(pairs).collect::<Result<Vec<_>, _>>()?;
    let (_, fleet) = fleet(pods.len(), |at, pod| pods[at].iter().fold(pod, |pod, (key, value)| pod.label(key, value)));
    let parameters = LabelParameters::new(selector);
    let kept = kept(profile("serve"), &request(), &fleet, OnEmpty::Fail, |d| LabelFilter::declare(d, parameters))?;
    as_expected(case, &kept)
}

/// Near enough is the same place at one level; where that comes from, a step's pick or the client, is no part of it.
pub(super) fn topology(case: &Case) -> Result<(), String> {
    known_case(case, &["minAffinity"], &topology::INPUTS)?;
    let level = match case.params["minAffinity"].as_str() {
        None if case.params["minAffinity"].is_null() => Ok("host"),
        Some(level) if topology::LEVELS.contains(&level) => Ok(level),
        _ => Err("no such level"),
    };
    if case.is_of_parameters() {
        return refused(case, level);
    }
    let (level, places) = (level?, topology::Places::read(&case.input)?);
    let (_, fleet) = fleet(places.candidates.len(), |at, pod| places.label(at, pod));
    let parameters = LabelParameters::default().same_label_as_client(level, level);
    let peer = places.peer();
    let kept = kept(profile("serve"), &request().labels(&peer), &fleet, OnEmpty::KeepPrevious, |d| {
        LabelFilter::declare(d, parameters)
    })?;
    as_expected(case, &kept)
}

fn pairs(labels: &Value) -> Result<Vec<(&str, &str)>, String> {
    if labels.is_null() {
        return Ok(Vec::new());
    }
    let labels = labels.as_object().ok_or_else(|| format!("unknown labels {labels}"))?;
    labels
        .iter()
        .map(|(key, value)| Ok((key.as_str(), value.as_str().ok_or_else(|| format!("unknown label {value}"))?)))
        .collect()
}

fn from_lists(lists: &Value) -> Result<LabelSelector, String> {
    let same = pairs(&lists["matchLabels"])?;
    let mut selector = same.iter().fold(LabelSelector::default(), |selector, (key, value)| selector.equal(key, value));
    for given in lists["matchExpressions"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let key = given["key"].as_str().ok_or("no key")?;
        let values = if given["values"].is_null() { Vec::new() } else { texts(&given["values"])? };
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        selector = match given["operator"].as_str() {
            Some("In") => selector.within(key, &values),
            Some("NotIn") => selector.without(key, &values),
            Some("Exists") => selector.present(key),
            Some("DoesNotExist") => selector.absent(key),
            other => return Err(format!("unknown operator {other:?}")),
        };
    }
    Ok(selector)
}
