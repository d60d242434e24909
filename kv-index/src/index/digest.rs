//! Anti-entropy digest: an order-independent multiset hash of a cache in sixteen bytes.
//!
//! A worker and the router each keep one, change by change; the full inventory travels only when they
//! differ. The digest is a sum over the copies held, so it does not matter in which order they came.

use crate::blocks::{BlockHash, Tier};

/// A digest of a multiset of (block, tier) copies.
///
/// # Examples
///
/// A worker's side needs nothing but this type:
///
/// ```
/// use kv_index::{BlockHash, Digest, Tier};
///
/// let mut mine = Digest::EMPTY;
/// mine.add(BlockHash::new(1), Tier::Gpu);
/// mine.add(BlockHash::new(2), Tier::Host);
/// mine.remove(BlockHash::new(1), Tier::Gpu);
/// assert_eq!(mine, Digest::of([(BlockHash::new(2), Tier::Host)]));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest(u128);

impl Digest {
    /// The digest of an empty cache.
    pub const EMPTY: Self = Self(0);

    /// The digest of these copies; a block copied twice is listed twice.
    pub fn of(copies: impl IntoIterator<Item = (BlockHash, Tier)>) -> Self {
        let mut digest = Self::EMPTY;
        for (hash, tier) in copies {
            digest.add(hash, tier);
        }
        digest
    }

    /// A digest from its sixteen bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }

    /// Counts a copy in.
    #[inline]
    pub fn add(&mut self, hash: BlockHash, tier: Tier) {
        self.0 = self.0.wrapping_add(term(hash, tier));
    }

    /// Counts several copies in.
    pub fn add_copies(&mut self, hash: BlockHash, tier: Tier, copies: u32) {
        if copies > 0 {
            self.0 = self.0.wrapping_add(term(hash, tier).wrapping_mul(copies.into()));
        }
    }

    /// Counts a copy out.
    #[inline]
    pub fn remove(&mut self, hash: BlockHash, tier: Tier) {
        self.0 = self.0.wrapping_sub(term(hash, tier));
    }

    /// Counts several copies out.
    pub fn remove_copies(&mut self, hash: BlockHash, tier: Tier, copies: u32) {
        if copies > 0 {
            self.0 = self.0.wrapping_sub(term(hash, tier).wrapping_mul(copies.into()));
        }
    }

    /// The digest as sixteen bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

/// A copy's share: two mixes of the hash, keyed by tier, so that sums of few terms do not cancel.
#[inline]
fn term(hash: BlockHash, tier: Tier) -> u128 {
    let key = KEYS[tier.index()];
    let low = mix(hash.get() ^ key);
    let high = mix(low ^ hash.get().rotate_left(32) ^ key.rotate_left(17));
    u128::from(low) | u128::from(high) << 64
}

/// A bijective scramble of 64 bits: xor-shifts and odd multipliers.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

const KEYS: [u64; 4] = [0x2FFD_72DB_D01A_DFB7, 0xB8E1_AFED_6A26_7E96, 0xBA7C_9045_F12C_7F99, 0x24A1_9947_B391_6CF7];

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Copies = Vec<(u64, usize)>;

    fn digest(copies: &Copies) -> Digest {
        Digest::of(copies.iter().map(|&(h, t)| (BlockHash::new(h), Tier::ALL[t])))
    }

    fn counted(copies: &Copies) -> BTreeMap<(u64, usize), usize> {
        let mut counts = BTreeMap::new();
        for copy in copies {
            *counts.entry(*copy).or_default() += 1;
        }
        counts
    }

    proptest! {
        #[test]
        fn equal_exactly_when_the_contents_are(
            a in prop::collection::vec((1u64..6, 0usize..4), 0..8), b in prop::collection::vec((1u64..6, 0usize..4), 0..8),
        ) {
            prop_assert_eq!(digest(&a) == digest(&b), counted(&a) == counted(&b));
            let mut reversed = a.clone();
            reversed.reverse();
            prop_assert_eq!(digest(&a), digest(&reversed));
            prop_assert_eq!(Digest::from_bytes(digest(&a).to_bytes()), digest(&a));
        }
    }

    /// Workers of other builds compute it too.
    #[test]
    fn the_digest_is_pinned() {
        assert_eq!(digest(&vec![(1, 0), (2, 3)]).to_bytes(), PINNED);
    }

    const PINNED: [u8; 16] = [252, 202, 167, 226, 24, 17, 186, 235, 240, 19, 11, 4, 240, 98, 240, 161];
}
