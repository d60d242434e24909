//! One shard of the session table: an LRU map under one lock.

use std::hash::BuildHasherDefault;
use std::time::{Duration, Instant};

use ahash::AHasher;
use kv_index::Pod;
use lru::LruCache;

/// A bounded map of sessions, in the order of their use.
#[derive(Debug)]
pub(super) struct Shard {
    most: usize,
    bindings: LruCache<u64, Binding, BuildHasherDefault<AHasher>>,
}

#[derive(Debug)]
struct Binding {
    pod: Pod,
    used: Instant,
}

impl Shard {
    /// Room for so many sessions, taken as they come: a bounded map would take all of it at once.
    pub(super) fn new(most: usize) -> Self {
        Self { most, bindings: LruCache::unbounded_with_hasher(BuildHasherDefault::default()) }
    }

    /// Binds a session, which is then the newest; the oldest makes room.
    pub(super) fn bind(&mut self, session: u64, pod: Pod, now: Instant) {
        if let Some(binding) = self.bindings.get_mut(&session) {
            // Requests need not come in the order of their times.
            *binding = Binding { pod, used: binding.used.max(now) };
            return;
        }
        if self.bindings.len() == self.most {
            self.bindings.pop_lru();
        }
        self.bindings.put(session, Binding { pod, used: now });
    }

    /// The same where a session went at some time, as is told later: unless it had a turn since.
    pub(super) fn hear(&mut self, session: u64, pod: Pod, at: Instant) {
        if self.bindings.peek(&session).is_none_or(|binding| binding.used < at) {
            self.bind(session, pod, at);
        }
    }

    /// Lets go of a pod's sessions; how many there were.
    pub(super) fn forget(&mut self, pod: Pod) -> usize {
        let its = self.bindings.iter().filter(|(_, binding)| binding.pod == pod);
        let sessions: Vec<u64> = its.map(|(session, _)| *session).collect();
        sessions.iter().filter_map(|session| self.bindings.pop(session)).count()
    }

    pub(super) fn bound(&self, session: u64, now: Instant, ttl: Duration) -> Option<Pod> {
        let binding = self.bindings.peek(&session)?;
        (now.saturating_duration_since(binding.used) < ttl).then_some(binding.pod)
    }

    pub(super) fn len(&self) -> usize {
        self.bindings.len()
    }
}
