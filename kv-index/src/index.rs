//! [`Index`]: the concurrent prefix index, fed by events, read by searches.

// What an index has.
pub(crate) mod cache;
pub(crate) mod config;
pub(crate) mod detail;
pub(crate) mod digest;
mod expiry;
mod room;
mod state;
pub(crate) mod streams;

// What is done with one; none of these is imported above.
pub(crate) mod locate;
pub(crate) mod matches;
pub(crate) mod pod_update;
pub(crate) mod reconcile;
mod search;
pub(crate) mod snapshot;
pub(crate) mod stats;
pub(crate) mod sweep;
pub(crate) mod updates;

use crossbeam_utils::CachePadded;

use crate::blocks::ApplyStats;
use crate::directory::spread::Spread;
use crate::index::cache::PodCache;
use crate::index::config::Config;
use crate::index::expiry::Expiry;
use crate::index::room::Room;
use crate::pods::registry::Registry;
use crate::pods::{AtomicPodSet, DEFAULT_POD_WORDS, JoinError, Pod, PodId, PodRetired, PodSet};
use crate::segments::Segments;
use crate::sync::{Mutex, MutexGuard};
use crate::writers::WriterGate;

/// Which pods hold which blocks, and how much of a prompt each of them holds.
///
/// Shared by reference between threads: searches take no lock, but where pods [contradict](crate::Stats::parent_conflicts) each other
/// or are on the [slow path](crate::PodStats::slow_path); writers lock one pod and, for a moment, the segments that they change. `WORDS` is the width of a [`PodSet`].
///
/// # Examples
///
/// ```
/// use kv_index::{BlockHash, Config, Event, Index, Matches, EventSemantics, Stored};
///
/// let index: Index = Index::new(Config::default());
/// let (warm, cold) = (index.join("warm")?, index.join("cold")?);
/// let prompt: Vec<BlockHash> = (1..=8).map(BlockHash::new).collect();
/// index.apply(warm, EventSemantics::Membership, &Event::Stored(Stored::prompt(&prompt[..6])))?;
///
/// let mut matches = Matches::default();
/// index.search(&prompt, &mut matches);
/// assert_eq!(matches.depth(warm.id()), 6);
/// assert_eq!(matches.depth(cold.id()), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Index<const WORDS: usize = DEFAULT_POD_WORDS> {
    pub(crate) config: Config,
    pub(crate) registry: Registry<WORDS>,
    pub(crate) segments: Segments<WORDS>,
    pub(crate) writers: WriterGate,
    pub(crate) room: Room,
    pods: Box<[CachePadded<Mutex<PodCache>>]>,
    /// Pods with blocks that nobody has confirmed, and perhaps some that no longer have any.
    speculating: AtomicPodSet<WORDS>,
    /// When each pod's next speculated block is due.
    expiry: Expiry,
    /// What swept pods had applied in their time.
    pub(crate) past: Mutex<Past>,
}

impl Index {
    /// An empty index for up to 256 pods; [`Self::with_width`] makes one for more or fewer.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self::with_width(config)
    }
}

impl<const WORDS: usize> Index<WORDS> {
    /// An empty index for 64 pods a word: `Index::<16>::with_width(config)` has room for 1,024.
    #[must_use]
    pub fn with_width(config: Config) -> Self {
        let pods = config.max_pods.min(PodSet::<WORDS>::CAPACITY).min(Config::MAX_PODS);
        let config = Config { max_pods: pods, ..config.max_blocks(config.max_blocks) };
        Self {
            config,
            registry: Registry::new(pods),
            segments: Segments::new(Spread::new(config.hash_seed)),
            writers: WriterGate::new(),
            room: Room::new(config.max_blocks, pods),
            pods: (0..pods).map(|_| CachePadded::new(Mutex::new(PodCache::default()))).collect(),
            speculating: AtomicPodSet::new(),
            expiry: Expiry::new(pods),
            past: Mutex::new(Past::default()),
        }
    }

    /// Pods that may be joined at once, retired ones included until they are swept: what the configuration asked for, or the width.
    #[must_use]
    pub fn max_pods(&self) -> usize {
        self.config.max_pods
    }

    /// Adds a pod and hands out its id.
    ///
    /// A pod that comes back while its earlier self is being swept gets a fresh id.
    ///
    /// # Errors
    ///
    /// When every id is in use, or a live pod has this name.
    pub fn join(&self, name: &str) -> Result<Pod, JoinError> {
        self.registry.join(name)
    }

    /// The live pod of this name.
    #[must_use]
    pub fn pod(&self, name: &str) -> Option<Pod> {
        self.registry.pod(name)
    }

    /// The name a live pod joined under.
    #[must_use]
    pub fn name(&self, pod: Pod) -> Option<String> {
        self.registry.name(pod)
    }

    /// The handle of the live pod that has this id now.
    #[must_use]
    pub fn handle(&self, id: PodId) -> Option<Pod> {
        self.registry.handle(id)
    }

    /// Hides a pod from searches: what is known of its cache stays, and is fed further, but may be untrue.
    ///
    /// For an owner of a connection that broke: the engine behind it may have restarted. [`Self::resume`] once it is known
    /// to be the same, or was cleared. False if the pod is retired.
    ///
    /// # Examples
    ///
    /// ```
    /// use kv_index::{BlockHash, Config, Event, EventSemantics, Index, Matches, Stored};
    ///
    /// let index: Index = Index::new(Config::default());
    /// let pod = index.join("a")?;
    /// let (chain, mut matches) = ([BlockHash::new(1)], Matches::default());
    /// index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(&chain)))?;
    /// index.suspend(pod);
    /// index.search(&chain, &mut matches);
    /// assert_eq!(matches.depth(pod.id()), 0);
    /// index.resume(pod);
    /// index.search(&chain, &mut matches);
    /// assert_eq!(matches.depth(pod.id()), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn suspend(&self, pod: Pod) -> bool {
        self.registry.set_hidden(pod, true)
    }

    /// Shows a suspended pod to searches again. False if the pod is retired.
    pub fn resume(&self, pod: Pod) -> bool {
        self.registry.set_hidden(pod, false)
    }

    /// The pods that searches report: those that joined and are neither retired nor suspended.
    #[must_use]
    pub fn alive(&self) -> PodSet<WORDS> {
        self.registry.alive()
    }

    /// Locks a live pod's cache.
    pub(crate) fn cache(&self, pod: Pod) -> Result<MutexGuard<'_, PodCache>, PodRetired> {
        let cache = self.pods.get(pod.id().index()).ok_or(PodRetired(pod))?.lock();
        // Under the lock: a retired pod may still be written, since its sweep has yet to come for the lock;
        // a swept one may not, and is no longer live under this generation.
        if self.registry.is_live(pod) { Ok(cache) } else { Err(PodRetired(pod)) }
    }

    /// Locks the cache of whatever pod has this id, dead or alive.
    pub(crate) fn cache_of(&self, id: PodId) -> MutexGuard<'_, PodCache> {
        self.pods[id.index()].lock()
    }
}

/// What swept pods leave behind.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub(crate) applied: ApplyStats,
    pub(crate) contradictions: u64,
}

#[cfg(all(test, not(routing_loom)))]
mod tests;
