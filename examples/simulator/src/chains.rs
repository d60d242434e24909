//! Block hash chains of all prompts of a trace, in two allocations.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use kv_index::BlockHash;
use pointsman_engine_sim::block_pool::IdentityHasher;
use pointsman_engine_sim::scheduler::BlockChains;
use pointsman_lab::SplitMix64;
use pointsman_lab::trace::Trace;

/// Lists of different lengths, by their place.
#[derive(Clone, Debug)]
pub(crate) struct Lists<T> {
    values: Vec<T>,
    /// Where each one ends.
    ends: Vec<usize>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { values: Vec::new(), ends: Vec::new() }
    }
}

impl<T> Lists<T> {
    /// One more.
    pub(crate) fn push(&mut self, list: impl Iterator<Item = T>) {
        self.values.extend(list);
        self.ends.push(self.values.len());
    }

    /// The one at a place.
    pub(crate) fn get(&self, place: u32) -> &[T] {
        let at = place as usize;
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.values[from..self.ends[at]]
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// The hashes of every request's whole blocks, by its place in the trace.
pub(crate) type Chains = Lists<BlockHash>;

impl Chains {
    /// Those of a trace. Its ids are small numbers; hashes are spread over all of them.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut chains = Self::default();
        for request in &trace.requests {
            let ids = request.whole_blocks(trace.block).iter();
            chains.push(ids.map(|&id| BlockHash::new(SplitMix64::new(id).next_u64())));
        }
        chains
    }

    /// Blocks of all of them, and those of them that an earlier one had: what an infinite cache of the whole fleet would hold.
    pub(crate) fn known(&self) -> (u64, u64) {
        let distinct: HashSet<BlockHash, BuildHasherDefault<IdentityHasher>> = self.values.iter().copied().collect();
        (self.values.len() as u64, (self.values.len() - distinct.len()) as u64)
    }
}

impl BlockChains for Chains {
    fn chain(&self, request: u32) -> &[BlockHash] {
        self.get(request)
    }
}
