//! Placement in the block tree: behind the parent, into a segment (run) that begins with the block, or into a new one.
//!
//! Whoever makes a place for a block holds the lock of its parent's run while it looks whether there is one and
//! until the new one can be found. Two runs are locked at once only where the second is not yet known to anybody.

use crate::block::BlockHash;
use crate::heads::Heads;
use crate::pod::PodId;
use crate::reclaim::Pin;
use crate::runs::holders::{Holders, INLINE};
use crate::runs::run::{Family, Writing};
use crate::runs::{LONGEST, Place, RunId, Runs};
use crate::sync::Ordering;

/// What new blocks follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    /// Nothing: a prompt starts with them.
    Root,
    /// This block, which the pod holds here.
    Behind(BlockHash, Place),
}

impl Anchor {
    fn parent(self) -> Option<BlockHash> {
        match self {
            Self::Root => None,
            Self::Behind(parent, _) => Some(parent),
        }
    }
}

/// What became of an attempt to place blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    Taken(Taken),
    /// The first block is known to follow something else.
    Contradicted,
    /// The first block needs room, and there is none.
    Full,
}

/// Blocks that were placed: the first `count`, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) first: Place,
    pub(crate) count: usize,
    /// Of these, how many nobody held before.
    pub(crate) entered: usize,
}

impl<const W: usize> Runs<W> {
    /// Places the first of `blocks`, and as many more as go to the same run, and lets `pod` hold them.
    ///
    /// The pod holds none of them. There is room for all of them, or there is one block and `room` says whether
    /// it may be one that nobody holds.
    pub(crate) fn take(
        &self,
        heads: &Heads,
        pod: PodId,
        anchor: Anchor,
        blocks: &[BlockHash],
        room: bool,
        pin: &Pin,
    ) -> Take {
        loop {
            let mut parent_run = None;
            if let Anchor::Behind(_, at) = anchor {
                let next = at.offset + 1;
                let fitting = |family| self.fitting(heads, family, blocks, next, pin);
                let own = if room { self.run(at.run).extend_own(pod, next, blocks, fitting) } else { None };
                if let Some(count) = own {
                    let first = Place { run: at.run, offset: next };
                    return Take::Taken(Taken { first, count, entered: count });
                }
                let mut run = self.lock(at.run, pin);
                let here = next < run.holders.len() && run.common(next as usize, &blocks[..1]) == 1;
                let family = *run.family();
                let behind = next == run.holders.len()
                    && may_grow(&run, pod)
                    && self.fitting(heads, family, &blocks[..1], next, pin) == 1;
                if here || behind {
                    return self.join(heads, pod, at.run, run, next, blocks, room, pin);
                }
                parent_run = Some((at, run));
            }
            let Some(id) = heads.probe(blocks[0], pin) else {
                if !room {
                    return Take::Full;
                }
                match self.create(heads, pod, anchor.parent(), parent_run.as_mut(), blocks, pin) {
                    Some(taken) => return Take::Taken(taken),
                    None => continue,
                }
            };
            parent_run.iter_mut().for_each(|(_, run)| run.fork());
            drop(parent_run);
            let run = self.lock(id, pin);
            if !run.begins_with(blocks[0]) {
                // It was given up between our finding and locking it.
                continue;
            }
            if run.parent() != anchor.parent() {
                return Take::Contradicted;
            }
            return self.join(heads, pod, id, run, 0, blocks, room, pin);
        }
    }

    /// Lets the pod hold what the run has of `blocks` from `from` on, and makes the run longer by what may follow.
    #[expect(clippy::too_many_arguments, reason = "the parts of one step of `take`")]
    fn join(
        &self,
        heads: &Heads,
        pod: PodId,
        id: RunId,
        mut run: Writing<'_, W>,
        from: u32,
        blocks: &[BlockHash],
        room: bool,
        pin: &Pin,
    ) -> Take {
        let islands = run.holders.islands();
        let common = run.common(from as usize, blocks);
        let fits = room || common == 1 && run.holders.is_live(from);
        if !fits {
            return Take::Full;
        }
        let to = from + common as u32;
        let mut entered = if common > 0 { run.holders.add(pod, from, to) as usize } else { 0 };
        let mut count = common;
        let rest = &blocks[common..];
        if to == run.holders.len() && !rest.is_empty() && may_grow(&run, pod) {
            let family = *run.family();
            let more = self.fitting(heads, family, rest, to, pin);
            if more > 0 {
                run.write_behind(&rest[..more]);
                run.holders.append(pod, more as u32);
                (count, entered) = (count + more, entered + more);
            }
        }
        self.count_islands(islands, run.holders.islands());
        run.publish();
        Take::Taken(Taken { first: Place { run: id, offset: from }, count, entered })
    }

    /// Makes a run that begins with the first of `blocks`; none if somebody else did meanwhile.
    fn create(
        &self,
        heads: &Heads,
        pod: PodId,
        parent: Option<BlockHash>,
        parent_run: Option<&mut (Place, Writing<'_, W>)>,
        blocks: &[BlockHash],
        pin: &Pin,
    ) -> Option<Taken> {
        let mut count = 1 + self.fitting(heads, Family::default(), &blocks[1..], 1, pin);
        let id = self.claim();
        let mut run = self.lock(id, pin);
        run.begin(parent, &blocks[..count], Holders::of_one(pod, count as u32));
        run.publish();
        // Still locked: a writer that knows the id from a former life of the run must not join before it can be found.
        if heads.insert(blocks[0], id, pin).is_some() {
            run.holders.drop_pod(pod);
            run.publish();
            drop(run);
            self.give_back(id);
            return None;
        }
        // The first block may have come and gone since we looked, and left an orphan. From now on nobody can do that.
        let fitting = 1 + self.fitting(heads, Family::default(), &blocks[1..count], 1, pin);
        if fitting < count {
            run.holders.remove(pod, fitting as u32, count as u32);
            run.publish();
            count = fitting;
        }
        if let Some((at, writing)) = parent_run {
            writing.family().add_child(at.offset);
            writing.fork();
            run.family().parent = Some((at.run, writing.family().life));
        }
        Some(Taken { first: Place { run: id, offset: 0 }, count, entered: count })
    }

    /// How many of `blocks` may come behind the last block of a run, which has `len`: those that are in no other one.
    fn fitting(&self, heads: &Heads, family: Family, blocks: &[BlockHash], len: u32, pin: &Pin) -> usize {
        let blocks = &blocks[..blocks.len().min(LONGEST - (len as usize).min(LONGEST))];
        let loose = |block: &BlockHash| heads.probe(*block, pin).is_none();
        // The first may be where a child begins.
        if family.goes_on_at(len) && blocks.first().is_some_and(|first| !loose(first)) {
            return 0;
        }
        // What follows it can be nowhere, since it is nowhere itself, orphans aside. Relaxed, and after the look-up: whoever
        // sees that a head is gone sees the orphans that it left; see `finish`.
        if self.orphans.load(Ordering::Relaxed) > 0 {
            return blocks.iter().take_while(|block| loose(block)).count();
        }
        blocks.len()
    }
}

/// Whether a pod may make a run longer. Where several pods hold all of it, it is likely a prompt that they share,
/// and what each has behind it is its own.
fn may_grow<const W: usize>(run: &Writing<'_, W>, pod: PodId) -> bool {
    let holders = &run.holders;
    (holders.len() as usize) < LONGEST
        && holders.whole_besides(pod) <= OTHERS
        && holders.cuts_if_extended(pod) <= INLINE
}

/// Pods that may hold all of a run which another makes longer.
const OTHERS: usize = 1;
