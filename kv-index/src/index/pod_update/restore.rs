//! Blocks of a snapshot, put back parents first.

use smallvec::SmallVec;

use crate::blocks::{BlockHash, Parent};
use crate::index::detail::Detail;
use crate::index::pod_update::PodUpdate;
use crate::map::FixedMap;

/// What a pod's block is restored from.
pub(crate) type RestoredBlock = (BlockHash, Parent, Detail);

impl<const W: usize> PodUpdate<'_, W> {
    /// Puts a snapshot's blocks back, as far as they fit; false if one is there twice.
    ///
    /// Parents before their children, whatever the order: a child that came first would take room for itself meanwhile.
    pub(crate) fn restore(&mut self, blocks: &[RestoredBlock]) -> bool {
        self.keeps_nobody_waiting();
        let at: FixedMap<BlockHash, usize> = blocks.iter().enumerate().map(|(i, (hash, ..))| (*hash, i)).collect();
        if at.len() < blocks.len() {
            return false;
        }
        let mut behind: FixedMap<BlockHash, SmallVec<[usize; 1]>> = FixedMap::default();
        let mut ready = Vec::new();
        for (i, (_, parent, _)) in blocks.iter().enumerate() {
            match parent {
                Parent::Block(parent) if at.contains_key(parent) => behind.entry(*parent).or_default().push(i),
                _ => ready.push(i),
            }
        }
        ready.reverse();
        let mut left = blocks.len();
        while let Some(i) = ready.pop().or_else(|| any_of(&mut behind)) {
            let (hash, parent, detail) = &blocks[i];
            if !self.replace(*hash, *parent, detail) {
                self.refuse(left);
                break;
            }
            left -= 1;
            ready.extend(behind.remove(hash).into_iter().flatten());
        }
        true
    }
}

/// One of blocks that follow each other in a circle, so that none is the first: no engine has such.
fn any_of(behind: &mut FixedMap<BlockHash, SmallVec<[usize; 1]>>) -> Option<usize> {
    let parent = *behind.keys().next()?;
    let waiting = behind.get_mut(&parent)?;
    let one = waiting.pop();
    if waiting.is_empty() {
        behind.remove(&parent);
    }
    one
}
