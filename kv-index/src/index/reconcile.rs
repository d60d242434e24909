//! Anti-entropy repair: a pod's full inventory against the index, writing only the difference.

use crate::blocks::{ApplyStats, BlockHash, Location, Parent, Tier};
use crate::index::Index;
use crate::index::detail::Detail;
use crate::index::pod_update::PodUpdate;
use crate::map::FixedMap;
use crate::pods::{Pod, PodRetired};

/// A block in one tier of a pod, as the pod itself lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InventoryBlock {
    /// The block.
    pub hash: BlockHash,
    /// What it follows. Listed parent before child, no block has to wait for it.
    pub parent: Parent,
    /// Where it is.
    pub tier: Tier,
    /// How many physical copies there are; a block listed twice counts twice.
    pub copies: u32,
    /// Where in the tier it lies, if that matters.
    pub location: Option<Location>,
}

impl InventoryBlock {
    /// One copy in GPU memory.
    #[must_use]
    pub const fn new(hash: BlockHash, parent: Parent) -> Self {
        Self { hash, parent, tier: Tier::Gpu, copies: 1, location: None }
    }
}

/// Everything a pod holds, under a number of one of its streams: what happened before that number is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a batch's number with blocks in place of events: complete by nature")]
pub struct Inventory<'a> {
    /// The incarnation of the source.
    pub incarnation: u64,
    /// The inventory's own number in that incarnation.
    pub sequence: u64,
    /// The blocks, those of the pod's other streams included.
    pub blocks: &'a [InventoryBlock],
}

impl<const WORDS: usize> Index<WORDS> {
    /// Makes what the index believes of `pod` equal to `inventory`, touching only what differs.
    ///
    /// Takes time in proportion to that pod's blocks, during which its feeds wait. Speculated blocks stay
    /// speculated unless the inventory has them. Afterwards the pod's [`Digest`](crate::Digest) is that of
    /// the inventory, unless blocks were refused; here each for itself.
    ///
    /// # Errors
    ///
    /// When the pod is retired; then nothing is changed.
    pub fn reconcile(&self, pod: Pod, inventory: &[InventoryBlock]) -> Result<ApplyStats, PodRetired> {
        let mut change = self.change(pod)?;
        change.reconcile(inventory);
        Ok(change.finish())
    }
}

impl<const WORDS: usize> PodUpdate<'_, WORDS> {
    /// Makes the pod's blocks those of the inventory. A block of both is there all the while.
    pub(crate) fn reconcile(&mut self, inventory: &[InventoryBlock]) {
        self.keeps_nobody_waiting();
        let mut wanted = gather(inventory);
        let mut lost = Vec::new();
        self.for_real(|hash| {
            if !wanted.contains_key(&hash) {
                lost.push(hash);
            }
        });
        self.drop_blocks(&lost);
        self.commit();
        // In the inventory's order, each block once.
        for block in inventory {
            let Some((parent, detail)) = wanted.remove(&block.hash) else { continue };
            if !self.replace(block.hash, parent, &detail) {
                self.refuse(1);
            }
        }
    }
}

/// Tiers and copies by block.
fn gather(inventory: &[InventoryBlock]) -> FixedMap<BlockHash, (Parent, Detail)> {
    let mut wanted: FixedMap<BlockHash, (Parent, Detail)> = FixedMap::default();
    for block in inventory.iter().filter(|block| block.copies > 0) {
        let (parent, detail) = wanted.entry(block.hash).or_insert((block.parent, Detail::default()));
        if *parent == Parent::Unknown {
            *parent = block.parent;
        }
        let copies = &mut detail.copies[block.tier.index()];
        *copies = copies.saturating_add(block.copies);
        if block.location.is_some() {
            detail.relocate(block.tier, block.location);
        }
    }
    wanted
}
