//! Limits of a pool: requests and tokens on all of its pods together.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Instant;

use kv_index::{DEFAULT_POD_WORDS, Pod};
use routing_core::Fleet;
use routing_core::flow::SaturationDetector;

use super::{PodsLoad, part};
use crate::PluginState;
use crate::parameters::parameters;

parameters! {
    /// What [`PoolDetector`] goes by.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PoolLimits {
        /// Requests on a pool's pods that were sent from here; no limit, unless given.
        pub requests: Option<NonZeroU32> = None,
        /// Tokens of their prompts and answers; no limit, unless given.
        pub tokens: Option<NonZeroU64> = None,
    }
}

/// Pods have room while fewer requests and tokens than a limit were sent from here to all pods of a role together: pods that prefill are
/// one pool, those that decode another, and those that do both a third.
#[derive(Debug)]
pub struct PoolDetector<const W: usize = DEFAULT_POD_WORDS> {
    limits: PoolLimits,
    load: PodsLoad<W>,
}

impl<const W: usize> PoolDetector<W> {
    /// A detector by these limits.
    #[must_use]
    pub fn new(limits: PoolLimits, state: &PluginState<W>) -> Self {
        Self { limits, load: PodsLoad::of(state) }
    }
}

impl<const W: usize> SaturationDetector<W> for PoolDetector<W> {
    fn has_room(&self, fleet: &Fleet<W>, pod: Pod, ceiling: f32, _: Instant) -> bool {
        let role = fleet.pod(pod.id()).map(|info| info.role);
        let of_pool = fleet.pods().iter().filter(|id| fleet.pod(*id).map(|info| info.role) == role);
        let (mut requests, mut tokens) = (0_u64, 0_u64);
        for id in of_pool {
            let in_flight = self.load.in_flight(id);
            requests += u64::from(in_flight.requests);
            tokens = tokens.saturating_add(in_flight.tokens());
        }
        let PoolLimits { requests: most, tokens: most_tokens } = self.limits;
        most.is_none_or(|most| requests < part(most.get().into(), ceiling))
            && most_tokens.is_none_or(|most| requests == 0 || tokens < part(most.get(), ceiling))
    }
}
