//! Tier map of a prompt on the chosen pod: where its blocks lie. Never read by a search.

use crate::blocks::{BlockHash, Location, Tier};
use crate::index::Index;
use crate::index::cache::PodCache;
use crate::pods::{Pod, PodRetired};
use crate::reclamation::pin;

/// Leading blocks of a chain that lie together in one tier of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierSpan {
    /// Where they are.
    pub tier: Tier,
    /// The first block's position in the chain.
    pub from: usize,
    /// One past the last block's position.
    pub to: usize,
    /// Where in the tier they lie, if the source said: adjoining blocks as one piece.
    pub location: Option<Location>,
}

impl<const WORDS: usize> Index<WORDS> {
    /// Finds where `pod` keeps the leading blocks of `chain` that it really holds; how many those are.
    ///
    /// `spans` is cleared and gets each tier's spans, fastest tier first; a block in two tiers is in both.
    /// With several copies in a tier, the location is the one announced last.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    pub fn locate(&self, pod: Pod, chain: &[BlockHash], spans: &mut Vec<TierSpan>) -> Result<usize, PodRetired> {
        spans.clear();
        let cache = self.cache(pod)?;
        let real = chain[..self.announced_in(&cache, pod, chain)].iter().map_while(|hash| cache.real(*hash));
        let mut depth = 0;
        for detail in real {
            for tier in Tier::ALL {
                if detail.copies[tier.index()] > 0 {
                    let location = detail.locations.iter().find(|(t, _)| *t == tier).map(|(_, l)| *l);
                    extend(spans, TierSpan { tier, from: depth, to: depth + 1, location });
                }
            }
            depth += 1;
        }
        spans.sort_by_key(|span| (span.tier, span.from));
        Ok(depth)
    }

    /// How many leading blocks of `chain` the pod's engine announced, where a search counts what is speculated too.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    pub fn announced(&self, pod: Pod, chain: &[BlockHash]) -> Result<usize, PodRetired> {
        Ok(self.announced_in(&*self.cache(pod)?, pod, chain))
    }

    fn announced_in(&self, cache: &PodCache, pod: Pod, chain: &[BlockHash]) -> usize {
        let (mut held, pin) = (0, pin());
        loop {
            match self.segments.stride(pod.id(), &chain[held..], &pin) {
                0 => break,
                stride => held += stride,
            }
        }
        if cache.speculated() == 0 {
            return held;
        }
        chain[..held].iter().position(|hash| cache.is_speculated(*hash)).unwrap_or(held)
    }

    /// Whether blocks of a pod may be speculated: without a lock, and true for a while after the last of them is gone.
    #[must_use]
    pub fn has_speculated(&self, pod: Pod) -> bool {
        self.speculating.get().contains(pod.id())
    }
}

/// Adds one block's span, to the tier's last one if it adjoins that.
fn extend(spans: &mut Vec<TierSpan>, block: TierSpan) {
    if let Some(last) = spans.iter_mut().rev().find(|span| span.tier == block.tier) {
        let adjoins = match (last.location, block.location) {
            (None, None) => Some(None),
            (Some(a), Some(b)) if a.device == b.device && a.offset.checked_add(a.length) == Some(b.offset) => {
                a.length.checked_add(b.length).map(|length| Some(Location { length, ..a }))
            }
            _ => None,
        };
        if let Some(location) = adjoins.filter(|_| last.to == block.from) {
            last.to = block.to;
            last.location = location;
            return;
        }
    }
    spans.push(block);
}

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use super::*;
    use crate::{Config, Event, EventSemantics, Parent, Stored};

    fn location(offset: u64) -> Location {
        Location { device: 0, offset, length: 10 }
    }

    #[test]
    fn spans_come_fastest_tier_first_and_adjoining_blocks_as_one() {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").unwrap();
        let chain: Vec<BlockHash> = (1..=6).map(BlockHash::new).collect();
        let places = [location(0), location(10), location(50)];
        let store = |stored| index.apply(pod, EventSemantics::Membership, &Event::Stored(stored)).unwrap();
        store(Stored { locations: &places, ..Stored::prompt(&chain[..3]) });
        store(Stored::new(Parent::Block(chain[1]), &chain[2..5]).in_tier(Tier::Disk));
        store(Stored::new(Parent::Block(chain[4]), &chain[5..]).in_tier(Tier::Host));
        let mut segments = Vec::new();
        assert_eq!(index.locate(pod, &chain, &mut segments), Ok(6));
        let segment = |tier, from, to, location| TierSpan { tier, from, to, location };
        assert_eq!(
            segments,
            [
                segment(Tier::Gpu, 0, 2, Some(Location { device: 0, offset: 0, length: 20 })),
                segment(Tier::Gpu, 2, 3, Some(location(50))),
                segment(Tier::Host, 5, 6, None),
                segment(Tier::Disk, 2, 5, None),
            ]
        );
    }

    #[test]
    fn speculated_blocks_are_not_located() {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").unwrap();
        let chain: Vec<BlockHash> = (1..=4).map(BlockHash::new).collect();
        index.apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&chain[..2]))).unwrap();
        index.speculate(pod, &chain, crate::model::origin()).unwrap();
        let mut segments = Vec::new();
        assert_eq!(index.locate(pod, &chain, &mut segments), Ok(2));
        assert_eq!((index.announced(pod, &chain), index.has_speculated(pod)), (Ok(2), true));
        index.expire(crate::model::origin(), 100);
        assert_eq!((index.announced(pod, &chain), index.has_speculated(pod)), (Ok(2), false));
        index.retire(pod);
        assert_eq!(index.locate(pod, &chain, &mut segments), Err(PodRetired(pod)));
        assert_eq!(index.announced(pod, &chain), Err(PodRetired(pod)));
    }
}
