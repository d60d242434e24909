//! Pods that come and go: the oldest takes no more requests and ends what it has, a cold one comes.

use super::{Simulation, Timer};

impl Simulation<'_> {
    /// Asks to be woken when the next pod is replaced, while requests are to come.
    pub(super) fn schedule_churn(&mut self) {
        let is_over = self.result.requests + self.result.refused >= self.load.trace.requests.len() as u64;
        if let Some(every) = self.config.churn_us.filter(|_| !is_over) {
            self.fleet.set_timer(self.fleet.now() + every, Timer::Churn);
        }
    }

    pub(super) fn replace_oldest(&mut self) {
        let pods = &self.config.pods;
        let pod = pods[self.oldest % pods.len()];
        // Where an index has no place for another, the fleet stays as it is.
        if self.routers.iter_mut().all(|router| router.replace(self.oldest, pod)) {
            self.fleet.join(pod.0);
            self.oldest += 1;
            self.schedule_churn();
        }
    }
}
