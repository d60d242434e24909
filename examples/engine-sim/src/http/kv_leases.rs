//! Leases on KV blocks that were prefilled for another pod.
//!
//! Invariant: a lease ends once, by being fetched or by its time.

use std::collections::HashMap;
use std::time::Instant;

/// The leases of one incarnation of a pod, by the name that the other pod is given.
#[derive(Debug, Default)]
pub(super) struct KvLeases {
    held: HashMap<String, KvLease>,
}

/// Blocks that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KvLease {
    pub(super) request: u32,
    /// Tokens that the blocks hold.
    pub(super) tokens: usize,
    /// When it ends. One that is being fetched does not.
    pub(super) ends: Option<Instant>,
}

impl KvLeases {
    pub(super) fn grant(&mut self, name: String, lease: KvLease) {
        self.held.insert(name, lease);
    }

    /// Begins to fetch: from here on it does not end by time.
    pub(super) fn claim(&mut self, name: &str, now: Instant) -> Option<KvLease> {
        let lease = self.held.get_mut(name).filter(|lease| lease.ends.is_none_or(|ends| ends > now))?;
        lease.ends = None;
        Some(*lease)
    }

    pub(super) fn end(&mut self, name: &str) -> Option<KvLease> {
        self.held.remove(name)
    }

    /// Ends what has run out.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<KvLease> {
        self.held.extract_if(|_, lease| lease.ends.is_some_and(|ends| ends <= now)).map(|(_, lease)| lease).collect()
    }

    /// When the next one runs out.
    pub(super) fn next(&self) -> Option<Instant> {
        self.held.values().filter_map(|lease| lease.ends).min()
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }
}
