//! Speculative updates: blocks that no engine has confirmed, each confirmed or dropped by its deadline.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::{MANY, PodCache};
use crate::blocks::BlockHash;
use crate::index::state::State;
use crate::map::FixedMap;

impl PodCache {
    /// A block came that the pod did not hold and nobody has confirmed.
    pub(crate) fn speculate(&mut self, hash: BlockHash, deadline: Instant) {
        self.marks.insert(hash, State::default().with(State::SPECULATED));
        self.deadlines.insert(hash, deadline);
        self.speculations += 1;
        self.expiries.push(Reverse((deadline, Reverse(self.speculations), hash)));
        self.bound_expiries();
    }

    /// A speculated block was confirmed, or left.
    pub(super) fn no_longer_speculated(&mut self, hash: BlockHash) {
        self.deadlines.remove(&hash);
        if self.deadlines.is_empty() && self.deadlines.capacity() > MANY {
            self.deadlines = FixedMap::default();
        }
        self.bound_expiries();
    }

    /// Lets go of entries whose blocks left or were confirmed, so that there are hardly more of them than blocks speculated.
    fn bound_expiries(&mut self) {
        if self.expiries.len() <= 2 * self.deadlines.len() + LOOSE {
            return;
        }
        let mut newest = FixedMap::default();
        for Reverse((_, Reverse(order), hash)) in &self.expiries {
            let kept = newest.entry(*hash).or_insert(*order);
            *kept = (*kept).max(*order);
        }
        self.expiries.retain(|Reverse((_, Reverse(order), hash))| {
            self.deadlines.contains_key(hash) && newest.get(hash) == Some(order)
        });
        self.expiries.shrink_to(2 * self.expiries.len() + LOOSE);
    }

    /// Lets a speculated block live until `deadline`, if that is later; does nothing to a real one.
    pub(crate) fn prolong(&mut self, hash: BlockHash, deadline: Instant) {
        if let Some(old) = self.deadlines.get_mut(&hash) {
            *old = deadline.max(*old);
        }
    }

    /// When the next expiry is due; that of a block which was confirmed or given more time counts too.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.expiries.peek().map(|Reverse((deadline, ..))| *deadline)
    }

    /// Whether an expiry is due.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.next_expiry().is_some_and(|deadline| deadline <= now)
    }

    /// Takes the next expiry that is due: the block to drop, or none if it was confirmed or given more time.
    pub(crate) fn next_due(&mut self, now: Instant) -> Option<Option<BlockHash>> {
        if !self.is_due(now) {
            return None;
        }
        let Reverse((_, order, hash)) = self.expiries.pop()?;
        let due = match self.deadlines.get(&hash).copied() {
            Some(later) if later > now => {
                self.expiries.push(Reverse((later, order, hash)));
                None
            }
            Some(_) => Some(hash),
            None => None,
        };
        if self.expiries.is_empty() {
            self.expiries = BinaryHeap::new();
        }
        Some(due)
    }
}

/// Entries of blocks that left which are not worth the walk.
const LOOSE: usize = 64;
