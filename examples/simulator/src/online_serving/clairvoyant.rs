//! The clairvoyant rule: every pod is played to its end with the request and without, and the one that loses least gets it.
//!
//! Greedy: it knows all that is under way, and nothing of what comes. So it is a yardstick, and no bound: a rule that keeps room for what comes may do
//! better.

use pointsman_engine_sim::scheduler::EngineRequest;
use routing_plugins::load::Work;

use super::Simulation;
use crate::router::RouteDecision;

impl Simulation<'_> {
    /// The pod on which all answers together end soonest; none if it fits nowhere.
    pub(super) fn foresee(&self, gateway: usize, place: u32) -> Option<RouteDecision> {
        let request = &self.load.trace.requests[place as usize];
        let (prompt, output) = (request.input, request.output);
        let job = EngineRequest { id: place, prompt, output, ..EngineRequest::default() };
        let more = |pod: &usize| Some(self.fleet.foresee(*pod, Some(job))? - self.fleet.foresee(*pod, None)?);
        let pods = self.oldest..self.fleet.engines().len();
        let (_, serve) = pods.filter_map(|pod| Some((more(&pod)?, pod))).min()?;
        let guard = self.routers[gateway].begin(serve, Work::of(prompt.into()).output(output.into()));
        Some(RouteDecision { prefill: None, serve, prefill_guard: None, guard, sample: None, turn: None, held: 0 })
    }
}
