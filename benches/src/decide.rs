//! Decision workload: one filter, three scorers, one picker, and the same written out by hand.
//!
//! The filter takes healthy pods, the scorers weigh spare requests, spare cache and the region, and the picker takes the
//! best three. The rule: both decide alike, which [`check`] sees to before anything is timed.

use kv_index::{Config, Index, PodId, PodSet};
use pointsman_test_support::splitmix64;
use routing_core::{
    Declare, Filter, Fleet, Load, OnEmpty, Picker, PluginError, PodInfo, ProfileBuilder, Ranking, Request,
    RoutingContext, RoutingPlan, Scorer, Scores, Totals, Workflow,
};

use crate::ours::Ours;
use crate::system::System;

struct Healthy;
struct SpareRequests;
struct SpareCache;
struct Region;
struct Best;

impl Filter for Healthy {
    fn filter(&self, context: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
        Ok(candidates & context.fleet().healthy())
    }
}

impl Scorer for SpareRequests {
    fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|pod| spare_requests(context.fleet().load(pod)));
        Ok(())
    }
}

impl Scorer for SpareCache {
    fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|pod| 1.0 - context.fleet().load(pod).kv_used);
        Ok(())
    }
}

impl Scorer for Region {
    fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        let region = context.request().label("region").unwrap_or_default();
        scores.set_all(context.fleet().labelled("region", region), 1.0);
        Ok(())
    }
}

impl Picker for Best {
    fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        totals.rank(3, ranking);
        Ok(())
    }
}

fn spare_requests(load: Load) -> f32 {
    1.0 / (1.0 + load.running as f32)
}

/// The decision by plugins.
///
/// # Panics
///
/// If they do not fit together, which they do.
#[must_use]
pub fn workflow() -> Workflow {
    let profile = ProfileBuilder::new("serve")
        .filter("healthy", OnEmpty::Fail, |_: &mut Declare<'_>| Healthy)
        .scorer("spare requests", 2.0, |_: &mut Declare<'_>| SpareRequests)
        .scorer("spare cache", 1.0, |_: &mut Declare<'_>| SpareCache)
        .scorer("region", 1.0, |_: &mut Declare<'_>| Region)
        .picker("best", |_: &mut Declare<'_>| Best);
    profile.build().expect("they fit together").into()
}

/// A fleet whose pods differ in load, health and region.
///
/// # Panics
///
/// If there are more pods than an index has room for.
#[must_use]
pub fn fleet(pods: usize) -> Fleet {
    let index: Index = Index::new(Config::default());
    let info = |at: usize| {
        let name = format!("pod-{at}");
        let info = PodInfo::new(index.join(&name).expect("room"), &name).load(uneven_load(at));
        let info = info.label("region", if at % 3 == 0 { "eu" } else { "us" });
        if at % 10 == 9 { info.unhealthy() } else { info }
    };
    Fleet::new(1, (0..pods).map(info).collect::<Vec<_>>())
}

/// A load that differs from pod to pod.
#[must_use]
pub fn uneven_load(pod: usize) -> Load {
    Load { running: (pod * 7 % 13) as u32, kv_used: (pod * 5 % 17) as f32 / 17.0, ..Load::default() }
}

/// An idle fleet: every pod is as good as any other.
///
/// # Panics
///
/// If there are more pods than an index has room for.
#[must_use]
pub fn idle(pods: usize) -> Fleet {
    Ours::new(pods, 1).fleet(|_| Load::default())
}

/// The same decision as one function: no slots, no boxes, no rows.
pub fn by_hand(request: &Request<'_>, fleet: &Fleet, best: &mut Vec<(f32, u64, PodId)>) {
    best.clear();
    let near = fleet.labelled("region", request.label("region").unwrap_or_default());
    for (at, word) in (fleet.pods() & fleet.healthy()).words().iter().enumerate() {
        let mut bits = *word;
        while bits != 0 {
            let pod = PodId::new((at * 64) as u16 + bits.trailing_zeros() as u16);
            bits &= bits - 1;
            let load = fleet.load(pod);
            let near = if near.contains(pod) { 1.0 } else { 0.0 };
            let total = 0.5 * spare_requests(load) + 0.25 * (1.0 - load.kv_used) + 0.25 * near;
            if best.len() == 3 && best[2].0 > total {
                continue;
            }
            let key = (total, tie(request.seed, pod), pod);
            let place = best.iter().position(|other| (other.0, other.1) < (key.0, key.1)).unwrap_or(best.len());
            best.insert(place, key);
            best.truncate(3);
        }
    }
}

/// Whether a plan and the decision by hand are the same.
#[must_use]
pub fn check(plan: &RoutingPlan, best: &[(f32, u64, PodId)]) -> bool {
    plan.steps()[0].candidates.iter().map(|candidate| candidate.pod.id()).eq(best.iter().map(|(_, _, pod)| *pod))
}

/// What breaks ties in a workflow's first step.
fn tie(seed: u64, pod: PodId) -> u64 {
    splitmix64(splitmix64(seed) ^ (pod.index() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
