//! What does a decision cost beside the same decision written out by hand, without the index search?
//!
//! One filter (healthy pods), three scorers (spare requests, spare cache, region), one picker (the best three). The plan
//! made by hand is compared with the framework's before anything is timed.

use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use kv_index::{Config, Index, PodId, PodSet};
use routing_core::{
    Context, Declare, Filter, Fleet, Load, OnEmpty, Picker, PluginError, PodInfo, ProfileBuilder, Ranking, Request,
    RoutingPlan, Scorer, Scores, Totals, Trace, Workflow,
};

struct Healthy;
struct SpareRequests;
struct SpareCache;
struct Region;
struct Best;

impl Filter for Healthy {
    fn filter(&self, context: &Context<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
        Ok(candidates & context.fleet().healthy())
    }
}

impl Scorer for SpareRequests {
    fn score(&self, context: &Context<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|pod| spare_requests(context.fleet().load(pod)));
        Ok(())
    }
}

impl Scorer for SpareCache {
    fn score(&self, context: &Context<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|pod| 1.0 - context.fleet().load(pod).kv_used);
        Ok(())
    }
}

impl Scorer for Region {
    fn score(&self, context: &Context<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        let region = context.request().label("region").unwrap_or_default();
        scores.set_all(context.fleet().labelled("region", region), 1.0);
        Ok(())
    }
}

impl Picker for Best {
    fn pick(&self, _: &Context<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        totals.rank(3, ranking);
        Ok(())
    }
}

fn spare_requests(load: Load) -> f32 {
    1.0 / (1.0 + load.running as f32)
}

fn workflow() -> Workflow {
    let profile = ProfileBuilder::new("serve")
        .filter("healthy", OnEmpty::Fail, |_: &mut Declare<'_>| Healthy)
        .scorer("spare requests", 2.0, |_: &mut Declare<'_>| SpareRequests)
        .scorer("spare cache", 1.0, |_: &mut Declare<'_>| SpareCache)
        .scorer("region", 1.0, |_: &mut Declare<'_>| Region)
        .picker("best", |_: &mut Declare<'_>| Best);
    profile.build().expect("they fit together")
}

fn fleet(pods: usize) -> Fleet {
    let index: Index = Index::new(Config::default());
    let info = |at: usize| {
        let name = format!("pod-{at}");
        let load = Load { running: (at * 7 % 13) as u32, kv_used: (at * 5 % 17) as f32 / 17.0, ..Load::default() };
        let info = PodInfo::new(index.join(&name).expect("room"), &name).load(load);
        let info = info.label("region", if at % 3 == 0 { "eu" } else { "us" });
        if at % 10 == 9 { info.unhealthy() } else { info }
    };
    Fleet::new(1, (0..pods).map(info).collect::<Vec<_>>())
}

/// An idle fleet: every pod is as good as any other.
fn idle(pods: usize) -> Fleet {
    let index: Index = Index::new(Config::default());
    let name = |at: usize| format!("pod-{at}");
    Fleet::new(1, (0..pods).map(|at| PodInfo::new(index.join(&name(at)).expect("room"), &name(at))).collect::<Vec<_>>())
}

/// The same decision as one function: no slots, no boxes, no rows.
fn by_hand(request: &Request<'_>, fleet: &Fleet, best: &mut Vec<(f32, u64, PodId)>) {
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

/// What breaks ties in a workflow's first step.
fn tie(seed: u64, pod: PodId) -> u64 {
    mix(mix(seed) ^ (pod.index() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn by_pods(c: &mut Criterion) {
    let workflow = workflow();
    let (mut workspace, mut plan, mut trace) = (workflow.workspace(), RoutingPlan::default(), Trace::default());
    let mut best = Vec::new();
    let mut group = c.benchmark_group("decide");
    for pods in [64, 256] {
        let fleet = fleet(pods);
        let request = Request::new("m", Instant::now()).labels(&[("region", "eu")]).seed(7);
        workflow.decide(&mut workspace, &request, &fleet, &mut plan).expect("a plan");
        by_hand(&request, &fleet, &mut best);
        let planned: Vec<_> = plan.steps()[0].candidates.iter().map(|candidate| candidate.pod.id()).collect();
        assert_eq!(planned, best.iter().map(|(_, _, pod)| *pod).collect::<Vec<_>>(), "the same decision");
        group.bench_function(BenchmarkId::new("plain", pods), |b| {
            b.iter(|| workflow.decide(&mut workspace, black_box(&request), black_box(&fleet), &mut plan));
        });
        let idle = idle(pods);
        group.bench_function(BenchmarkId::new("all_tied", pods), |b| {
            b.iter(|| workflow.decide(&mut workspace, black_box(&request), black_box(&idle), &mut plan));
        });
        group.bench_function(BenchmarkId::new("traced", pods), |b| {
            b.iter(|| {
                workflow.decide_traced(&mut workspace, black_box(&request), black_box(&fleet), &mut plan, &mut trace)
            });
        });
        group.bench_function(BenchmarkId::new("by_hand", pods), |b| {
            b.iter(|| by_hand(black_box(&request), black_box(&fleet), &mut best));
        });
    }
    group.finish();
}

criterion_group!(benches, by_pods);
criterion_main!(benches);
