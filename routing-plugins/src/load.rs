//! Load tracking: requests counted by guards, engine reports, and both merged.
//!
//! The host keeps one [`LoadTracker`]. Whoever sends a request holds a [`LoadGuard`] for it; whoever asks engines how
//! they are calls [`report`](LoadTracker::report). Whatever happens to requests, what a guard counted is taken back once.

mod admission;
mod backlog;
mod backlog_rows;
mod cell;
mod guard;
mod merged;
mod peer_share;
mod tracker;
mod work;

use std::time::Duration;

pub use admission::{BatchAdmission, BatchCrowd};
pub use backlog::Backlog;
pub use guard::LoadGuard;
pub use tracker::LoadTracker;
pub use work::{OutputEstimate, Work};

pub(crate) use backlog_rows::{BacklogBlock, LANES, Queue};
pub(crate) use merged::{MergedLoads, share};
pub(crate) use peer_share::PeerShare;

/// What was sent to a pod from here, or from [peers](crate::peers) that tell of it, and is not done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "figures that a host's own preparer fills in by name")]
pub struct InFlight {
    /// Requests.
    pub requests: u32,
    /// Those of them that have not seen their first token.
    pub prefilling: u32,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Tokens that have to be computed before first tokens can come.
    pub uncached_tokens: u64,
    /// Tokens that are to be generated, those that were already included.
    pub output_tokens: u64,
}

impl InFlight {
    /// Tokens of prompts and answers together: what the requests take of a KV cache in the end.
    #[must_use]
    #[inline]
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.output_tokens)
    }

    /// The same without some of it.
    #[must_use]
    pub fn without(&self, some: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(some.requests),
            prefilling: self.prefilling.saturating_sub(some.prefilling),
            prompt_tokens: self.prompt_tokens.saturating_sub(some.prompt_tokens),
            uncached_tokens: self.uncached_tokens.saturating_sub(some.uncached_tokens),
            output_tokens: self.output_tokens.saturating_sub(some.output_tokens),
        }
    }

    /// The same and more.
    #[must_use]
    pub fn and(&self, more: &Self) -> Self {
        Self {
            requests: self.requests.saturating_add(more.requests),
            prefilling: self.prefilling.saturating_add(more.prefilling),
            prompt_tokens: self.prompt_tokens.saturating_add(more.prompt_tokens),
            uncached_tokens: self.uncached_tokens.saturating_add(more.uncached_tokens),
            output_tokens: self.output_tokens.saturating_add(more.output_tokens),
        }
    }

    /// Requests that have seen their first token.
    #[must_use]
    #[inline]
    pub fn decoding(&self) -> u32 {
        self.requests.saturating_sub(self.prefilling)
    }
}

/// What a pod has to do, own figures and its engine's merged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "figures that a host's own preparer fills in by name")]
pub struct PodLoad {
    /// What was sent from here.
    pub in_flight: InFlight,
    /// Requests on the pod: what its engine reported, changed by what was sent from here and done since; never fewer than
    /// are in flight from here.
    pub requests: u32,
    /// Requests that its engine reported as being worked on.
    pub running: u32,
    /// Requests that its engine reported as waiting.
    pub waiting: u32,
    /// Those of them that were not sent from here: no fewer than are waiting beyond all that have no first token here.
    pub waiting_elsewhere: u32,
    /// Tokens of all requests, merged as requests are.
    pub tokens: u64,
    /// How much of its KV cache is in use, 0..=1, as its engine reported.
    pub kv_used: f32,
    /// How old its engine's report is; none if there is none, or it is of unknown age.
    pub age: Option<Duration>,
    /// Whether its engine's report is too old to rely on. Its figures are still the last that are known: a pod that fell
    /// silent is likelier as busy as it was than idle.
    pub stale: bool,
}

impl PodLoad {
    /// Whether there is a report of its engine that counts: one of known age that is not too old.
    #[must_use]
    #[inline]
    pub const fn is_reported(&self) -> bool {
        self.age.is_some() && !self.stale
    }
}

/// What most decisions read of a pod's load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "two figures of a load, side by side for many pods")]
pub struct Figures {
    /// Requests on the pod, as [`PodLoad::requests`].
    pub requests: u32,
    /// How much of its KV cache is in use, as [`PodLoad::kv_used`], and in 0..=1 whatever stands there.
    pub kv_used: f32,
}

impl PodLoad {
    /// The figures that most decisions read.
    #[must_use]
    #[inline]
    pub const fn figures(&self) -> Figures {
        Figures { requests: self.requests, kv_used: share(self.kv_used) }
    }
}

/// Handles of so many ids, in each of so many generations: `[generation][id]`, older ones first.
#[cfg(test)]
pub(crate) fn handles(generations: usize, ids: usize) -> Vec<Vec<kv_index::Pod>> {
    let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
    let generation = |_| {
        let pods: Vec<_> = (0..ids).map(|at| index.join(&format!("pod-{at}")).expect("room")).collect();
        pods.iter().for_each(|&pod| assert!(index.retire(pod)));
        assert_eq!(index.sweep(1).freed, ids);
        pods
    };
    (0..generations).map(generation).collect()
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "some instant to count from; which one does not matter")]
pub(crate) fn start() -> std::time::Instant {
    std::time::Instant::now()
}
