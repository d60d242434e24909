//! Figures of a plan: tokens to compute, makespan, imbalance.

use std::time::Duration;

use kv_index::Pod;

use super::{BatchPlan, Cohort, PodPlan};

impl BatchPlan {
    /// Tokens of prompts that all pods compute together.
    #[must_use]
    pub fn prefill_tokens(&self) -> u64 {
        self.pods.iter().map(|pod| pod.prefill_tokens).sum()
    }

    /// Tokens of prompts that one pod with an endless cache would compute: no plan of cold pods computes fewer.
    ///
    /// A request that is there as a whole still computes one token. With pods that hold something already a plan can
    /// compute fewer than this.
    #[must_use]
    pub fn distinct_tokens(&self) -> u64 {
        self.distinct
    }

    /// When the last pod is expected to be done.
    #[must_use]
    pub fn makespan(&self) -> Duration {
        self.pods.iter().map(|pod| pod.takes).max().unwrap_or_default()
    }

    /// How much longer the last pod takes than pods do in the mean: 0.03 for 3% longer.
    ///
    /// Pods that cannot hold a single request count too: they idle.
    #[must_use]
    pub fn imbalance(&self) -> f64 {
        let sum: f64 = self.pods.iter().map(|pod| pod.takes.as_secs_f64()).sum();
        if sum > 0.0 { self.makespan().as_secs_f64() * self.pods.len() as f64 / sum - 1.0 } else { 0.0 }
    }

    /// When a request is expected to be done, by its place in the batch; nothing for one that no pod can hold.
    #[must_use]
    pub fn finish(&self, request: u32) -> Option<Duration> {
        self.finishes.get(request as usize).copied().flatten()
    }

    /// The plan of a part of a batch, with the places of the whole: what is place `n` here is `places[n]` there.
    ///
    /// A planner counts what it is given, and whoever runs a batch counts all of it, also where some requests are done already.
    ///
    /// # Panics
    ///
    /// When there are fewer places than requests in the plan.
    #[must_use]
    pub fn at_places(mut self, places: &[u32]) -> Self {
        let cohorts = self.pods.iter_mut().flat_map(|pod| &mut pod.cohorts);
        let planned = cohorts.flat_map(|cohort| &mut cohort.requests);
        let infeasible = self.infeasible.iter_mut().map(|infeasible| &mut infeasible.request);
        planned.chain(infeasible).for_each(|request| *request = places[*request as usize]);
        let whole = places.iter().max().map_or(0, |last| *last as usize + 1);
        let finishes = std::mem::replace(&mut self.finishes, vec![None; whole]);
        for (finish, place) in finishes.into_iter().zip(places) {
            self.finishes[*place as usize] = finish;
        }
        self
    }
}

impl PodPlan {
    /// Work for a pod that is planned by someone else; nothing is said of how long it takes, and it has room for anything.
    #[must_use]
    pub fn new(pod: Pod, cohorts: Vec<Cohort>) -> Self {
        Self { pod, cohorts, takes: Duration::ZERO, prefill_tokens: 0, kv_tokens: u64::MAX, speed: 1.0 }
    }

    /// Its requests, by their places in the batch, in the order they are sent.
    pub fn requests(&self) -> impl Iterator<Item = u32> {
        self.cohorts.iter().flat_map(|cohort| cohort.requests.iter().copied())
    }
}
