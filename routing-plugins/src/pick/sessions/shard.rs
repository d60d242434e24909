//! One shard of the session table: an LRU list under one lock.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::time::{Duration, Instant};

use kv_index::Pod;

/// A bounded map of sessions, and a list through it from the newest to the oldest.
#[derive(Debug)]
pub(super) struct Shard {
    most: usize,
    at: HashMap<u64, u32, BuildHasherDefault<ahash::AHasher>>,
    entries: Vec<Entry>,
    newest: Option<u32>,
    oldest: Option<u32>,
}

#[derive(Debug)]
struct Entry {
    session: u64,
    pod: Pod,
    used: Instant,
    newer: Option<u32>,
    older: Option<u32>,
}

impl Shard {
    /// Room for so many sessions, taken as they come.
    pub(super) fn new(most: usize) -> Self {
        // Places are numbered in 32 bits.
        let most = most.min(u32::MAX as usize);
        Self { most, at: HashMap::default(), entries: Vec::new(), newest: None, oldest: None }
    }

    /// Binds a session, which is then the newest; the oldest makes room.
    pub(super) fn bind(&mut self, session: u64, pod: Pod, now: Instant) {
        if let Some(&at) = self.at.get(&session) {
            self.unlink(at);
            let entry = &mut self.entries[at as usize];
            entry.pod = pod;
            // Requests need not come in the order of their times.
            entry.used = entry.used.max(now);
            return self.link(at);
        }
        if self.entries.len() == self.most {
            if let Some(oldest) = self.oldest {
                self.remove(oldest);
            }
        }
        let at = self.entries.len() as u32;
        self.entries.push(Entry { session, pod, used: now, newer: None, older: None });
        self.at.insert(session, at);
        self.link(at);
    }

    /// Lets go of a pod's sessions; how many there were.
    pub(super) fn forget(&mut self, pod: Pod) -> usize {
        let before = self.entries.len();
        // Backwards: what fills a gap has been looked at.
        for at in (0..before as u32).rev() {
            if self.entries[at as usize].pod == pod {
                self.remove(at);
            }
        }
        before - self.entries.len()
    }

    pub(super) fn bound(&self, session: u64, now: Instant, ttl: Duration) -> Option<Pod> {
        let entry = &self.entries[*self.at.get(&session)? as usize];
        (now.saturating_duration_since(entry.used) < ttl).then_some(entry.pod)
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes an entry out; the last one fills the gap.
    fn remove(&mut self, at: u32) {
        self.unlink(at);
        let gone = self.entries.swap_remove(at as usize);
        self.at.remove(&gone.session);
        if let Some(moved) = self.entries.get(at as usize) {
            let (session, newer, older) = (moved.session, moved.newer, moved.older);
            self.at.insert(session, at);
            self.set_older(newer, Some(at));
            self.set_newer(older, Some(at));
        }
    }

    /// Takes an entry out of the list.
    fn unlink(&mut self, at: u32) {
        let Entry { newer, older, .. } = self.entries[at as usize];
        self.set_older(newer, older);
        self.set_newer(older, newer);
    }

    /// Puts an entry at the head of the list.
    fn link(&mut self, at: u32) {
        let next = self.newest;
        self.entries[at as usize].newer = None;
        self.entries[at as usize].older = next;
        self.set_newer(next, Some(at));
        self.newest = Some(at);
    }

    /// Says what follows an entry, or the head of the list.
    fn set_older(&mut self, of: Option<u32>, older: Option<u32>) {
        match of {
            Some(at) => self.entries[at as usize].older = older,
            None => self.newest = older,
        }
    }

    /// Says what precedes an entry, or the end of the list.
    fn set_newer(&mut self, of: Option<u32>, newer: Option<u32>) {
        match of {
            Some(at) => self.entries[at as usize].newer = newer,
            None => self.oldest = newer,
        }
    }
}
