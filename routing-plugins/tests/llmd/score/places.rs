//! Scorers of labels.

use routing_core::Declare;
use routing_plugins::extra::ContextRangeParameters;
use routing_plugins::extra::ContextRangeScorer;
use routing_plugins::score::{LocalityParameters, LocalityScorer};
use serde_json::Value;

use super::super::case::Case;
use super::expect::expect;
use super::known;
use super::setup::Setup;

pub(crate) fn context_range(case: &Case) -> Result<(), String> {
    known(case, &["label"], &["context_length", "ranges"])?;
    let ranges = case.input["ranges"].as_array().ok_or("no ranges")?;
    let label = case.params["label"].as_str().unwrap_or("llm-d.ai/context-length-range").to_owned();
    if let Some(odd) = ranges.iter().find(|range| !range.is_null() && !range.is_string()) {
        return Err(format!("unknown range {odd}"));
    }
    let length = case.input["context_length"].as_u64().ok_or("no length")? as usize;
    let setup = Setup::of(ranges.len(), |at, info| match ranges[at].as_str() {
        Some(range) => info.label(&label, range),
        None => info,
    });
    let parameters = ContextRangeParameters { label: label.into() };
    expect(case, &setup.prompt(length, 16).scores(move |d| ContextRangeScorer::declare(d, parameters))?)
}

/// Their peer's topology is ours as labels; where that comes from, a step's pick or the client, is no part of the score.
pub(crate) fn topology(case: &Case) -> Result<(), String> {
    known(case, &[], &["peer", "candidates"])?;
    let peer = labels(&case.input["peer"])?;
    let candidates: Vec<_> = match &case.input["candidates"] {
        Value::Number(count) => vec![Vec::new(); count.as_u64().ok_or("unknown candidates")? as usize],
        Value::Array(list) => list.iter().map(labels).collect::<Result<_, _>>()?,
        other => return Err(format!("unknown candidates {other}")),
    };
    let setup = Setup::of(candidates.len(), |at, info| {
        candidates[at].iter().fold(info, |info, (key, value)| info.label(key, value))
    });
    let peer: Vec<(&str, &str)> = peer.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let near = |d: &mut Declare<'_>| LocalityScorer::declare(d, LocalityParameters::default());
    expect(case, &setup.scores_of(&setup.request().labels(&peer), setup.profile().scorer("near", 1.0, near))?)
}

fn labels(topology: &Value) -> Result<Vec<(&'static str, String)>, String> {
    let topology = match topology {
        Value::Null => return Ok(Vec::new()),
        topology => topology.as_object().ok_or(format!("unknown topology {topology}"))?,
    };
    let label = |(key, value): (&String, &Value)| {
        let key = match key.as_str() {
            "host" | "hostname" => "host",
            "rack" => "rack",
            "zone" => "zone",
            "region" => "region",
            other => return Err(format!("unknown level `{other}`")),
        };
        Ok((key, value.as_str().ok_or(format!("unknown place {value}"))?.to_owned()))
    };
    topology.iter().map(label).collect()
}
