//! Deadlines (*watchdog*): ends responses whose time is up though nobody reads them.
//!
//! A body runs the timers of its request when it is polled, and a server does not poll that of a client which reads next to
//! nothing. Whoever ticks, ends those; no runtime is needed for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

/// The deadlines of responses that are being read, in order. One is enough for all executors.
///
/// Give it to them ([`TransportExecutor::deadlines`](crate::TransportExecutor::deadlines)) and [tick](Self::tick) about once a second; a router does both. Then
/// [`DispatchPolicy::request_timeout`](crate::DispatchPolicy::request_timeout) bounds a request even where its client reads nothing: the pod
/// is let go and the host gets its report, and the client finds an error where it reads on.
#[derive(Default)]
pub struct Deadlines {
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    by_deadline: BTreeMap<(Instant, u64), Weak<dyn Expire>>,
}

/// What ends when its time is up.
pub(super) trait Expire: Send + Sync {
    fn expire(&self, now: Instant);
}

impl Deadlines {
    /// Ends every response whose deadline has passed. Cheap where there is none.
    pub fn tick(&self, now: Instant) {
        while let Some(overdue) = self.take_overdue(now) {
            // None: it ended meanwhile.
            overdue.upgrade().into_iter().for_each(|overdue| overdue.expire(now));
        }
    }

    fn take_overdue(&self, now: Instant) -> Option<Weak<dyn Expire>> {
        let mut open = self.open.lock();
        let first = open.by_deadline.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    /// Ends it at its deadline, unless the watch is dropped before.
    pub(super) fn watch(self: &Arc<Self>, deadline: Instant, watched: Weak<dyn Expire>) -> Watch {
        let mut open = self.open.lock();
        open.next += 1;
        let key = (deadline, open.next);
        open.by_deadline.insert(key, watched);
        Watch { deadlines: Arc::clone(self), key }
    }
}

impl fmt::Debug for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadlines").field("open", &self.open.lock().by_deadline.len()).finish()
    }
}

/// A deadline that counts until this is dropped.
pub(super) struct Watch {
    deadlines: Arc<Deadlines>,
    key: (Instant, u64),
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.deadlines.open.lock().by_deadline.remove(&self.key);
    }
}
