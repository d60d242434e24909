//! Pace table: the paces of all pods side by side, as decisions read them; published by swap (RCU).
//!
//! Paces are told in coarse steps, so most answers that are learned from change none: it is cheaper to make a table anew where one
//! changes than to gather it for every decision.

use kv_index::PodId;

use super::{PrefillShare, PrefillShares};
use crate::load::LANES;

/// The paces of pods 0, 1 and so on, where the fleet's stands for what is not known.
#[derive(Debug)]
pub(crate) struct PaceTable {
    /// That of the fleet.
    pub(crate) typical: Pace,
    pub(crate) blocks: Box<[PaceBlock]>,
}

/// One pod's, or the fleet's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pace {
    /// For first tokens.
    pub(crate) prefill: f64,
    /// For those after it.
    pub(crate) decoding: f64,
    pub(crate) shares: PrefillShares,
}

/// The paces of as many pods as there are in a [block of backlogs](crate::load::BacklogBlock).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaceBlock {
    pub(crate) prefill: [f64; LANES],
    pub(crate) decoding: [f64; LANES],
    pub(crate) likely: ShareBlock,
    pub(crate) seen: ShareBlock,
}

/// As many [`PrefillShare`]s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareBlock {
    busy: [f64; LANES],
    steps: [f64; LANES],
}

impl Pace {
    /// That of the cost model.
    pub(crate) const ONE: Self = {
        let none = PrefillShare { busy: 0.0, steps: 0.0 };
        Self { prefill: 1.0, decoding: 1.0, shares: PrefillShares { likely: none, seen: none } }
    };
}

impl ShareBlock {
    fn same(share: PrefillShare) -> Self {
        Self { busy: [share.busy; LANES], steps: [share.steps; LANES] }
    }

    fn put(&mut self, lane: usize, share: PrefillShare) {
        (self.busy[lane], self.steps[lane]) = (share.busy, share.steps);
    }

    #[inline(always)]
    pub(crate) fn of(&self, lane: usize) -> PrefillShare {
        PrefillShare { busy: self.busy[lane], steps: self.steps[lane] }
    }
}

impl PaceBlock {
    fn of(&self, lane: usize) -> Pace {
        let shares = PrefillShares { likely: self.likely.of(lane), seen: self.seen.of(lane) };
        Pace { prefill: self.prefill[lane], decoding: self.decoding[lane], shares }
    }
}

impl PaceTable {
    /// Of so many pods; what is beyond the given ones is as the fleet is.
    pub(crate) fn new(pods: usize, typical: Pace, paces: impl Iterator<Item = Pace>) -> Self {
        let same = PaceBlock {
            prefill: [typical.prefill; LANES],
            decoding: [typical.decoding; LANES],
            likely: ShareBlock::same(typical.shares.likely),
            seen: ShareBlock::same(typical.shares.seen),
        };
        let mut blocks = vec![same; pods.div_ceil(LANES)];
        for (at, pace) in paces.take(pods).enumerate() {
            let (block, lane) = (&mut blocks[at / LANES], at % LANES);
            (block.prefill[lane], block.decoding[lane]) = (pace.prefill, pace.decoding);
            block.likely.put(lane, pace.shares.likely);
            block.seen.put(lane, pace.shares.seen);
        }
        Self { typical, blocks: blocks.into() }
    }

    /// A pod's.
    pub(crate) fn of(&self, pod: PodId) -> Pace {
        self.blocks.get(pod.index() / LANES).map_or(self.typical, |block| block.of(pod.index() % LANES))
    }

    /// The shares of prefill of all pods.
    pub(super) fn shares(&self) -> impl Iterator<Item = PrefillShares> + '_ {
        self.blocks.iter().flat_map(|block| (0..LANES).map(|lane| block.of(lane).shares))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_the_pace_that_was_given_for_it_and_others_that_of_the_fleet() {
        let share = |at: usize| PrefillShare { busy: 1.0 / (at + 1) as f64, steps: 200.0 + at as f64 };
        let pace = |at: usize| Pace {
            prefill: at as f64,
            decoding: 100.0 + at as f64,
            shares: PrefillShares { likely: share(at), seen: share(at + 50) },
        };
        let table = PaceTable::new(2 * LANES, Pace::ONE, (0..LANES + 3).map(pace));
        let of = |at: usize| table.of(PodId::new(at as u16));
        assert!((0..LANES + 3).all(|at| of(at) == pace(at)));
        assert_eq!([LANES + 3, 2 * LANES, 1_000].map(of), [Pace::ONE; 3]);
        assert!(table.shares().zip(0..LANES + 3).all(|(shares, at)| shares == pace(at).shares));
    }
}
