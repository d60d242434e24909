//! Memories of the stock plugins: what recorders keep, who goes by it, and what both must agree on.
//!
//! That it is the same object of the host is part of every agreement, as its address.

use routing_core::Memory;

use crate::cost_model::CostModel;

/// Prefills that were sent and are not worked off, in seconds of a cost model, by the learned pace of pods or not.
pub(crate) struct PrefillQueue;

impl Memory for PrefillQueue {
    type Terms = (usize, CostModel, bool);
    const NAME: &'static str = "prefill queues";
}

/// Prefills of the last minutes, in seconds of a cost model.
pub(crate) struct RecentWorkKept;

impl Memory for RecentWorkKept {
    type Terms = (usize, Proportions);
    const NAME: &'static str = "recent work";
}

/// Which pod each session is bound to.
pub(crate) struct SessionsKept;

impl Memory for SessionsKept {
    type Terms = usize;
    const NAME: &'static str = "sessions";
}

/// The order in which pods got prompts that nobody held.
pub(crate) struct ColdPrompts;

impl Memory for ColdPrompts {
    type Terms = usize;
    const NAME: &'static str = "cold prompts";
}

/// A cost model's prefill, apart from how heavy all of it weighs: a scorer may count its own prompt several times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Proportions(CostModel);

impl From<CostModel> for Proportions {
    fn from(model: CostModel) -> Self {
        Self(model)
    }
}

impl PartialEq for Proportions {
    fn eq(&self, other: &Self) -> bool {
        let of = |model: &CostModel| {
            [model.fixed, model.per_token, model.per_pair, model.per_cached].map(crate::Amount::get)
        };
        let (a, b) = (of(&self.0), of(&other.0));
        let pairs = || (0..a.len()).flat_map(|i| (0..i).map(move |j| (i, j)));
        // a and b are in proportion where every a[i] / a[j] is b[i] / b[j], as near as decimal numbers are.
        let agree = |(i, j): (usize, usize)| {
            let (one, other): (f64, f64) = (a[i] * b[j], a[j] * b[i]);
            (one - other).abs() <= 1e-6 * one.max(other)
        };
        self.0.products == other.0.products && pairs().all(agree)
    }
}
