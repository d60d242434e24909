//! Scorers of labels.

use routing_core::Declare;
use routing_plugins::extra::ContextRangeParameters;
use routing_plugins::extra::ContextRangeScorer;
use routing_plugins::score::{LocalityParameters, LocalityScorer};

use super::expect::{expect, expect_named};
use super::setup::Setup;
use crate::case::Case;
use crate::read::known_case;
use crate::topology::{self, Places};

pub(crate) fn context_range(case: &Case) -> Result<(), String> {
    known_case(case, &["label", "enableFiltering"], &["context_length", "ranges"])?;
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
    let parameters = ContextRangeParameters::default().label(label.into());
    expect(case, &setup.prompt(length, 16).scores(move |d| ContextRangeScorer::declare(d, parameters))?)
}

/// Their peer's topology is ours as labels; where that comes from, a step's pick or the client, is no part of the score.
pub(crate) fn topology(case: &Case) -> Result<(), String> {
    known_case(case, &[], &topology::INPUTS)?;
    let places = Places::read(&case.input)?;
    let setup = Setup::of(places.candidates.len(), |at, info| places.label(at, info));
    let near = |d: &mut Declare<'_>| LocalityScorer::declare(d, LocalityParameters::default());
    let profile = setup.profile().scorer("near", 1.0, near);
    let scores = setup.scores_of(&setup.request().labels(&places.peer()), profile)?;
    expect_named(case, &scores, &places.levels)
}
