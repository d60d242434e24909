//! What gateways hear: pods' cache events, and what the others have in flight.

use pointsman_engine_sim::scheduler::BlockEvent;
use routing_plugins::peers::SummaryScope;

use super::{Simulation, Timer};

impl Simulation<'_> {
    /// Tells gateways what became of a pod's cache in a step, as vLLM does: when it ends.
    pub(super) fn publish(&mut self, pod: usize) {
        let (now, events): (_, Vec<BlockEvent>) = (self.fleet.now(), self.fleet.events(pod).collect());
        self.routers.iter_mut().for_each(|router| router.changed(now, pod, &events));
    }

    /// Asks to be woken when gateways tell each other next, while requests are to come.
    pub(super) fn schedule_share(&mut self) {
        let is_over = self.result.requests + self.result.refused >= self.load.trace.requests.len() as u64;
        if let Some(every) = self.config.share_every_us.filter(|_| self.routers.len() > 1 && !is_over) {
            self.fleet.set_timer(self.fleet.now() + every, Timer::Share);
        }
    }

    pub(super) fn share(&mut self) {
        (0..self.routers.len()).for_each(|gateway| self.tell(gateway, SummaryScope::Whole));
        self.schedule_share();
    }

    /// Tells what a gateway decided, where they share at all.
    pub(super) fn tell_changes(&mut self, gateway: usize) {
        if self.config.share_every_us.is_some() && self.routers.len() > 1 {
            self.tell(gateway, SummaryScope::Changes);
        }
    }

    fn tell(&mut self, gateway: usize, scope: SummaryScope) {
        let now = self.fleet.now();
        let Some(summary) = self.routers[gateway].tell(scope, now) else { return };
        let others = self.routers.iter_mut().enumerate().filter(|(other, _)| *other != gateway);
        others.for_each(|(_, router)| router.told(now, summary.clone()));
    }
}
