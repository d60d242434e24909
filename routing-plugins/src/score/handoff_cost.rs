//! Handoff cost scorer: the pod that answers, and the pod that computes the prompt for it, by one price.

use kv_index::{DEFAULT_POD_WORDS, PodId};
use routing_core::{Declare, PluginError, Read, ReadPick, RoutingContext, Scorer, Scores};

use super::normalize::{self, finite};
use super::pod_rows::{ROWS, rows_of};
use crate::load::LANES;
use crate::prepare::HandoffCosts;

/// What [`HandoffCostScorer`] takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct HandoffCostScorerParameters {
    /// The earlier step whose pick answers, where this step is to compute the prompt for it; this step answers, unless given.
    pub prefill_for: Option<String>,
}

crate::parameters::setters! { HandoffCostScorerParameters {
    prefill_for: Option<String>,
} }

/// Scores by what a request costs in all, by [`HandoffCosts`]: 1 for the cheapest pod, 0 for the dearest, all 1 when equal.
///
/// - In the step that answers: the answer on the pod, and the prefill either there or on the best other one, whichever is less.
/// - In the step that computes the prompt for that pod: the prefill, and the transfer of what that pod lacks.
///
/// A [`HandoffPaysCondition`](crate::condition::HandoffPaysCondition) says whether the second step is taken.
#[derive(Clone, Copy, Debug)]
pub struct HandoffCostScorer<const W: usize = DEFAULT_POD_WORDS> {
    costs: Read<HandoffCosts>,
    answering: Option<ReadPick>,
}

impl<const W: usize> HandoffCostScorer<W> {
    /// Declares that it reads costs, and which pod answers, if that is not this step's.
    pub fn declare(declare: &mut Declare<'_>, parameters: &HandoffCostScorerParameters) -> Self {
        let answering = parameters.prefill_for.as_deref().map(|step| declare.reads_pick(step));
        Self { costs: declare.reads(), answering }
    }
}

impl<const W: usize> Scorer<W> for HandoffCostScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let (table, candidates) = (context.read(self.costs)?, scores.candidates());
        let mut rows = [[[0.0; LANES]; ROWS]; W];
        let costs = rows_of(&mut rows, candidates).as_flattened_mut();
        match self.answering {
            None => candidates.iter().for_each(|pod| costs[pod.index()] = finite(table.of(pod).serve())),
            Some(step) => table.each_prefill(context.fleet(), context.pick(step)?, candidates, |pod, cost| {
                costs[pod.index()] = finite(cost);
            }),
        }
        normalize::by_cost(scores, costs);
        Ok(())
    }

    /// The parts of the price.
    fn explain(&self, context: &RoutingContext<'_, W>, pod: PodId) -> Vec<(&'static str, f64)> {
        let Ok(table) = context.read(self.costs) else { return Vec::new() };
        let cost = table.of(pod);
        let mut figures = vec![("prefill_cost", cost.prefill)];
        if self.answering.is_none() {
            figures.push(("answer_cost", cost.answer));
            figures.extend(cost.elsewhere.is_finite().then_some(("prefill_elsewhere_cost", cost.elsewhere)));
        }
        figures
    }
}
