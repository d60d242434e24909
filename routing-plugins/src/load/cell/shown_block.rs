//! Published load of sixteen pods: whether all of them are shown to a fleet, and on which of them somebody waits.
//!
//! So a decision asks once for sixteen pods what it would ask of each. The rule that must never break: a block that is marked with a
//! fleet's stamp has no pod that is not shown to that fleet.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::load::LANES;

/// What is known of the pods of a block together.
#[derive(Debug, Default)]
pub(super) struct ShownBlock {
    /// The stamp of the fleet to which all of its pods are shown; else a number that was never here before.
    mark: AtomicU64,
    /// The pods on which somebody waits for a first token, a bit for each.
    waiting: AtomicU32,
}

/// Set in numbers that are no stamps: there are not as many fleets.
const NO_STAMP: u64 = 1 << 63;

impl ShownBlock {
    /// Whether all pods are shown to the fleet of a stamp; if it is not known, each is asked.
    #[inline]
    pub(super) fn is_shown(&self, stamp: u64, shown_for: &[AtomicU64; LANES]) -> bool {
        // Acquire: what is shown to the fleet is there. Pairs with `look`.
        let mark = self.mark.load(Ordering::Acquire);
        mark == stamp || self.look(mark, stamp, shown_for)
    }

    #[cold]
    fn look(&self, mark: u64, stamp: u64, shown_for: &[AtomicU64; LANES]) -> bool {
        // Acquire: what is shown to the fleet is there. Pairs with `Cell::show_to`.
        let is_shown = shown_for.iter().all(|shown_for| shown_for.load(Ordering::Acquire) == stamp);
        if is_shown {
            // If one was hidden since, another mark is here, which none was before, and stays. Release: passes on what was shown to
            // whoever sees the stamp. Pairs with `is_shown`.
            let _ = self.mark.compare_exchange(mark, stamp, Ordering::AcqRel, Ordering::Relaxed);
        }
        is_shown
    }

    /// One of the pods is shown to another fleet now, or to none; `turn` was never given before.
    pub(super) fn unmark(&self, turn: u64) {
        // Release: who reads this mark sees to whom the pod is shown. Pairs with `is_shown`.
        self.mark.store(NO_STAMP | turn, Ordering::Release);
    }

    /// Whether somebody waits on a pod. Only for who has the pod's lock.
    pub(super) fn set_waiting(&self, lane: usize, waits: bool) {
        let bit = 1 << lane;
        // Relaxed: one more figure of the pod. Mostly it stays, and a look disturbs nobody.
        match (self.waiting.load(Ordering::Relaxed) & bit != 0, waits) {
            (false, true) => self.waiting.fetch_or(bit, Ordering::Relaxed),
            (true, false) => self.waiting.fetch_and(!bit, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// The pods on which somebody waits.
    #[inline]
    pub(super) fn waiting(&self) -> u16 {
        self.waiting.load(Ordering::Relaxed) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_hidden_meanwhile_stays_hidden() {
        let block = ShownBlock::default();
        let shown_for: [AtomicU64; LANES] = std::array::from_fn(|_| AtomicU64::new(7));
        block.unmark(1);
        let mark = block.mark.load(Ordering::Relaxed);
        assert!(!block.is_shown(8, &shown_for));
        // One looks, and before it is done a pod is hidden and shown, and hidden once more.
        assert!(block.is_shown(7, &shown_for));
        block.unmark(2);
        assert!(block.look(mark, 7, &shown_for), "as it was seen");
        shown_for[3].store(0, Ordering::Relaxed);
        assert!(!block.is_shown(7, &shown_for), "what was seen before is not what is marked");
    }

    #[test]
    fn who_waits_is_one_bit_of_many() {
        let block = ShownBlock::default();
        for (lane, waits, all) in
            [(3, true, 8), (0, true, 9), (3, true, 9), (3, false, 1), (5, false, 1), (15, true, 0x8001)]
        {
            block.set_waiting(lane, waits);
            assert_eq!(block.waiting(), all);
        }
    }
}
