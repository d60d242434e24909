//! Saturation of the whole pool, by which requests of a priority below 0 are refused where nothing waits.

use std::time::Instant;

use pointsman::Router;

use crate::picker_config::Saturation;

/// Whether the pool is full. One without pods is, and a pod whose engine is silent counts as full.
pub(crate) fn is_saturated(router: &Router, saturation: &Saturation) -> bool {
    share(router, saturation) >= 1.0
}

/// How full the pool is; full from 1 on.
pub(crate) fn share(router: &Router, saturation: &Saturation) -> f64 {
    let pods = router.pods();
    let share: f64 = match saturation {
        Saturation::Utilization { waiting, kv_used, stale_after } => {
            let now = Instant::now();
            let of = |pod: &pointsman::RegisteredPod| {
                let age = pod.reported.map(|at| now.saturating_duration_since(at));
                if age.is_none_or(|age| age > *stale_after) {
                    return 1.0;
                }
                let queue = f64::from(pod.load.waiting) / f64::from((*waiting).max(1));
                queue.max(f64::from(pod.load.kv_used) / kv_used.max(f64::MIN_POSITIVE))
            };
            pods.iter().map(of).sum::<f64>() / pods.len() as f64
        }
        Saturation::Concurrency { requests, tokens } => {
            let loads: Vec<_> = pods.iter().map(|pod| router.plugin_state().load.in_flight(pod.pod.id())).collect();
            let share = |taken: f64, most: Option<u64>| {
                most.map_or(0.0, |most| taken / (most.max(1) as f64 * pods.len() as f64))
            };
            let running: f64 = loads.iter().map(|load| f64::from(load.requests)).sum();
            let held: f64 = loads.iter().map(|load| load.prompt_tokens.saturating_add(load.output_tokens) as f64).sum();
            share(running, *requests).max(share(held, *tokens))
        }
    };
    // Of no pods it is not a number.
    if share.is_nan() { 1.0 } else { share }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pointsman::PodSpec;
    use pointsman::core::Load;

    use super::*;

    #[test]
    fn a_pool_is_full_by_the_mean_of_its_pods_and_without_any() {
        let pods = ["a", "b"].map(|name| PodSpec::new(name, format!("{name}:1")));
        let router = Router::builder("m").pods(pods).build().unwrap();
        let saturation = Saturation::Utilization { waiting: 5, kv_used: 0.8, stale_after: Duration::from_secs(60) };
        assert!(is_saturated(&router, &saturation), "nothing is known of them");
        let report = |name: &str, waiting, kv_used| {
            let load = Load { waiting, kv_used, ..Load::default() };
            router.report_load(router.pod(name).unwrap(), load, Instant::now());
        };
        report("a", 9, 0.0);
        report("b", 0, 0.0);
        assert!(!is_saturated(&router, &saturation), "1.8 and 0");
        report("b", 1, 0.2);
        assert!(is_saturated(&router, &saturation), "1.8 and 0.25");
        let none = Router::builder("m").build().unwrap();
        assert!(is_saturated(&none, &saturation));
        let concurrency = Saturation::Concurrency { requests: Some(1), tokens: None };
        assert!(!is_saturated(&router, &concurrency));
    }
}
