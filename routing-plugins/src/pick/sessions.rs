//! Session table: bindings of sessions to pods, bounded, with a time to live.

mod shard;

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::Pod;
use parking_lot::{Mutex, MutexGuard};
use shard::Shard;

use super::chance::mix;
use crate::parameters::parameters;
use crate::peers::Outbox;

parameters! {
    /// How many sessions are remembered, and how long.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct SessionLimits {
        /// Sessions at most; 65,536 unless given.
        pub most: NonZeroUsize = const { NonZeroUsize::new(65_536).expect("not 0") },
        /// Seconds after its last request that a session is forgotten; 300 unless given.
        pub ttl_seconds: NonZeroU32 = const { NonZeroU32::new(300).expect("not 0") },
    }
}

/// The pods that sessions are bound to: shared by a host between pickers, scorers and whoever watches the fleet.
///
/// Never more than [`most`](SessionLimits::most) sessions. When there is no room, the one whose last request is longest ago
/// makes some: that is an expired one, if there is any. All of it takes constant time. A large table has several locks,
/// each for its share of the sessions, and room is made in the share of the session that comes.
///
/// Steps of one workflow that choose different pods for one session need a table each.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use kv_index::{Config, Index};
/// use routing_plugins::pick::Sessions;
///
/// let index: Index = Index::new(Config::default());
/// let (pod, now) = (index.join("pod-0")?, Instant::now());
/// let sessions = Sessions::default();
/// sessions.bind(7, pod, now);
/// assert_eq!(sessions.bound(7, now + Duration::from_secs(299)), Some(pod));
/// assert_eq!(sessions.bound(7, now + Duration::from_secs(300)), None);
/// # Ok::<(), kv_index::JoinError>(())
/// ```
#[derive(Debug)]
pub struct Sessions {
    ttl: Duration,
    /// As many as a power of two.
    shards: Box<[Mutex<Shard>]>,
    /// The table's name, and where peers are told from.
    told: Option<(Arc<str>, Arc<Outbox<SessionNote>>)>,
}

/// A session's turn that went to a pod.
#[derive(Clone, Debug)]
pub(crate) struct SessionNote {
    pub(crate) table: Arc<str>,
    pub(crate) session: u64,
    pub(crate) pod: Pod,
    pub(crate) at: Instant,
}

impl Sessions {
    /// No session is bound.
    #[must_use]
    pub fn new(limits: SessionLimits) -> Self {
        let most = limits.most.get();
        // Small tables stay whole: a share of few sessions would run full long before the others.
        let count = (most / LEAST_SHARE).clamp(1, SHARDS);
        let count = 1 << count.ilog2();
        let share = |at| most / count + usize::from(at < most % count);
        let shards = (0..count).map(|at| Mutex::new(Shard::new(share(at)))).collect();
        Self { ttl: Duration::from_secs(limits.ttl_seconds.get().into()), shards, told: None }
    }

    /// The same, whose turns peers are told of under a name.
    pub(crate) fn telling(self, name: &str, outbox: Arc<Outbox<SessionNote>>) -> Self {
        Self { told: Some((name.into(), outbox)), ..self }
    }

    /// Binds a session to a pod, wherever it was before.
    ///
    /// For hosts that learn that a session went elsewhere, such as after a failover.
    pub fn bind(&self, session: u64, pod: Pod, now: Instant) {
        self.shard(session).bind(session, pod, now);
        self.tell(session, pod, now);
    }

    /// A peer's turn of a session went to a pod.
    pub(crate) fn hear(&self, session: u64, pod: Pod, at: Instant) {
        self.shard(session).hear(session, pod, at);
    }

    fn tell(&self, session: u64, pod: Pod, at: Instant) {
        if let Some((table, outbox)) = &self.told {
            outbox.push(|| SessionNote { table: Arc::clone(table), session, pod, at });
        }
    }

    /// Lets go of every session of a pod; how many there were.
    ///
    /// Takes time in proportion to the sessions there are. Pods that left need not be forgotten, since a handle never names
    /// another one: it makes room sooner.
    pub fn forget(&self, pod: Pod) -> usize {
        self.shards.iter().map(|shard| shard.lock().forget(pod)).sum()
    }

    /// The pod that a session is bound to at this time. Asking is no use of it.
    #[must_use]
    pub fn bound(&self, session: u64, now: Instant) -> Option<Pod> {
        self.shard(session).bound(session, now, self.ttl)
    }

    /// Sessions that are remembered, expired ones that nobody needed the room of included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Whether no session is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The pod that a session is bound to, if it may stay there; it then has its time anew.
    pub(super) fn renew(&self, session: u64, now: Instant, stays: impl Fn(Pod) -> bool) -> Option<Pod> {
        let mut shard = self.shard(session);
        let pod = shard.bound(session, now, self.ttl).filter(|pod| stays(*pod))?;
        shard.bind(session, pod, now);
        drop(shard);
        self.tell(session, pod, now);
        Some(pod)
    }

    /// Binds a session, unless it is bound meanwhile and may stay there; where it is then.
    pub(super) fn settle(&self, session: u64, pod: Pod, now: Instant, stays: impl Fn(Pod) -> bool) -> Pod {
        // Under one lock: of two requests of a new session, the second goes where the first went.
        let mut shard = self.shard(session);
        let pod = shard.bound(session, now, self.ttl).filter(|bound| stays(*bound)).unwrap_or(pod);
        shard.bind(session, pod, now);
        drop(shard);
        self.tell(session, pod, now);
        pod
    }

    fn shard(&self, session: u64) -> MutexGuard<'_, Shard> {
        self.shards[mix(session) as usize & (self.shards.len() - 1)].lock()
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Self::new(SessionLimits::default())
    }
}

/// Locks of a large table: more than a gateway has threads, mostly.
const SHARDS: usize = 64;

/// Sessions that are worth a lock of their own.
const LEAST_SHARE: usize = 256;

#[cfg(test)]
mod tests;
