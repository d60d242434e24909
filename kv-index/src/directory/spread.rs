//! Keyed hash function of the tables: a folded multiply, so that nobody who does not know the key can choose block hashes
//! that crowd.

use std::hash::{BuildHasher, RandomState};

use crate::blocks::BlockHash;

/// Spreads block hashes over a table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread(u64);

impl Spread {
    /// By this key, or by one that is drawn.
    pub(crate) fn new(key: Option<u64>) -> Self {
        Self(key.unwrap_or_else(|| RandomState::new().hash_one(0)))
    }

    #[inline]
    pub(crate) fn of(self, hash: BlockHash) -> u64 {
        let product = u128::from(hash.get() ^ self.0) * u128::from(MULTIPLIER);
        product as u64 ^ (product >> 64) as u64
    }
}

/// Odd, and its bits are about as often set as not.
const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
