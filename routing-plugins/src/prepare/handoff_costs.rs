//! Handoff costs: what a request costs on each pod by its prefill and by its answer, where another pod may compute the prompt
//! (disaggregated prefill).
//!
//! Both are parts of one price, that of [`TotalLatencyScorer`](crate::score::TotalLatencyScorer): so whether one pod does all or two
//! part the work is decided as which pod does it.

mod reuse;

use std::sync::Arc;

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};
use routing_core::{
    Declare, Fleet, OpenBreakers, PluginError, PodInfo, PrepareContext, Preparer, Role, RoutingContext, Slot, Write,
};

#[cfg(feature = "serde")]
use crate::filter::checks;
use crate::load::LANES;
use crate::parameters::{Amount, Fraction, parameters};
use crate::plugin_state::PluginState;
use crate::score::{PromptReads, ROWS, TotalLatency, TotalLatencyParameters, rows_of};
use reuse::Reuse;

/// What a request costs on every pod, by parts. Written by [`HandoffCostPreparer`].
#[derive(Debug)]
pub struct HandoffCosts;

impl Slot for HandoffCosts {
    type Value = HandoffCostTable;
    const NAME: &'static str = "request.handoff_costs";

    fn clear(value: &mut HandoffCostTable) {
        value.pods.clear();
    }
}

/// What a request costs on a pod, in seconds that it adds to all answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "parts of one price, side by side for many pods")]
pub struct HandoffCost {
    /// Its prefill there.
    pub prefill: f64,
    /// Its answer there.
    pub answer: f64,
    /// Its prefill on the pod that does that cheapest beside this one, the transfer of what this one lacks, and what that pushes out; infinite if there
    /// is no other.
    pub elsewhere: f64,
    /// What a transfer pushes out of the cache there, as far as what is held is asked for again.
    pub pushed_out: f64,
    /// Tokens of the prompt that are not held there.
    pub lacking: f64,
}

impl HandoffCost {
    /// Whether the prompt is better computed on another pod.
    #[must_use]
    pub fn is_apart(&self) -> bool {
        self.elsewhere < self.prefill
    }

    /// The whole request, where this pod answers.
    #[must_use]
    pub fn serve(&self) -> f64 {
        self.answer + self.prefill.min(self.elsewhere)
    }
}

/// What a request costs on every pod of a fleet, by pod.
#[derive(Clone, Debug, Default)]
pub struct HandoffCostTable {
    pods: Vec<HandoffCost>,
    network: Option<Arc<Network>>,
}

impl HandoffCostTable {
    /// The costs on a pod of the fleet.
    #[must_use]
    pub fn of(&self, pod: PodId) -> HandoffCost {
        self.pods.get(pod.index()).copied().unwrap_or_default()
    }

    /// Hands out what a prefill for a pod that answers costs on each candidate, transfer included.
    pub(crate) fn each_prefill<const W: usize>(
        &self,
        fleet: &Fleet<W>,
        answering: PodId,
        candidates: PodSet<W>,
        mut each: impl FnMut(PodId, f64),
    ) {
        let HandoffCost { lacking, pushed_out, .. } = self.of(answering);
        let price = |pods: PodSet<W>, transfer: f64, each: &mut dyn FnMut(PodId, f64)| {
            for pod in pods & candidates {
                let moved = if pod == answering { 0.0 } else { pushed_out + transfer };
                each(pod, self.of(pod).prefill + moved);
            }
        };
        match (&self.network, fleet.pod(answering)) {
            (Some(network), Some(info)) => network.by_distance(fleet, info, |pods, per_token| {
                price(pods, network.seconds(lacking, per_token), &mut each)
            }),
            _ => price(fleet.pods(), 0.0, &mut each),
        }
    }
}

/// What a transfer takes.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct Network {
    /// Seconds that a handoff takes however little is moved: the way between the pods, and a step of the one that answers; 0.01, unless given.
    pub fixed: Amount,
    /// Seconds for each token; 2.6e-6, unless given: 128 KiB, which an 8B model has, over 400 Gb/s.
    pub per_token: Amount,
    /// Where it is faster or slower than that, nearest first: pods that have the same value of a label. None, unless given.
    pub near: Vec<NetworkLevel>,
}

crate::parameters::setters! { Network {
    fixed: Amount,
    per_token: Amount,
    near: Vec<NetworkLevel>,
} }

impl Default for Network {
    fn default() -> Self {
        Self { fixed: Amount::constant(0.01), per_token: Amount::constant(2.6e-6), near: Vec::new() }
    }
}

/// What a transfer takes between pods that have the same value of a label.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct NetworkLevel {
    /// The label.
    #[cfg_attr(feature = "serde", serde(deserialize_with = "checks::name"))]
    pub label: String,
    /// Seconds for each token.
    pub per_token: Amount,
}

impl NetworkLevel {
    /// What a token takes where a label is the same.
    #[must_use]
    pub fn new(label: &str, per_token: Amount) -> Self {
        Self { label: label.into(), per_token }
    }
}

impl Network {
    /// Seconds that it takes to move so many tokens.
    fn seconds(&self, tokens: f64, per_token: f64) -> f64 {
        self.fixed.get() + tokens * per_token
    }

    /// Hands out every pod of the fleet once, with the seconds that a token takes between it and this one.
    fn by_distance<const W: usize>(&self, fleet: &Fleet<W>, pod: &PodInfo, mut each: impl FnMut(PodSet<W>, f64)) {
        let mut left = fleet.pods();
        for level in &self.near {
            let value = pod.labels.iter().find(|(key, _)| **key == *level.label).map(|(_, value)| &**value);
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                let near = fleet.labelled(&level.label, value) & left;
                each(near, level.per_token.get());
                left = left - near;
            }
        }
        each(left, self.per_token.get());
    }
}

parameters! {
    /// What [`HandoffCostPreparer`] takes.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HandoffCostParameters {
        /// The price of requests. A [`PrefillQueueRecorder`](crate::record::PrefillQueueRecorder) takes the same cost model. A second of others' answers
        /// counts 0.3 by itself unless given, more than where one pod does all: a prompt that delays them can go elsewhere.
        pub price: TotalLatencyParameters = TotalLatencyParameters::default(),
        /// What it takes to move a prompt's blocks from one pod to another.
        pub network: Network = Network::default(),
        /// How soon pods part into those that compute prompts and those that answer: what part of the time that prompts take on a pod counts for an
        /// answer there as on one that computes none; the rest counts by how much more it is than on others. 0.5, unless given.
        pub parting: Fraction = const { Fraction::constant(0.5) },
    }
}

/// Writes [`HandoffCosts`]: what the request costs on each pod, and what its prefill would cost on the best other one.
///
/// The pod that computes for another is one that serves [`Role::Prefill`], may be sent the request, is well, takes something new and has its breaker closed.
#[derive(Debug)]
pub struct HandoffCostPreparer<const W: usize = DEFAULT_POD_WORDS> {
    price: TotalLatency<W>,
    network: Arc<Network>,
    open_breakers: Arc<OpenBreakers<W>>,
    prompt: PromptReads<W>,
    reuse: Reuse,
    costs: Write<HandoffCosts>,
}

impl<const W: usize> HandoffCostPreparer<W> {
    /// Declares that it reads loads and who holds the prompt, and writes costs.
    pub fn declare(declare: &mut Declare<'_>, parameters: HandoffCostParameters, state: &PluginState<W>) -> Self {
        Self {
            price: TotalLatency::declare(declare, parameters.price, state).parting(parameters.parting),
            network: Arc::new(parameters.network),
            open_breakers: Arc::clone(&state.open_breakers),
            prompt: PromptReads::declare(declare),
            reuse: Reuse::default(),
            costs: declare.writes(),
        }
    }

    /// Pods that may compute a prompt for another.
    fn prefillers(&self, context: &RoutingContext<'_, W>) -> PodSet<W> {
        let fleet = context.fleet();
        let takers = fleet.serving(Role::Prefill) - context.excluded() - fleet.draining() - self.open_breakers.opened();
        let well = takers & fleet.healthy();
        let takers = if well.is_empty() { takers & fleet.fallback() } else { well };
        takers - self.open_breakers.left_out(takers, context.request().seed)
    }

    /// Adds what the prefill costs on another pod.
    fn add_elsewhere(&self, context: &RoutingContext<'_, W>, table: &mut [HandoffCost]) {
        let fleet = context.fleet();
        // The cheapest, and the one that is for the cheapest itself.
        let mut best: [Option<(PodId, f64)>; 2] = [None; 2];
        for pod in self.prefillers(context) {
            let cost = table[pod.index()].prefill;
            if best[0].is_none_or(|(_, least)| cost < least) {
                best = [Some((pod, cost)), best[0]];
            } else if best[1].is_none_or(|(_, second)| cost < second) {
                best[1] = Some((pod, cost));
            }
        }
        let [first, second] = best;
        let mut from = |other: Option<(PodId, f64)>, pods: PodSet<W>| {
            let Some((info, cost)) = other.and_then(|(pod, cost)| Some((fleet.pod(pod)?, cost))) else { return };
            self.network.by_distance(fleet, info, |near, per_token| {
                for pod in near & pods {
                    let cell = &mut table[pod.index()];
                    cell.elsewhere = cost + cell.pushed_out + self.network.seconds(cell.lacking, per_token);
                }
            });
        };
        let cheapest: PodSet<W> = first.iter().map(|(pod, _)| *pod).collect();
        from(first, fleet.pods() - cheapest);
        from(second, cheapest);
    }
}

impl<const W: usize> Preparer<W> for HandoffCostPreparer<W> {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let pods = context.fleet().pods();
        let [mut costs, mut answers] = [[[[0.0; LANES]; ROWS]; W]; 2];
        let [costs, answers] = [&mut costs, &mut answers].map(|rows| rows_of(rows, pods));
        self.price.costs(&context.view(), pods, costs, answers)?;
        // Taken out of its slot, so that what is read beside it is all there; its memory stays.
        let mut table = std::mem::take(context.write(self.costs)?.1);
        let view = context.view();
        let parts = costs.as_flattened().iter().zip(answers.as_flattened());
        table.pods.reserve(PodSet::<W>::CAPACITY);
        table.pods.extend(parts.map(|(&cost, &answer)| HandoffCost {
            prefill: cost - answer,
            answer,
            elsewhere: f64::INFINITY,
            pushed_out: 0.0,
            lacking: 0.0,
        }));
        let prompt = self.prompt.read(&view)?;
        let reused = self.reuse.of(&prompt, pods);
        prompt.by_depth(pods, |pods, depth| {
            let lacking = prompt.uncached(depth) as f64;
            let pushed_out = reused * self.price.pushed_out(prompt.tokens as f64, lacking);
            pods.iter().for_each(|pod| {
                let cost = &mut table.pods[pod.index()];
                (cost.lacking, cost.pushed_out) = (lacking, pushed_out);
            });
        });
        self.add_elsewhere(&view, &mut table.pods);
        if !table.network.as_ref().is_some_and(|network| Arc::ptr_eq(network, &self.network)) {
            table.network = Some(Arc::clone(&self.network));
        }
        context.put(self.costs, table)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
