//! Decision latency without the index search, beside the same decision by hand.
//!
//! The plan made by hand is compared with the framework's before anything is timed.

use std::hint::black_box;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use pointsman_benches::decide::{by_hand, check, fleet, idle, workflow};
use routing_core::{Request, RoutingInput, RoutingPlan, Trace};

fn by_pods(c: &mut Criterion) {
    let workflow = workflow();
    let (mut workspace, mut plan, mut trace) = (workflow.workspace(), RoutingPlan::default(), Trace::default());
    let mut best = Vec::new();
    let mut group = c.benchmark_group("decide");
    for pods in [64, 256] {
        let fleet = fleet(pods);
        let request = Request::new("m", Instant::now()).labels(&[("region", "eu")]).seed(7);
        workflow.decide(&mut workspace, RoutingInput::new(&request, &fleet), &mut plan).expect("a plan");
        by_hand(&request, &fleet, &mut best);
        assert!(check(&plan, &best), "the same decision");
        group.bench_function(BenchmarkId::new("plain", pods), |b| {
            b.iter(|| {
                workflow.decide(&mut workspace, RoutingInput::new(black_box(&request), black_box(&fleet)), &mut plan)
            });
        });
        let idle = idle(pods);
        group.bench_function(BenchmarkId::new("all_tied", pods), |b| {
            b.iter(|| {
                workflow.decide(&mut workspace, RoutingInput::new(black_box(&request), black_box(&idle)), &mut plan)
            });
        });
        group.bench_function(BenchmarkId::new("traced", pods), |b| {
            b.iter(|| {
                workflow.decide(
                    &mut workspace,
                    RoutingInput::new(black_box(&request), black_box(&fleet)).traced(&mut trace),
                    &mut plan,
                )
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
