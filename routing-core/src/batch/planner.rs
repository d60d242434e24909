//! The batch planner: layers by urgency, candidate schedules, and the best of them as a plan.
//!
//! Nothing depends on anything but the arguments: same input, same plan.

use super::cached_prefixes::{CachedPrefixes, claims};
use super::cohorts::cohorts;
use super::layer::{Job, Layer};
use super::order::Queue;
use super::rebalance::rebalance;
use super::schedule::{Schedule, lateness, seconds};
use super::{
    BatchConfig, BatchError, BatchPlan, BatchPod, BatchRequest, Infeasible, InfeasibleReason, Mixing, PodPlan,
};

/// Plans a queue as a whole.
#[derive(Clone, Copy, Debug)]
pub struct BatchPlanner {
    config: BatchConfig,
}

impl BatchPlanner {
    /// A planner that plans as `config` says.
    #[must_use]
    pub fn new(config: BatchConfig) -> Self {
        Self { config }
    }

    /// Says which pod does what of `requests`, in which order, given what pods hold: [`super::ColdCaches`], or what an
    /// index says ([`super::IndexedCaches`]).
    ///
    /// A request that no pod can hold is reported and left out; one that will be late is reported and planned all the same.
    ///
    /// # Errors
    ///
    /// If there are requests but no pods, a pod is there twice or its speed is no speed, or the configuration is out
    /// of range.
    pub fn plan(
        &self,
        requests: &[BatchRequest<'_>],
        pods: &[BatchPod],
        held: &mut dyn CachedPrefixes,
    ) -> Result<BatchPlan, BatchError> {
        self.check(requests, pods)?;
        let room = pods.iter().map(|pod| pod.kv_tokens).max().unwrap_or(0);
        let (fitting, too_long): (Vec<u32>, Vec<u32>) =
            (0..requests.len() as u32).partition(|&number| requests[number as usize].room() <= room);
        let queue = Queue::new(requests, fitting);
        let claims = claims(&queue, pods, held);
        let job = Job { queue, pods, config: &self.config, claims };
        let schedule = best(&job);
        let mut plan = write(&job, schedule, requests.len());
        let too_long = too_long.into_iter().map(|request| Infeasible { request, why: InfeasibleReason::TooLong });
        plan.infeasible.extend(too_long);
        plan.infeasible.sort_unstable_by_key(|infeasible| infeasible.request);
        Ok(plan)
    }

    fn check(&self, requests: &[BatchRequest<'_>], pods: &[BatchPod]) -> Result<(), BatchError> {
        let sound = |share: f64| share.is_finite() && share >= 0.0;
        let recomputed =
            if let Mixing::TwoEnds { most_recomputed } = self.config.mixing { most_recomputed } else { 0.0 };
        let fields = [
            ("costs", self.config.costs.are_sound()),
            ("most_imbalance", sound(self.config.most_imbalance)),
            ("most_recomputed", sound(recomputed)),
            ("most_running", self.config.most_running > 0),
        ];
        if let Some((field, _)) = fields.into_iter().find(|(_, is_sound)| !is_sound) {
            return Err(BatchError::Config { field });
        }
        if requests.len() >= u32::MAX as usize - 2 {
            return Err(BatchError::TooMany { requests: requests.len() });
        }
        if pods.is_empty() && !requests.is_empty() {
            return Err(BatchError::NoPods { requests: requests.len() });
        }
        for (i, pod) in pods.iter().enumerate() {
            if pods[..i].iter().any(|other| other.pod == pod.pod) {
                return Err(BatchError::TwicePod { pod: pod.pod });
            }
            if !(pod.speed.is_finite() && pod.speed > 0.0) {
                return Err(BatchError::Speed { pod: pod.pod });
            }
        }
        Ok(())
    }
}

/// The best schedule: the queue as one, or with the urgent requests in front where some would be late.
fn best(job: &Job<'_>) -> Schedule {
    let all = || (0..job.queue.len() as u32).collect::<Vec<_>>();
    let mut best = rebalance(job, &[Layer::new(job, all())]);
    let makespan = best.makespan();
    for bounds in [&[1.0][..], &[0.25, 1.0], &[0.0625, 0.125, 0.25, 0.5, 1.0]] {
        if best.late == 0 {
            break;
        }
        // By how soon they are due, each layer in trie order.
        let mut parts: Vec<Vec<u32>> = vec![Vec::new(); bounds.len() + 1];
        for at in all() {
            let due = job.deadline(at).map_or(f64::INFINITY, |deadline| deadline.as_secs_f64());
            parts[bounds.partition_point(|bound| bound * makespan <= due)].push(at);
        }
        let layers: Vec<Layer> = parts.into_iter().map(|part| Layer::new(job, part)).collect();
        let schedule = rebalance(job, &layers);
        if schedule.is_better(&best, 0.0) {
            best = schedule;
        }
    }
    best
}

fn write(job: &Job<'_>, schedule: Schedule, requests: usize) -> BatchPlan {
    let mut finishes = vec![None; requests];
    let mut infeasible = Vec::new();
    for (at, &finish) in schedule.finishes.iter().enumerate() {
        let request = job.queue.number(at);
        finishes[request as usize] = Some(seconds(finish));
        if let Some(late) = lateness(job, at, finish) {
            infeasible.push(Infeasible { request, why: InfeasibleReason::Late(late) });
        }
    }
    let pods = schedule.items.iter().zip(&schedule.takes).zip(job.pods).map(|((items, takes), pod)| PodPlan {
        pod: pod.pod,
        cohorts: cohorts(job, items),
        takes: seconds(*takes),
        kv_tokens: pod.kv_tokens,
        speed: pod.speed,
        prefill_tokens: items.iter().map(|item| u64::from(job.new_tokens(item.at, item.cached))).sum(),
    });
    let distinct = (0..job.queue.len()).map(|at| u64::from(job.new_tokens(at as u32, job.queue.near(at)))).sum();
    BatchPlan { pods: pods.collect(), infeasible, distinct, finishes }
}
