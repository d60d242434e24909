//! Rules that go by one cost: the least of it wins, whatever the pods.

use proptest::prelude::*;

use super::scene::{BLOCK, Pod, Scene, TOKENS, cheapest, pods};

/// Seconds of a prefill, by the fitted curve.
fn prefill(new: f64, held: f64) -> f64 {
    f64::hypot(4.84e-3, 2.33e-5 * new) + 9.05e-10 * new * (held + new / 2.0) + 1.81e-8 * held
}

/// A linear cost in blocks, with what prefilling and a request count.
fn linear(pod: &Pod, weight: f64, request: f64) -> f64 {
    let block = BLOCK as f64;
    let prefill = (pod.queued() + TOKENS as f64) / block - pod.held as f64;
    weight * prefill.max(0.0) + (pod.prompts() + pod.outputs()) / block + request * pod.requests()
}

fn first_token(pod: &Pod) -> f64 {
    let prefilling = pod.sent.iter().filter(|sent| !sent.decoding).count() as f64;
    let mut queue = 0.0;
    if prefilling > 0.0 {
        let (new, prompt) = (pod.queued() / prefilling, pod.prompts() / pod.sent.len() as f64);
        queue = pod.queued() * (2.33e-5 + 9.05e-10 * f64::max(prompt - new / 2.0, new / 2.0));
    }
    queue + prefill(pod.lacks(), TOKENS as f64 - pod.lacks())
}

#[test]
fn preble_s_work_counts_against_requests_and_runs_out() {
    let mut scene = Scene::new("preble_e2", &[Pod::default(), Pod { waiting: 1, ..Pod::default() }]);
    let start = scene.now;
    // Five cold prefills are more than one request's 1.35 s.
    let own = prefill(TOKENS as f64, 0.0);
    assert!(4.0 * own < 1.35 && 5.0 * own > 1.35);
    let chosen: Vec<usize> = (0..6).map(|seed| scene.decide(seed)).collect();
    assert_eq!(chosen, [0, 0, 0, 0, 0, 1]);
    scene.now = start + std::time::Duration::from_secs(168);
    assert_eq!(scene.decide(6), 0, "five prefills are less than 1.35 s and one");
    assert_eq!(scene.decide(7), 1, "all of it counts for 15/16 of three minutes");
    scene.now = start + std::time::Duration::from_secs(180);
    assert_eq!(scene.decide(8), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn least_load_takes_the_fewest_requests(pods in pods()) {
        cheapest("least_load", &pods, Pod::requests)?;
    }

    #[test]
    fn dynamo_takes_the_least_linear_cost(pods in pods()) {
        cheapest("dynamo_linear", &pods, |pod| linear(pod, 1.0, 0.0))?;
        cheapest("dynamo_tuned", &pods, |pod| linear(pod, 16.0, 0.0))?;
    }

    #[test]
    fn the_rfc_counts_requests_too(pods in pods()) {
        cheapest("vllm_rfc", &pods, |pod| linear(pod, 1.0, 1.0))?;
    }

    #[test]
    fn lmetric_takes_the_least_product(pods in pods()) {
        cheapest("lmetric", &pods, |pod| (pod.queued() + pod.lacks()) * (pod.requests() + 1.0))?;
    }

    #[test]
    fn mooncake_takes_the_soonest_first_token(pods in pods()) {
        cheapest("mooncake_ttft", &pods, first_token)?;
    }

    #[test]
    fn the_shortest_wait_wins(pods in pods()) {
        cheapest("expected_wait", &pods, |pod| {
            let tokens = pod.queued() + pod.lacks() + pod.outputs() + 512.0 * f64::from(pod.waiting);
            let used = f64::from(pod.kv_used).min(0.99);
            tokens / 10_000.0 + 0.1 * used / (1.0 - used)
        })?;
    }

    #[test]
    fn llm_d_weighs_queue_cache_and_prefix(pods in pods()) {
        let waiting = |pod: &Pod| f64::from(pod.waiting);
        let least = pods.iter().map(waiting).fold(f64::MAX, f64::min);
        let most = pods.iter().map(waiting).fold(0.0, f64::max);
        cheapest("llm_d", &pods, |pod| {
            let queue = if most > least { (most - waiting(pod)) / (most - least) } else { 1.0 };
            let held = pod.held as f64 / 20.0;
            -(2.0 * queue + 2.0 * (1.0 - f64::from(pod.kv_used)) + 3.0 * held)
        })?;
    }

    /// Each request adds to what its pod was sent within three minutes, and time takes that away again.
    #[test]
    fn preble_exploits_what_is_mostly_held_and_explores_by_recent_work(
        pods in pods(),
        after in prop::collection::vec(0..60u64, 1..8),
    ) {
        let mut scene = Scene::new("preble_e2", &pods);
        let (start, mut passed, mut sent) = (scene.now, 0, Vec::new());
        let longest = pods.iter().map(|pod| pod.held).max().expect("some pods");
        let exploits = 2 * longest * BLOCK > TOKENS;
        for (seed, after) in after.into_iter().enumerate() {
            // Slices of a sixteenth of three minutes, from the first request on.
            passed += if seed == 0 { 0 } else { after };
            let slice = |seconds: u64| seconds * 16 / 180;
            let cost = |at: usize| {
                let pod = &pods[at];
                let own = prefill(pod.lacks(), TOKENS as f64 - pod.lacks());
                let recent = sent.iter().filter(|(to, when)| *to == at && slice(*when) + 16 > slice(passed));
                let load = recent.count() as f64 * own + 1.35 * pod.requests();
                let evicted = f64::from(pod.kv_used) * 2.33e-5 * pod.lacks();
                if exploits { load } else { load + evicted + own }
            };
            let may = |at: &usize| !exploits || pods[*at].held == longest;
            let best = (0..pods.len()).filter(may).map(cost).fold(f64::MAX, f64::min);
            scene.now = start + std::time::Duration::from_secs(passed);
            let chosen = scene.decide(seed as u64);
            // Work is remembered in tenths of milliseconds. Among equal holders evictions count by how full each is.
            let near = 0.001 + if exploits { 2.33e-5 * TOKENS as f64 } else { 0.0 };
            prop_assert!(may(&chosen) && cost(chosen) <= best + near, "{chosen} at {} of {best}", cost(chosen));
            sent.push((chosen, passed));
        }
    }
}
