//! Pace table: the paces of all pods side by side, as decisions read them; published by swap (RCU).
//!
//! Paces are told in coarse steps, so most answers that are learned from change none: it is cheaper to make a table anew where one
//! changes than to gather it for every decision.

use kv_index::PodId;

use super::PrefillShare;
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
    pub(crate) share: PrefillShare,
}

/// The paces of as many pods as there are in a [block of backlogs](crate::load::BacklogBlock).
#[derive(Clone, Copy, Debug)]
pub(crate) struct PaceBlock {
    pub(crate) prefill: [f64; LANES],
    pub(crate) decoding: [f64; LANES],
    /// Of [`PrefillShare`].
    pub(crate) busy: [f64; LANES],
    pub(crate) steps: [f64; LANES],
}

impl Pace {
    /// That of the cost model.
    pub(crate) const ONE: Self = Self { prefill: 1.0, decoding: 1.0, share: PrefillShare { busy: 0.0, steps: 0.0 } };
}

impl PaceTable {
    /// Of so many pods; what is beyond the given ones is as the fleet is.
    pub(crate) fn new(pods: usize, typical: Pace, paces: impl Iterator<Item = Pace>) -> Self {
        let same = PaceBlock {
            prefill: [typical.prefill; LANES],
            decoding: [typical.decoding; LANES],
            busy: [typical.share.busy; LANES],
            steps: [typical.share.steps; LANES],
        };
        let mut blocks = vec![same; pods.div_ceil(LANES)];
        for (at, pace) in paces.take(pods).enumerate() {
            let (block, lane) = (&mut blocks[at / LANES], at % LANES);
            (block.prefill[lane], block.decoding[lane]) = (pace.prefill, pace.decoding);
            (block.busy[lane], block.steps[lane]) = (pace.share.busy, pace.share.steps);
        }
        Self { typical, blocks: blocks.into() }
    }

    /// A pod's.
    pub(crate) fn of(&self, pod: PodId) -> Pace {
        let (at, lane) = (pod.index() / LANES, pod.index() % LANES);
        self.blocks.get(at).map_or(self.typical, |block| {
            let share = PrefillShare { busy: block.busy[lane], steps: block.steps[lane] };
            Pace { prefill: block.prefill[lane], decoding: block.decoding[lane], share }
        })
    }

    /// The shares of prefill of all pods.
    pub(super) fn shares(&self) -> impl Iterator<Item = PrefillShare> + '_ {
        let of_block = |block: &PaceBlock| block.busy.into_iter().zip(block.steps);
        self.blocks.iter().flat_map(of_block).map(|(busy, steps)| PrefillShare { busy, steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_the_pace_that_was_given_for_it_and_others_that_of_the_fleet() {
        let pace = |at: usize| Pace {
            prefill: at as f64,
            decoding: 100.0 + at as f64,
            share: PrefillShare { busy: 1.0 / (at + 1) as f64, steps: 200.0 + at as f64 },
        };
        let table = PaceTable::new(2 * LANES, Pace::ONE, (0..LANES + 3).map(pace));
        let of = |at: usize| table.of(PodId::new(at as u16));
        assert!((0..LANES + 3).all(|at| of(at) == pace(at)));
        assert_eq!([LANES + 3, 2 * LANES, 1_000].map(of), [Pace::ONE; 3]);
        assert!(table.shares().zip(0..LANES + 3).all(|(share, at)| share == pace(at).share));
    }
}
