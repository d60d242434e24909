//! Updates of the index outside of feeds: single events, speculation and its expiry.

use std::time::Instant;

use crate::blocks::{ApplyStats, BlockHash, Event, EventSemantics, Parent, Stored};
use crate::index::Index;
use crate::index::digest::Digest;
use crate::index::pod_update::Entry;
use crate::pods::{Pod, PodRetired, PodSet};
use crate::reclamation::pin;

impl<const WORDS: usize> Index<WORDS> {
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
        self.speculate_after(pod, Parent::Root, chain, deadline)
    }

    /// The same for blocks that follow one which the pod is known to hold: what another router tells of its decisions.
    ///
    /// If the pod does not hold that block here, they are not found before it does.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    pub fn speculate_after(
        &self,
        pod: Pod,
        parent: Parent,
        blocks: &[BlockHash],
        deadline: Instant,
    ) -> Result<ApplyStats, PodRetired> {
        let mut change = self.change(pod)?;
        self.speculating.insert(pod.id());
        change.store(&Stored::new(parent, blocks), Entry::Speculated(deadline));
        self.expiry.set(pod.id(), change.cache().next_expiry());
        Ok(change.finish())
    }

    /// Drops speculated blocks whose deadline has come, in a step of about `budget` blocks.
    ///
    /// Call it now and then, and again while something is left. Where nothing is due it takes no lock: it may be called
    /// before every search.
    pub fn expire(&self, now: Instant, budget: usize) -> Expired {
        let due = self.expiry.tick(now).map(|tick| self.expiry.due(self.speculating.get(), tick));
        due.filter(|due| !due.is_empty()).map_or_else(Expired::default, |due| self.expire_of(due, now, budget))
    }

    #[cold]
    fn expire_of(&self, due: PodSet<WORDS>, now: Instant, budget: usize) -> Expired {
        let (mut step, mut work) = (Expired::default(), 0);
        for id in due {
            if work >= budget.max(1) {
                step.pending = true;
                break;
            }
            let Some(mut change) = self.registry.handle(id).and_then(|pod| self.change(pod).ok()) else { continue };
            change.keeps_nobody_waiting();
            while work < budget.max(1) {
                let Some(due) = change.cache().next_due(now) else { break };
                work += 1;
                if let Some(hash) = due {
                    change.drop_block(hash);
                    step.dropped += 1;
                }
            }
            step.pending |= change.cache().is_due(now);
            self.expiry.set(id, change.cache().next_expiry());
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
        let _still = self.segments.hold_still();
        let mut digest = Digest::EMPTY;
        for segment in cache.segments() {
            self.segments.for_held(pod.id(), segment, &pin, |_, _, blocks| cache.digest(blocks, &mut digest));
        }
        Ok(digest)
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

/// Frees what writers have set aside and no search can see any more, as far as that is possible now.
///
/// Memory is freed in passing by later writes; a host that went quiet after removing a lot
/// can call this to have it back at once.
pub fn collect_garbage() {
    for _ in 0..4 {
        pin().flush();
    }
}
