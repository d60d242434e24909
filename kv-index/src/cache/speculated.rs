//! Blocks that nobody has confirmed: each is real or gone by its deadline.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use super::PodCache;
use crate::block::{BlockHash, Parent};
use crate::held::State;
use crate::runs::Follow;

impl PodCache {
    /// Adds a block the pod does not hold and nobody has confirmed; whether it holds blocks under it already.
    pub(crate) fn insert_speculated(&mut self, hash: BlockHash, parent: Parent, deadline: Instant) -> Follow {
        let mut held = self.link(parent);
        held.state = held.state.with(State::SPECULATED);
        self.set_deadline(hash, held.position, deadline);
        self.fill(hash, held)
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
        let Reverse((_, position, hash)) = self.expiries.pop()?;
        let due = match self.deadlines.get(&hash).copied() {
            Some(later) if later > now => {
                self.expiries.push(Reverse((later, position, hash)));
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

    fn set_deadline(&mut self, hash: BlockHash, position: Option<u32>, deadline: Instant) {
        self.deadlines.insert(hash, deadline);
        self.expiries.push(Reverse((deadline, Reverse(position.unwrap_or(u32::MAX)), hash)));
    }
}
