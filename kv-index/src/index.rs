//! [`Index`]: the concurrent prefix index, fed by events, read by searches.

use std::time::Instant;

use crossbeam_utils::CachePadded;

use crate::block::{BlockHash, Parent};
use crate::cache::PodCache;
use crate::change::{Change, Entry};
use crate::config::Config;
use crate::digest::Digest;
use crate::due::Due;
use crate::error::{JoinError, PodRetired};
use crate::event::{ApplyStats, Event, EventSemantics, Stored};
use crate::pod::{Pod, PodId};
use crate::podset::{DEFAULT_POD_WORDS, PodSet};
use crate::reclaim::pin;
use crate::registry::Registry;
use crate::room::Room;
use crate::runs::Runs;
use crate::shared::SharedPodSet;
use crate::spread::Spread;
use crate::sync::{Mutex, MutexGuard};

/// Which pods hold which blocks, and how much of a prompt each of them holds.
///
/// Shared by reference between threads: searches take no lock, but where pods [contradict](crate::Stats::parent_conflicts) each other
/// or are on the [slow path](crate::PodStats::slow_path); writers lock one pod and, for a moment, the runs that they change. `WORDS` is the width of a [`PodSet`].
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
    pub(crate) runs: Runs<WORDS>,
    pub(crate) room: Room,
    pods: Box<[CachePadded<Mutex<PodCache>>]>,
    /// Pods with blocks that nobody has confirmed, and perhaps some that no longer have any.
    speculating: SharedPodSet<WORDS>,
    /// When each pod's next speculated block is due.
    due: Due,
    /// What swept pods had applied in their time.
    pub(crate) past: Mutex<Past>,
}

impl<const WORDS: usize> Index<WORDS> {
    /// An empty index.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let pods = config.max_pods.min(PodSet::<WORDS>::CAPACITY).min(Config::MAX_PODS);
        let config = Config { max_pods: pods, ..config.max_blocks(config.max_blocks) };
        Self {
            config,
            registry: Registry::new(pods),
            runs: Runs::new(Spread::new(config.hash_seed)),
            room: Room::new(config.max_blocks, pods),
            pods: (0..pods).map(|_| CachePadded::new(Mutex::new(PodCache::default()))).collect(),
            speculating: SharedPodSet::new(),
            due: Due::new(pods),
            past: Mutex::new(Past::default()),
        }
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

    /// Applies one event that needs no sequence number: a membership source, or one that never repeats itself.
    ///
    /// A source that may repeat or lose batches goes through a [`Feed`](crate::Feed).
    ///
    /// # Errors
    ///
    /// When the pod is retired; then nothing is changed.
    pub fn apply(&self, pod: Pod, source: EventSemantics, event: &Event<'_>) -> Result<ApplyStats, PodRetired> {
        let mut change = self.change(pod)?;
        change.event(event, source);
        Ok(change.finish())
    }

    /// Lets searches find `chain` on `pod` before its engine reports it, until `deadline`.
    ///
    /// Call it after routing a miss, so that the next request with that prefix follows the first. A block
    /// turns real when its event comes and is dropped by [`Index::expire`] otherwise.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    pub fn speculate(&self, pod: Pod, chain: &[BlockHash], deadline: Instant) -> Result<ApplyStats, PodRetired> {
        let mut change = self.change(pod)?;
        self.speculating.insert(pod.id());
        change.store(&Stored::new(Parent::Root, chain), Entry::Speculated(deadline));
        self.due.set(pod.id(), change.cache().next_expiry());
        Ok(change.finish())
    }

    /// Drops speculated blocks whose deadline has come, in a step of about `budget` blocks.
    ///
    /// Call it now and then, and again while something is left. Where nothing is due it takes no lock: it may be called
    /// before every search.
    pub fn expire(&self, now: Instant, budget: usize) -> Expired {
        let mut step = Expired::default();
        let Some(now_tick) = self.due.tick(now) else { return step };
        let mut work = 0;
        for id in self.speculating.get() {
            if !self.due.is_due(id, now_tick) {
                continue;
            }
            if work >= budget.max(1) {
                step.pending = true;
                break;
            }
            let Some(mut change) = self.registry.handle(id).and_then(|pod| self.change(pod).ok()) else { continue };
            while work < budget.max(1) {
                let Some(due) = change.cache().next_due(now) else { break };
                work += 1;
                if let Some(hash) = due {
                    change.drop_block(hash);
                    step.dropped += 1;
                }
            }
            step.pending |= change.cache().is_due(now);
            self.due.set(id, change.cache().next_expiry());
            // Under the pod's lock, like the insert in `speculate`.
            if change.cache().speculated() == 0 {
                self.speculating.remove(id);
            }
            change.finish();
        }
        step
    }

    /// The digest of what the pod's engine reported, speculation left out. Takes time in proportion to the pod's blocks.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    pub fn digest(&self, pod: Pod) -> Result<Digest, PodRetired> {
        let (cache, pin) = (self.cache(pod)?, pin());
        let _still = self.runs.hold_still();
        let mut digest = Digest::EMPTY;
        for run in cache.runs() {
            self.runs.for_held(pod.id(), run, &pin, |_, _, blocks| cache.digest(blocks, &mut digest));
        }
        Ok(digest)
    }

    /// Locks a live pod's cache.
    pub(crate) fn cache(&self, pod: Pod) -> Result<MutexGuard<'_, PodCache>, PodRetired> {
        let cache = self.pods.get(pod.id().index()).ok_or(PodRetired(pod))?.lock();
        // Under the lock: a retired pod may still be written, since its sweep has yet to come for the lock;
        // a swept one may not, and is no longer live under this generation.
        if self.registry.is_live(pod) { Ok(cache) } else { Err(PodRetired(pod)) }
    }

    pub(crate) fn change(&self, pod: Pod) -> Result<Change<'_, WORDS>, PodRetired> {
        Ok(Change::new(self, pod.id(), self.cache(pod)?))
    }

    /// Locks the cache of whatever pod has this id, dead or alive.
    pub(crate) fn cache_of(&self, id: PodId) -> MutexGuard<'_, PodCache> {
        self.pods[id.index()].lock()
    }
}

/// What a step of expiry did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expired {
    /// Blocks dropped.
    pub dropped: usize,
    /// Whether more are due.
    pub pending: bool,
}

/// What swept pods leave behind.
#[derive(Debug, Default)]
pub(crate) struct Past {
    pub(crate) applied: ApplyStats,
    pub(crate) contradictions: u64,
}

/// Frees what writers have set aside and no search can see any more, as far as that is possible now.
///
/// Memory is freed in passing by later writes; a host that went quiet after removing a lot
/// can call this to have it back at once.
pub fn collect_garbage() {
    for _ in 0..4 {
        pin().flush();
    }
}

#[cfg(all(test, not(routing_loom)))]
mod tests;
