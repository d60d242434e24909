//! Copies and locations of one block on one pod, per tier.

use smallvec::SmallVec;

use crate::blocks::{Location, Tier};
use crate::index::state::State;

/// What a block's state byte has no room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Detail {
    pub(crate) copies: [u32; 4],
    pub(crate) locations: SmallVec<[(Tier, Location); 1]>,
}

impl Detail {
    pub(crate) fn is_trivial(&self) -> bool {
        self.locations.is_empty() && self.copies.iter().all(|&n| n <= 1)
    }

    pub(crate) fn relocate(&mut self, tier: Tier, location: Option<Location>) {
        self.locations.retain(|(t, _)| *t != tier);
        if let Some(location) = location {
            self.locations.push((tier, location));
            self.locations.sort_by_key(|(t, _)| *t);
        }
    }

    /// What the state byte alone says: one copy in each tier it names.
    pub(crate) fn plain(state: State) -> Self {
        let copies = std::array::from_fn(|tier| u32::from(state.tiers() >> tier & 1));
        Self { copies, locations: SmallVec::new() }
    }
}
