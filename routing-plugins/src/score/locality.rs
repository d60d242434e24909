//! Locality scorer: topology distance to another step's pick, or to the client.

use routing_core::{Declare, PluginError, RoutingContext, Scorer, Scores, TryReadPick};

#[cfg(feature = "serde")]
use crate::filter::checks;
use crate::parameters::Fraction;

/// What [`LocalityScorer`] takes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct LocalityParameters {
    /// The earlier step whose pick to be near to; the client, unless given.
    pub step: Option<String>,
    /// What being near means, nearest first. Unless given: the same `host` 1, `rack` 0.2, `zone` 0.05, `region` 0.02, which is
    /// about how bandwidth falls. No level is worth more than a nearer one.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "falling"))]
    pub levels: Vec<LocalityLevel>,
}

crate::parameters::setters! { LocalityParameters {
    step: Option<String>,
    levels: Vec<LocalityLevel>,
} }

/// One meaning of near.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct LocalityLevel {
    /// The label that is the same on both sides.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "checks::name"))]
    pub label: String,
    /// What that is worth.
    pub score: Fraction,
}

impl LocalityLevel {
    /// What the same value of a label is worth.
    #[must_use]
    pub fn new(label: &str, score: Fraction) -> Self {
        Self { label: label.into(), score }
    }
}

/// Levels that are in order.
#[cfg(feature = "serde")]
fn falling<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<LocalityLevel>, D::Error> {
    let levels: Vec<LocalityLevel> = checks::list(from)?;
    match levels.is_sorted_by(|near, far| near.score >= far.score) {
        true => Ok(levels),
        false => Err(serde::de::Error::custom("a level is worth more than a nearer one: the nearest is first")),
    }
}

impl Default for LocalityParameters {
    fn default() -> Self {
        let levels = [("host", 1.0), ("rack", 0.2), ("zone", 0.05), ("region", 0.02)];
        let level = |(label, score)| Fraction::new(score).map(|score| LocalityLevel::new(label, score));
        Self { step: None, levels: levels.into_iter().filter_map(level).collect() }
    }
}

/// Scores the nearest level at which a candidate is together with another step's pick or with the client: by default 1 on
/// the same host, and 0 where nothing is shared.
///
/// A level is shared if both have the same value of its label; a side without the label shares nothing. Values are
/// compared as they are, so a rack's name must not occur in two zones. If the step was skipped, or the other side has none
/// of the labels, every score stays at 0, so that other scorers decide.
#[derive(Debug)]
pub struct LocalityScorer {
    step: Option<TryReadPick>,
    levels: Vec<LocalityLevel>,
}

impl LocalityScorer {
    /// Declares that it reads an earlier step's pick, if that is what to be near to.
    pub fn declare(declare: &mut Declare<'_>, parameters: LocalityParameters) -> Self {
        let step = parameters.step.as_deref().map(|step| declare.tries_pick(step));
        Self { step, levels: parameters.levels }
    }
}

impl<const W: usize> Scorer<W> for LocalityScorer {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let fleet = context.fleet();
        let peer = match self.step {
            Some(step) => {
                let Some(peer) = context.try_pick(step)?.and_then(|pod| fleet.pod(pod)) else { return Ok(()) };
                Some(peer)
            }
            None => None,
        };
        let value = |label: &str| match peer {
            Some(peer) => peer.labels.iter().find(|(key, _)| **key == *label).map(|(_, value)| &**value),
            None => context.request().label(label),
        };
        // Farthest first: what is nearer overwrites it.
        for level in self.levels.iter().rev() {
            if let Some(value) = value(&level.label).filter(|value| !value.is_empty()) {
                scores.set_all(fleet.labelled(&level.label, value), level.score.get());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use kv_index::PodId;
    use routing_core::{
        Fleet, OnEmpty, ProfileBuilder, RoutingInput, RoutingPlan, StepBuilder, Trace, WorkflowBuilder,
    };

    use super::*;
    use crate::score::testing::Scene;

    /// Four pods: one on the host, one in the rack, one in the region, one with nothing in common.
    fn scene() -> Scene {
        let places = [
            [("host", "h1"), ("rack", "r1"), ("zone", "z1"), ("region", "eu")],
            [("host", "h2"), ("rack", "r1"), ("zone", "z1"), ("region", "eu")],
            [("host", "h3"), ("rack", "r3"), ("zone", "z3"), ("region", "eu")],
            [("host", ""), ("rack", "r4"), ("zone", "z4"), ("region", "us")],
        ];
        Scene::new(5).infos(|at, info| {
            places.get(at).into_iter().flatten().fold(info, |info, (key, value)| info.label(key, value))
        })
    }

    fn near(labels: &[(&str, &str)]) -> Vec<f32> {
        let scene = scene();
        let profile = scene.profile();
        let profile = profile
            .scorer("near", 1.0, |d: &mut Declare<'_>| LocalityScorer::declare(d, LocalityParameters::default()));
        scene.scores_of(&scene.request().labels(labels), profile)
    }

    #[test]
    fn the_nearest_shared_level_counts() {
        let client = [("host", "h1"), ("rack", "r1"), ("zone", "z1"), ("region", "eu")];
        assert_eq!(near(&client), [1.0, 0.2, 0.02, 0.0, 0.0]);
        assert_eq!(near(&client[2..]), [0.05, 0.05, 0.02, 0.0, 0.0]);
    }

    #[test]
    fn what_is_not_known_is_not_shared() {
        assert_eq!(near(&[]), [0.0; 5]);
        assert_eq!(near(&[("host", ""), ("region", "mars")]), [0.0; 5]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn levels_fall_from_the_nearest() {
        let read = |levels: &str| serde_yaml_ng::from_str::<LocalityParameters>(&format!("{{levels: {levels}}}"));
        assert_eq!(read("[{label: a, score: 1}, {label: b, score: 1}]").unwrap().levels.len(), 2);
        let rising = read("[{label: a, score: 0.1}, {label: b, score: 1}]").unwrap_err().to_string();
        assert!(rising.contains("the nearest is first"), "{rising}");
        assert!(read("[]").is_err() && read("[{label: '', score: 1}]").is_err());
    }

    struct Only(u16);

    impl routing_core::Filter for Only {
        fn filter(&self, _: &RoutingContext<'_>, _: kv_index::PodSet) -> Result<kv_index::PodSet, PluginError> {
            Ok([PodId::new(self.0)].into_iter().collect())
        }
    }

    struct First;

    impl routing_core::Picker for First {
        fn pick(
            &self,
            _: &RoutingContext<'_>,
            totals: &routing_core::Totals<'_>,
            ranking: &mut routing_core::Ranking,
        ) -> Result<(), PluginError> {
            totals.rank(1, ranking);
            Ok(())
        }
    }

    #[test]
    fn it_can_be_another_steps_pick() {
        let parameters = LocalityParameters { step: Some("decode".into()), ..LocalityParameters::default() };
        let decode = <ProfileBuilder>::new("decode")
            .filter("only", OnEmpty::Fail, |_: &mut Declare<'_>| Only(1))
            .picker("first", |_: &mut Declare<'_>| First);
        let prefill = <ProfileBuilder>::new("prefill")
            .scorer("near", 1.0, |d: &mut Declare<'_>| LocalityScorer::declare(d, parameters))
            .picker("first", |_: &mut Declare<'_>| First);
        let steps = WorkflowBuilder::new().step(StepBuilder::new("decode", decode));
        let workflow = steps.step(StepBuilder::new("prefill", prefill)).build().unwrap();
        let (scene, mut plan, mut trace) = (scene(), RoutingPlan::default(), Trace::default());
        let fleet = Fleet::new(1, scene.infos.clone());
        let request = scene.request().labels(&[("host", "h3")]);
        workflow
            .decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet).traced(&mut trace), &mut plan)
            .unwrap();
        let scores: Vec<f32> = trace.steps[1].scorers[0].scores.iter().map(|(_, score)| *score).collect();
        assert_eq!(scores, [0.2, 1.0, 0.02, 0.0, 0.0]);
    }
}
