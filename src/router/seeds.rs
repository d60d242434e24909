//! Seeds of requests: unpredictable unless one is set, then the same in every run.
//!
//! The rule: what is decided follows from the seed; what must be unique in a fleet never follows from it alone. Two gateways with one
//! seed would otherwise bring two requests into one SGLang bootstrap room.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives each request a seed of its own, never 0.
#[derive(Debug)]
pub(super) struct Seeds {
    first: u64,
    given: AtomicU64,
    /// Drawn for each router of each process, whatever seed is set.
    own: u64,
}

impl Seeds {
    pub(super) fn new(seed: Option<u64>) -> Self {
        let draw = || RandomState::new().hash_one(0);
        Self { first: seed.unwrap_or_else(draw), given: AtomicU64::new(0), own: draw() }
    }

    /// What a request's identifiers are made of: its id, and the number by which pods that hand it off find each other.
    pub(super) fn identity(&self, seed: u64) -> u64 {
        splitmix64(seed.wrapping_add(self.own))
    }

    /// A number that no other router has.
    pub(super) fn own(&self) -> u64 {
        self.own
    }

    pub(super) fn next(&self) -> u64 {
        // Relaxed: only the numbers matter, and each is given once.
        let number = self.given.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        splitmix64(self.first.wrapping_add(number.wrapping_mul(GAMMA))).max(1)
    }
}

/// The finalizer of SplitMix64: neighbouring numbers give unrelated seeds.
fn splitmix64(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_seed_gives_the_same_seeds_and_none_is_given_twice() {
        let seeds = |seed| {
            let seeds = Seeds::new(seed);
            (0..1000).map(|_| seeds.next()).collect::<Vec<_>>()
        };
        assert_eq!(seeds(Some(7)), seeds(Some(7)));
        assert_ne!(seeds(None), seeds(None));
        let distinct: std::collections::BTreeSet<u64> = seeds(None).into_iter().collect();
        assert_eq!(distinct.len(), 1000);
    }

    #[test]
    fn identities_differ_between_routers_of_one_seed() {
        let [one, other] = [Seeds::new(Some(7)), Seeds::new(Some(7))];
        let identities: std::collections::BTreeSet<u64> =
            (0..1000).flat_map(|_| [one.identity(one.next()), other.identity(other.next())]).collect();
        assert_eq!(identities.len(), 2000);
        assert_eq!(one.identity(5), one.identity(5), "all legs of a request have the same");
    }
}
