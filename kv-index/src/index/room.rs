//! Room for blocks: how many distinct ones there are, and the bound on them.
//!
//! Every write takes room beforehand and gives back what it did not need. One count for that would be a line that all cores write, so
//! each pod keeps some room *in hand*. The bound holds exactly all the same: who finds no room gathers what is in all hands
//! before it is refused. Only what a write under way has taken, and may not need, is out of reach.

use crossbeam_utils::CachePadded;

use crate::pods::PodId;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// Room that is taken, and by whom. Relaxed throughout: counts that publish nothing.
#[derive(Debug)]
pub(crate) struct Room {
    max: u64,
    /// Blocks, rooms taken for blocks about to be entered, and what is in hand.
    taken: CachePadded<AtomicU64>,
    in_hand: Box<[CachePadded<AtomicU64>]>,
    /// Held by who moves room from hand to hand: what is on its way is nowhere else.
    gathering: Mutex<()>,
}

impl Room {
    /// For `max` blocks of so many pods.
    pub(crate) fn new(max: usize, pods: usize) -> Self {
        let in_hand = (0..pods).map(|_| CachePadded::new(AtomicU64::new(0))).collect();
        let taken = CachePadded::new(AtomicU64::new(0));
        Self { max: max as u64, taken, in_hand, gathering: Mutex::new(()) }
    }

    /// Takes room for up to `wanted` blocks; how many fit.
    #[inline]
    pub(crate) fn take(&self, pod: PodId, wanted: usize) -> usize {
        let (hand, wanted) = (&self.in_hand[pod.index()], wanted as u64);
        let had = hand.load(Ordering::Relaxed);
        // It fails if others gather.
        if had >= wanted && hand.compare_exchange(had, had - wanted, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return wanted as usize;
        }
        self.take_from_all(hand, wanted) as usize
    }

    #[cold]
    fn take_from_all(&self, hand: &AtomicU64, wanted: u64) -> u64 {
        let _alone = self.gathering.lock();
        self.taken.fetch_sub(hand.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        if self.take_up_to(wanted + HAND, wanted + HAND) > 0 {
            hand.fetch_add(HAND, Ordering::Relaxed);
            return wanted;
        }
        if self.take_up_to(wanted, wanted) == 0 {
            let gathered: u64 = self.in_hand.iter().map(|hand| hand.swap(0, Ordering::Relaxed)).sum();
            self.taken.fetch_sub(gathered, Ordering::Relaxed);
            return self.take_up_to(wanted, 1);
        }
        wanted
    }

    /// Takes what there is of `wanted`, if it is `least` or more.
    fn take_up_to(&self, wanted: u64, least: u64) -> u64 {
        let grant = |taken: u64| self.max.saturating_sub(taken).min(wanted);
        let add = |taken| Some(grant(taken)).filter(|granted| *granted >= least).map(|granted| taken + granted);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).map_or(0, grant)
    }

    /// Gives back room that blocks left or did not need.
    #[inline]
    pub(crate) fn give_back(&self, pod: PodId, blocks: usize) {
        if blocks == 0 {
            return;
        }
        let hand = &self.in_hand[pod.index()];
        if hand.load(Ordering::Relaxed) + blocks as u64 <= MOST {
            hand.fetch_add(blocks as u64, Ordering::Relaxed);
        } else {
            self.taken.fetch_sub(blocks as u64, Ordering::Relaxed);
        }
    }

    /// Room that blocks take; while some come and go, more or less so.
    pub(crate) fn used(&self) -> usize {
        let in_hand: u64 = self.in_hand.iter().map(|hand| hand.load(Ordering::Relaxed)).sum();
        self.taken.load(Ordering::Relaxed).saturating_sub(in_hand) as usize
    }
}

/// What a pod takes beyond what it needs.
const HAND: u64 = if cfg!(all(test, routing_loom)) { 1 } else { 256 };
/// The most that a pod keeps.
const MOST: u64 = 4 * HAND;

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use super::*;

    fn pod(id: u16) -> PodId {
        PodId::new(id)
    }

    #[test]
    fn what_others_have_in_hand_is_found_when_there_is_no_other_room() {
        let room = Room::new(1_000, 3);
        assert_eq!(room.take(pod(0), 10), 10);
        assert_eq!(room.take(pod(1), 10), 10);
        assert_eq!(room.used(), 20);
        // Each of the two has some more in hand.
        assert!(room.taken.load(Ordering::Relaxed) > 500);
        assert_eq!(room.take(pod(2), 979), 979);
        assert_eq!(room.take(pod(0), 5), 1);
        assert_eq!((room.take(pod(1), 1), room.used()), (0, 1_000));
    }

    #[test]
    fn a_hand_is_bounded() {
        let room = Room::new(1 << 20, 2);
        assert_eq!(room.take(pod(0), 100_000), 100_000);
        for _ in 0..1_000 {
            room.give_back(pod(0), 100);
        }
        assert_eq!(room.used(), 0);
        assert!(room.taken.load(Ordering::Relaxed) <= MOST);
    }
}

#[cfg(all(test, routing_loom))]
mod loom_tests {
    use std::sync::Arc;

    use super::*;

    /// The bound holds, and all room there is can be had, whoever had it in hand.
    #[test]
    fn loom_hands_against_the_bound() {
        loom::model(|| {
            let room = Arc::new(Room::new(2, 2));
            let other = {
                let room = room.clone();
                loom::thread::spawn(move || room.take(PodId::new(0), 1))
            };
            let taken = room.take(PodId::new(1), 1) + other.join().unwrap();
            assert_eq!(room.used(), taken);
            assert_eq!(room.take(PodId::new(0), 2), 2 - taken);
            room.give_back(PodId::new(1), 1);
            assert_eq!((room.take(PodId::new(0), 2), room.used()), (1, 2));
        });
    }
}
