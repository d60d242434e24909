//! Concurrency limits of a pod: requests and tokens on it.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Instant;

use kv_index::{DEFAULT_POD_WORDS, Pod};
use routing_core::Fleet;
use routing_core::flow::SaturationDetector;

use super::{PodsLoad, part};
use crate::PluginState;
use crate::parameters::parameters;

parameters! {
    /// What [`ConcurrencyDetector`] goes by.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ConcurrencyLimits {
        /// Requests on a pod, whoever sent them; 64, unless given.
        pub requests: NonZeroU32 = const { NonZeroU32::new(64).expect("not 0") },
        /// Tokens of their prompts and answers; no limit, unless given.
        pub tokens: Option<NonZeroU64> = None,
    }
}

/// A pod has room while fewer requests and tokens than a limit are on it.
#[derive(Debug)]
pub struct ConcurrencyDetector<const W: usize = DEFAULT_POD_WORDS> {
    limits: ConcurrencyLimits,
    load: PodsLoad<W>,
}

impl<const W: usize> ConcurrencyDetector<W> {
    /// A detector by these limits.
    #[must_use]
    pub fn new(limits: ConcurrencyLimits, state: &PluginState<W>) -> Self {
        Self { limits, load: PodsLoad::of(state) }
    }
}

impl<const W: usize> SaturationDetector<W> for ConcurrencyDetector<W> {
    fn has_room(&self, fleet: &Fleet<W>, pod: Pod, ceiling: f32, now: Instant) -> bool {
        let load = self.load.get(fleet, pod, now);
        let ConcurrencyLimits { requests, tokens } = self.limits;
        u64::from(load.requests) < part(requests.get().into(), ceiling)
            && tokens.is_none_or(|tokens| load.requests == 0 || load.tokens < part(tokens.get(), ceiling))
    }
}
