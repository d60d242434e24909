//! What flow control costs while nothing waits: no allocation, and some looks at the pod that was chosen.

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use pointsman::core::flow::{BandConfig, FlowConfig, FlowControl};
use pointsman::exec::DispatchHost;
use pointsman::plugins::flow::{
    ConcurrencyDetector, ConcurrencyLimits, PredictedWaitDetector, PredictedWaitParameters, UtilizationDetector,
    UtilizationLimits,
};
use pointsman::{FlowClass, LlmRequest, PodSpec, Prepared, Router};
use pointsman_test_support::alloc::{self, CountingAllocator};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// A router of 64 pods, with flow control by three detectors or without.
fn router(has_flow: bool) -> Router {
    let pods = (0..64).map(|at| PodSpec::new(format!("pod-{at}"), format!("http://pod-{at}")));
    let builder = Router::builder("m").pods(pods).seed(1);
    let builder = match has_flow {
        true => builder.flow_control(|state| {
            let config = FlowConfig::default().band(BandConfig::new("a").priority(1)).band(BandConfig::new("b"));
            Ok(FlowControl::new(config)
                .detector(PredictedWaitDetector::new(PredictedWaitParameters::default(), state))
                .detector(UtilizationDetector::new(UtilizationLimits::default(), state))
                .detector(ConcurrencyDetector::new(ConcurrencyLimits::default(), state)))
        }),
        false => builder,
    };
    builder.build().expect("sound settings")
}

fn requests(router: &Router, count: usize) -> Vec<LlmRequest> {
    let class = FlowClass::new(1, "tenant");
    let read = || {
        let (parts, ()) = http::Request::post("/v1/completions").body(()).expect("a request").into_parts();
        let body = Bytes::from_static(br#"{"model":"m","prompt":"Why is the sky blue?"}"#);
        router.read(parts, body).expect("a sound body").classify(class.clone())
    };
    (0..count).map(|_| read()).collect()
}

#[test]
fn a_request_that_passes_allocates_nothing_for_flow_control() {
    let allocations = [false, true].map(|has_flow| {
        let router = router(has_flow);
        requests(&router, 20).into_iter().for_each(|request| drop(router.prepare(request, None)));
        let mut measured = requests(&router, 10);
        alloc::allocations(|| measured.drain(..).for_each(|request| drop(router.prepare(request, None).expect("room"))))
    });
    assert!(allocations[0] > 0, "the counter counts");
    assert_eq!(allocations[0], allocations[1], "without and with");
}

/// A ratio, of the least of many rounds, since machines differ; `cargo test --release … -- --nocapture` tells the nanoseconds.
#[test]
fn a_request_that_passes_costs_little_more_with_flow_control() {
    let routers = [router(false), router(true)];
    let mut best = [f64::MAX; 2];
    for _ in 0..50 {
        for (router, best) in routers.iter().zip(&mut best) {
            let requests = requests(router, 200);
            let start = Instant::now();
            for request in requests {
                let Prepared { dispatch, mut host, .. } = black_box(router.prepare(request, None).expect("room"));
                // What was kept for it is its attempt's: counted once, with flow control or without.
                let step = &dispatch.plan().steps()[0];
                drop(host.begin_attempt(step.candidates[0].pod, step));
            }
            *best = best.min(start.elapsed().as_nanos() as f64 / 200.0);
        }
    }
    println!("ns a request: {:.0} without, {:.0} with flow control", best[0], best[1]);
    assert!(best[1] < best[0] * 1.5, "{:.0} ns without, {:.0} with", best[0], best[1]);
}
