//! Merges the results of several seeds: counts are summed, latency histograms merged.

use crate::results::PolicyResult;

/// Merges the results of one policy. The time series is that of the first seed.
pub(crate) fn merge_seeds(results: Vec<PolicyResult>) -> PolicyResult {
    let runs = results.len();
    let imbalances: f64 = results.iter().map(PolicyResult::imbalance).sum();
    let mut results = results.into_iter();
    let mut all = results.next().unwrap_or_default();
    for one in results {
        let sums = [
            (&mut all.requests, one.requests),
            (&mut all.refused, one.refused),
            (&mut all.blocks, one.blocks),
            (&mut all.blocks_hit, one.blocks_hit),
            (&mut all.blocks_known, one.blocks_known),
            (&mut all.prompt_tokens, one.prompt_tokens),
            (&mut all.prefill_tokens, one.prefill_tokens),
            (&mut all.output_tokens, one.output_tokens),
            (&mut all.whole_us, one.whole_us),
            (&mut all.good, one.good),
            (&mut all.span_us, one.span_us),
            (&mut all.arrivals_us, one.arrivals_us),
            (&mut all.decisions, one.decisions),
            (&mut all.decision_ns, one.decision_ns),
        ];
        sums.into_iter().for_each(|(sum, more)| *sum += more);
        all.ttft.merge(&one.ttft);
        all.slowdown.merge(&one.slowdown);
        all.per_token.merge(&one.per_token);
        all.between.merge(&one.between);
        all.whole.merge(&one.whole);
        // Where pods come and go, runs have different numbers of them.
        let pods = all.pods.len().max(one.pods.len());
        all.pods.resize_with(pods, Default::default);
        for (pod, more) in all.pods.iter_mut().zip(one.pods) {
            pod.requests += more.requests;
            pod.prefill_tokens += more.prefill_tokens;
            pod.output_tokens += more.output_tokens;
            pod.busy_us += more.busy_us;
            pod.preemptions += more.preemptions;
        }
    }
    all.mean_imbalance = (runs > 1).then(|| imbalances / runs as f64);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_engine_sim::virtual_time::EngineTotals;

    #[test]
    fn a_busy_pod_of_one_run_does_not_make_up_for_that_of_another() {
        let run = |busy: [u64; 2]| PolicyResult {
            requests: 5,
            pods: busy.map(|busy_us| EngineTotals { busy_us, ..EngineTotals::default() }).to_vec(),
            ..PolicyResult::default()
        };
        assert_eq!(merge_seeds(vec![run([30, 10])]).imbalance(), 1.5);
        let both = merge_seeds(vec![run([30, 10]), run([10, 50])]);
        assert_eq!(both.requests, 10);
        assert_eq!(both.pods.iter().map(|pod| pod.busy_us).collect::<Vec<_>>(), [40, 60]);
        assert!((both.imbalance() - (1.5 + 50.0 / 30.0) / 2.0).abs() < 1e-12, "{}", both.imbalance());
    }
}
