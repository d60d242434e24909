//! How much of decoding runs beside others of its cohort: what attention over a shared prefix needs.

use std::collections::BTreeMap;

use routing_core::batch::BatchPlan;

use super::OfflineBatchResult;

/// The share of the time that requests decode in which another one of their cohort decodes on the same pod.
pub(crate) fn share_beside_cohort(result: &OfflineBatchResult, plan: &BatchPlan) -> f64 {
    let cohorts = plan.pods.iter().flat_map(|pod| &pod.cohorts).enumerate();
    // By pod and cohort: when one more decodes, or one less.
    let mut changes: BTreeMap<(usize, usize), Vec<(u64, i64)>> = BTreeMap::new();
    for (number, cohort) in cohorts {
        for &request in &cohort.requests {
            let (pod, first, last) = result.spans_us[request as usize];
            changes.entry((pod, number)).or_default().extend([(first, 1), (last, -1)]);
        }
    }
    let (mut beside, mut all) = (0, 0);
    for mut changes in changes.into_values() {
        changes.sort_unstable();
        let (mut running, mut since) = (0, 0);
        for (now, change) in changes {
            let time = running * (now - since) as i64;
            all += time;
            beside += if running > 1 { time } else { 0 };
            (running, since) = (running + change, now);
        }
    }
    if all > 0 { beside as f64 / all as f64 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use kv_index::{Config, Index};
    use routing_core::batch::{Cohort, PodPlan};

    use super::*;

    #[test]
    fn time_beside_others_of_the_cohort_on_the_same_pod_counts() {
        let index: Index = Index::new(Config::default());
        let pod = index.join("pod").expect("room for one");
        let mut plan = BatchPlan::default();
        plan.pods.push(PodPlan::new(pod, vec![Cohort::new(1, vec![0, 1, 2], 0), Cohort::new(1, vec![3], 0)]));
        // Two overlap for half of their time; one was moved to another pod; one is alone in its cohort.
        let spans_us = vec![(0, 0, 100), (0, 50, 150), (1, 0, 100), (0, 0, 100)];
        let result = OfflineBatchResult { spans_us, ..OfflineBatchResult::default() };
        assert_eq!(share_beside_cohort(&result, &plan), 100.0 / 400.0);
    }
}
