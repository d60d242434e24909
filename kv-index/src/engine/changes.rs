//! A batch as index updates, coalesced in reusable buffers.

use std::ops::Range;

use crate::blocks::{BlockHash, ChangeObserver, Event, EventSemantics, Parent, Removed, Stored, Tier};
use crate::index::pod_update::PodUpdate;

use super::pages::CopiesLeft;

/// A batch in the index's terms.
#[derive(Debug, Default)]
pub(super) struct Changes {
    blocks: Vec<BlockHash>,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Stored { parent: Parent, tier: Tier, blocks: Range<usize> },
    Removed { tier: Tier, blocks: Range<usize>, left: CopiesLeft },
    Cleared,
}

impl Changes {
    pub(super) fn reset(&mut self) {
        self.blocks.clear();
        self.steps.clear();
    }

    /// A block came; it joins the store before it where that goes on to it.
    pub(super) fn stored(&mut self, parent: Parent, block: BlockHash, tier: Tier) {
        let at = self.blocks.len();
        let follows = self.blocks.last().is_some_and(|&last| parent == Parent::Block(last));
        match self.steps.last_mut() {
            Some(Step::Stored { tier: last, blocks, .. }) if *last == tier && follows => blocks.end = at + 1,
            _ => self.steps.push(Step::Stored { parent, tier, blocks: at..at + 1 }),
        }
        self.blocks.push(block);
    }

    /// Copies of a block left.
    pub(super) fn removed(&mut self, block: BlockHash, tier: Tier, left: CopiesLeft) {
        let at = self.blocks.len();
        match self.steps.last_mut() {
            Some(Step::Removed { tier: other, blocks, left: copies }) if (*other, *copies) == (tier, left) => {
                blocks.end = at + 1;
            }
            _ => self.steps.push(Step::Removed { tier, blocks: at..at + 1, left }),
        }
        self.blocks.push(block);
    }

    /// Everything left.
    pub(super) fn cleared(&mut self) {
        self.steps.push(Step::Cleared);
    }

    /// Carries the batch out on a pod, whose stores count what `stores` says.
    pub(super) fn apply<const WORDS: usize>(&self, change: &mut PodUpdate<'_, WORDS>, stores: EventSemantics) {
        change.prefetch(self.steps.iter().map(|step| step.event(&self.blocks)));
        for step in &self.steps {
            let event = step.event(&self.blocks);
            match (event, step.copies_left()) {
                (Event::Removed(removed), CopiesLeft::NoneAnywhere) => {
                    change.drop_blocks(removed.blocks);
                    change.commit();
                    change.lets_others_in();
                }
                (Event::Removed(removed), CopiesLeft::Known(1..)) => {
                    // Not the last that we know of: the engine has others.
                    for hash in removed.blocks {
                        if change.cache().copies_of(*hash, removed.tier) > 1 {
                            let one = Removed { blocks: std::slice::from_ref(hash), ..removed };
                            change.event(&Event::Removed(one), EventSemantics::Copies);
                        }
                    }
                }
                (Event::Removed(_), CopiesLeft::Known(0)) => change.event(&event, EventSemantics::Membership),
                (Event::Removed(_), CopiesLeft::OneLess) => change.event(&event, EventSemantics::Copies),
                _ => change.event(&event, stores),
            }
        }
    }

    /// Whether the batch empties the cache.
    pub(super) fn has_cleared(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Cleared))
    }

    /// Tells an observer of the batch: of what left every tier as of one that it was in, and not of copies where others stay.
    pub(super) fn observe(&self, observer: &dyn ChangeObserver) {
        let told = self.steps.iter().filter(|step| !matches!(step.copies_left(), CopiesLeft::Known(1..)));
        told.for_each(|step| observer.changed(&step.event(&self.blocks)));
    }

    /// The events, in order.
    #[cfg(test)]
    pub(super) fn events(&self) -> impl Iterator<Item = Event<'_>> {
        self.steps.iter().map(|step| step.event(&self.blocks))
    }
}

impl Step {
    fn event<'b>(&self, blocks: &'b [BlockHash]) -> Event<'b> {
        match self {
            Self::Stored { parent, tier, blocks: range } => {
                Event::Stored(Stored::new(*parent, &blocks[range.clone()]).in_tier(*tier))
            }
            Self::Removed { tier, blocks: range, .. } => {
                Event::Removed(Removed { blocks: &blocks[range.clone()], tier: *tier })
            }
            Self::Cleared => Event::Cleared,
        }
    }

    /// What a removal says of copies.
    fn copies_left(&self) -> CopiesLeft {
        if let Self::Removed { left, .. } = self { *left } else { CopiesLeft::OneLess }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_follow_each_other_travel_together() {
        let hash = BlockHash::new;
        let mut changes = Changes::default();
        changes.stored(Parent::Root, hash(1), Tier::Gpu);
        changes.stored(Parent::Block(hash(1)), hash(2), Tier::Gpu);
        changes.stored(Parent::Block(hash(2)), hash(3), Tier::Host);
        changes.stored(Parent::Block(hash(1)), hash(4), Tier::Host);
        changes.removed(hash(2), Tier::Gpu, CopiesLeft::OneLess);
        changes.removed(hash(1), Tier::Gpu, CopiesLeft::OneLess);
        changes.removed(hash(3), Tier::Host, CopiesLeft::OneLess);
        changes.cleared();
        let events: Vec<_> = changes.events().collect();
        assert_eq!(events[0], Event::Stored(Stored::prompt(&[hash(1), hash(2)])));
        assert_eq!(events[1], Event::Stored(Stored::new(Parent::Block(hash(2)), &[hash(3)]).in_tier(Tier::Host)));
        assert_eq!(events[2], Event::Stored(Stored::new(Parent::Block(hash(1)), &[hash(4)]).in_tier(Tier::Host)));
        assert_eq!(events[3], Event::Removed(Removed { blocks: &[hash(2), hash(1)], tier: Tier::Gpu }));
        assert_eq!(events[4], Event::Removed(Removed { blocks: &[hash(3)], tier: Tier::Host }));
        assert_eq!(events[5..], [Event::Cleared]);
        changes.reset();
        assert_eq!(changes.events().count(), 0);
    }
}
