//! The colocated batch of a simulation: what pods have room for of it.

use super::{Simulation, Timer};
use crate::colocated_batch::ColocatedBatchResult;

impl Simulation<'_> {
    /// Looks at all pods whether they have gaps, and again in a while.
    pub(super) fn poll_batch(&mut self) {
        let Some(batch) = &self.batch else { return };
        let answered = (self.result.requests + self.result.refused) as usize;
        if batch.until.map_or(answered < self.in_flight.len(), |until| self.fleet.now() < until) {
            (0..self.config.pods.len()).for_each(|pod| {
                self.feed_batch(pod);
                self.start(pod);
            });
            self.fleet.set_timer(self.fleet.now() + BATCH_POLL_US, Timer::Tick);
        } else {
            // What is under way ends, and counts no more.
            let batch = self.batch.take();
            self.batch_result = batch
                .map(|batch| ColocatedBatchResult { span_us: self.fleet.now(), ..batch.result })
                .unwrap_or_default();
        }
    }

    /// Begins what a pod has room for of the batch.
    pub(super) fn feed_batch(&mut self, pod: usize) {
        let (now, router) = (self.fleet.now(), &self.routers[0]);
        let Some(batch) = &mut self.batch else { return };
        let mut refused = 0;
        // A list of which the pod takes nothing is gone through once.
        while refused < batch.len(pod) {
            let load = router.pod_load(now, pod);
            let Some(job) = batch.next((pod, router.handles()), &load, |work| router.begin(pod, work)) else { return };
            if !self.fleet.submit(pod, job) {
                batch.refused(job);
                refused += 1;
            }
        }
    }
}

/// µs between two looks at what pods have to do.
const BATCH_POLL_US: u64 = 20_000;
