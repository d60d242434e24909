//! A small stock of plugins, with parameters of several types.

use std::num::NonZeroUsize;

use kv_index::PodSet;
use routing_core::{
    Declare, Filter, NoParameters, Picker, PluginError, PrefixMatches, PrepareContext, Preparer, Ranking, Read,
    Registry, RoutingContext, Scorer, Scores, Totals, Write,
};
use serde::Deserialize;

use crate::common::PrefixMiss;

/// What the documents of these tests may name.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    let registered = [
        registry.preparer::<NoParameters, _>("prefix_search", |_, declare| Search(declare.writes())),
        registry.filter::<LabelParameters, _>("label", |parameters, _| Label(parameters)),
        registry.scorer::<RegionParameters, _>("region", |parameters, _| Region(parameters)),
        registry.scorer::<NoParameters, _>("cache", |_, declare| Cache(declare.reads())),
        registry.condition::<PrefixMissParameters, _>("prefix_miss", |parameters, declare| {
            PrefixMiss::declare(declare, &parameters.step, parameters.lacking)
        }),
        registry.picker::<BestParameters, _>("best", |parameters, _: &mut Declare<'_>| Best(parameters)),
    ];
    assert_eq!(registered, [const { Ok(()) }; 6]);
    registry
}

struct Search(Write<PrefixMatches>);

impl Preparer for Search {
    fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        context.write(self.0)?;
        Ok(())
    }
}

#[derive(Deserialize)]
struct LabelParameters {
    key: String,
    value: String,
}

struct Label(LabelParameters);

impl Filter for Label {
    fn filter(&self, context: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
        Ok(context.fleet().labelled(&self.0.key, &self.0.value) & candidates)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RegionParameters {
    region: String,
    elsewhere: f32,
    near: Vec<String>,
    mode: Mode,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Strict,
    Lenient,
}

struct Region(RegionParameters);

impl Scorer for Region {
    fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        let elsewhere = if matches!(self.0.mode, Mode::Strict) { 0.0 } else { self.0.elsewhere };
        scores.fill(|_| elsewhere);
        for region in self.0.near.iter().chain([&self.0.region]) {
            scores.set_all(context.fleet().labelled("region", region), 1.0);
        }
        Ok(())
    }
}

struct Cache(Read<PrefixMatches>);

impl Scorer for Cache {
    fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        let held = context.read(self.0)?;
        scores.fill(|pod| held.depth(pod) as f32 / held.blocks().max(1) as f32);
        Ok(())
    }
}

#[derive(Deserialize)]
struct PrefixMissParameters {
    step: String,
    lacking: usize,
}

#[derive(Deserialize)]
#[serde(default)]
struct BestParameters {
    most: NonZeroUsize,
}

impl Default for BestParameters {
    fn default() -> Self {
        Self { most: NonZeroUsize::MIN }
    }
}

struct Best(BestParameters);

impl Picker for Best {
    fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        totals.rank(self.0.most.get(), ranking);
        Ok(())
    }
}
