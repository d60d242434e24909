//! Small plugins around the one that a case is about.

use kv_index::{PodId, PodSet};
use routing_core::{
    Filter, Picker, PluginError, PrepareContext, Preparer, Ranking, RoutingContext, Scorer, Scores, Slot, Totals, Write,
};

/// Writes what a function makes.
pub(crate) struct Given<S, F>(pub(crate) Write<S>, pub(crate) F);

impl<S: Slot, F: Fn() -> S::Value + Send + Sync> Preparer for Given<S, F> {
    fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        Ok(context.put(self.0, (self.1)())?)
    }
}

/// Keeps pods by their number.
pub(crate) struct Only(pub(crate) Vec<usize>);

impl Filter for Only {
    fn filter(&self, _: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
        let kept: PodSet = self.0.iter().map(|at| PodId::new(*at as u16)).collect();
        Ok(candidates & kept)
    }
}

/// The same score for all.
pub(crate) struct Even(pub(crate) f32);

impl Scorer for Even {
    fn score(&self, _: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|_| self.0);
        Ok(())
    }
}

pub(crate) struct Best;

impl Picker for Best {
    fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        totals.rank(1, ranking);
        Ok(())
    }
}
