//! Block hash chains of all prompts of a trace, in two allocations.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use kv_index::BlockHash;
use pointsman_engine_sim::block_pool::IdentityHasher;
use pointsman_engine_sim::scheduler::BlockChains;
use pointsman_lab::trace::Trace;

/// The hashes of every request's whole blocks, by its place in the trace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chains {
    hashes: Vec<BlockHash>,
    /// Where each one ends.
    ends: Vec<usize>,
}

impl Chains {
    /// Those of a trace.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut chains = Self::default();
        for request in &trace.requests {
            chains.push(request.whole_blocks(trace.block).iter().map(|&id| hash(id)));
        }
        chains
    }

    /// One more.
    pub(crate) fn push(&mut self, chain: impl Iterator<Item = BlockHash>) {
        self.hashes.extend(chain);
        self.ends.push(self.hashes.len());
    }

    /// The chain of a request.
    pub(crate) fn get(&self, request: u32) -> &[BlockHash] {
        let at = request as usize;
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.hashes[from..self.ends[at]]
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Blocks of all of them, and those of them that an earlier one had: what an infinite cache of the whole fleet would hold.
    pub(crate) fn known(&self) -> (u64, u64) {
        let distinct: HashSet<BlockHash, BuildHasherDefault<IdentityHasher>> = self.hashes.iter().copied().collect();
        (self.hashes.len() as u64, (self.hashes.len() - distinct.len()) as u64)
    }
}

impl BlockChains for Chains {
    fn chain(&self, request: u32) -> &[BlockHash] {
        self.get(request)
    }
}

/// Ids of traces are small numbers; hashes are spread over all of them.
fn hash(id: u64) -> BlockHash {
    let mut bits = id.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    BlockHash::new(bits ^ bits >> 31)
}
