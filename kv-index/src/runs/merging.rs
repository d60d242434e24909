//! Merging: where a segment (run) goes on in one that the same pods hold, the two become one.
//!
//! Pods that prefill a prompt in step, chunk by chunk, would leave a run for each chunk, and a pod that names a chain from its end
//! a run for each block. The longer of two that are merged is not copied, or at most twice what stays: so a block is copied
//! a logarithm of times in its life, and runs that stay apart along a chain that the same pods hold double in length.
//!
//! The first run takes the second one's blocks over. Its new end is published first, then the directory's entries move one by one, then
//! the head of the second is taken out and the second given up: whoever looks a block up meanwhile finds it in one of the
//! two, and waits for its lock. A search that passed the first run before and finds no second looks at the first again.

use smallvec::SmallVec;

use crate::block::{BlockHash, Parent};
use crate::podset::PodSet;
use crate::reclaim::Pin;
use crate::runs::holders::{Holders, INLINE};
use crate::runs::run::Writing;
use crate::runs::{LONGEST, Place, RunId, Runs};
use crate::sync::Ordering;

impl<const W: usize> Runs<W> {
    /// Merges a run with the one that goes on from it, if that is due, and the result with what waits for its last block.
    pub(crate) fn merge(&self, first: RunId, second: RunId, pin: &Pin) {
        if self.may_merge(first, second, pin) && self.merge_two(first, second, pin) {
            self.merge_awaiting(first, pin);
        }
    }

    /// Merges a run with the one that waits for its last block, as often as that is due.
    pub(crate) fn merge_awaiting(&self, first: RunId, pin: &Pin) {
        loop {
            let view = self.view(first, pin);
            let Some(last) = view.last_block().filter(|_| view.is_current()) else { return };
            let child = self.awaiting(last, pin).filter(|child| *child != first);
            if !child.is_some_and(|child| self.may_merge(first, child, pin) && self.merge_two(first, child, pin)) {
                return;
            }
        }
    }

    /// The run that waits for this block: its first one follows it, and was stored before it.
    pub(super) fn awaiting(&self, hash: BlockHash, pin: &Pin) -> Option<RunId> {
        let waiting = self.directory.candidates(hash, pin).into_iter().filter(|at| at.offset == WAITING);
        waiting.map(|at| at.run).find(|run| {
            let run = self.lock(*run, pin);
            run.waits() && run.parent() == Parent::Block(hash)
        })
    }

    /// Lets a run wait for the block that its first one follows, unless another does.
    pub(super) fn wait(&self, run: &mut Writing<'_, W>, id: RunId, parent: BlockHash, pin: &Pin) {
        let mut known = self.directory.candidates(parent, pin);
        if known.iter().any(|at| at.offset == WAITING) {
            return;
        }
        while let Err(found) = self.directory.insert(parent, Place { run: id, offset: WAITING }, &known, pin) {
            known = found;
        }
        run.set_waits(true);
    }

    /// A run waits no more.
    pub(super) fn wait_no_more(&self, run: &mut Writing<'_, W>, id: RunId, pin: &Pin) {
        if let (true, Parent::Block(parent)) = (run.waits(), run.parent()) {
            self.directory.remove(parent, Place { run: id, offset: WAITING }, pin);
            run.set_waits(false);
        }
    }

    /// Whether it is worth the locks.
    fn may_merge(&self, first: RunId, second: RunId, pin: &Pin) -> bool {
        let (first, second) = (self.view(first, pin), self.view(second, pin));
        let alone = first.base() - second.base();
        first.len() > 0
            && second.len() > 0
            && second.len() <= 2 * first.len()
            && first.len() + second.len() <= LONGEST
            && second.base().is_subset(&first.base())
            && alone.len() <= first.cuts().count() + OTHERS
    }

    /// Merges two runs, unless somebody writes the second one now, or they are not as they seemed; whether it did.
    fn merge_two(&self, id: RunId, second: RunId, pin: &Pin) -> bool {
        let mut first = self.lock(id, pin);
        // Not waited for: where pods lie, a run may follow itself around a corner.
        let Some(mut rest) = self.run(second, pin).try_lock(&self.array_bytes, pin) else { return false };
        // Both being locked: a walk that begins later finds the two as one, whichever it comes to first.
        if self.walks.load(Ordering::SeqCst) > 0 {
            return false;
        }
        let Some(merged) = merged(&first, &rest) else { return false };
        let (from, count) = (first.holders.len() as usize, rest.holders.len() as usize);
        let blocks: SmallVec<[BlockHash; 16]> = (0..count).map(|at| rest.hash(at)).collect();
        first.write_behind(&blocks);
        first.holders = merged;
        // Who noted a place behind the end, which went since, must not find it there again.
        first.end_life();
        first.publish();
        for (at, &hash) in blocks.iter().enumerate() {
            let (old, new) = (Place { run: second, offset: at as u32 }, Place { run: id, offset: (from + at) as u32 });
            self.directory.replace(hash, old, new, pin);
        }
        // Whoever entered a block's other place before its entry moved said so of the second run.
        if rest.is_doubled() {
            first.set_doubled();
        }
        self.wait_no_more(&mut rest, second, pin);
        self.heads.remove(blocks[0], pin);
        rest.end_life();
        rest.holders = Holders::default();
        rest.publish();
        drop(rest);
        drop(first);
        self.give_back(second, pin);
        true
    }
}

/// Who holds what when the second run's blocks are the first one's; none if they are to stay apart.
fn merged<const W: usize>(first: &Writing<'_, W>, second: &Writing<'_, W>) -> Option<Holders<W>> {
    let (a, b) = (&first.holders, &second.holders);
    if a.len() == 0 || b.len() == 0 || b.len() > 2 * a.len() || (a.len() + b.len()) as usize > LONGEST {
        return None;
    }
    let follows = second.parent() == Parent::Block(first.hash(a.len() as usize - 1));
    if !follows || second.is_apart() || first.is_doubled() || a.islands() + b.islands() > 0 {
        return None;
    }
    let mut whole = a.base();
    for cut in a.cuts() {
        whole.remove(cut.pod());
    }
    let short: PodSet<W> = whole - b.base();
    if !b.base().is_subset(&whole) || short.len() > OTHERS || a.cuts().len() + short.len() + b.cuts().len() > INLINE {
        return None;
    }
    Some(a.followed_by(b, short))
}

/// An offset that no block has: the run waits for the block under whose hash this is.
pub(crate) const WAITING: u32 = u16::MAX as u32;

/// Pods that may hold all of the first run and none of the second.
const OTHERS: usize = 1;
