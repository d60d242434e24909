//! Block hashes, block size and parents: the keys of a prefix cache.
//!
//! A block is a fixed run of tokens; its hash is *cumulative*: it covers the block's own tokens and every
//! block before it. The one rule the rest of the crate leans on: a block hash determines the block's
//! parent, and with it the whole prompt up to there.

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

/// The cumulative hash of a block: its own tokens and every block before it.
///
/// Never zero, so that an empty slot of a table needs no flag of its own. The hash 0 is folded onto
/// another value, which is as likely to matter as any other 64-bit collision.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct BlockHash(NonZeroU64);

impl BlockHash {
    /// Takes an engine's 64-bit block hash, or our own.
    ///
    /// # Examples
    ///
    /// ```
    /// use kv_index::BlockHash;
    ///
    /// assert_eq!(BlockHash::new(7).get(), 7);
    /// assert_ne!(BlockHash::new(0).get(), 0);
    /// ```
    #[must_use]
    pub const fn new(raw: u64) -> Self {
        match NonZeroU64::new(raw) {
            Some(raw) => Self(raw),
            None => Self(ZERO_STANDS_IN),
        }
    }

    /// The hash as a number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl From<u64> for BlockHash {
    fn from(raw: u64) -> Self {
        Self::new(raw)
    }
}

impl fmt::Debug for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:x}", self.0)
    }
}

impl fmt::Display for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// How many tokens a block has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockSize(NonZeroU32);

impl BlockSize {
    /// Returns `None` for zero.
    #[must_use]
    pub const fn new(tokens: u32) -> Option<Self> {
        match NonZeroU32::new(tokens) {
            Some(tokens) => Some(Self(tokens)),
            None => None,
        }
    }

    /// Tokens in a block.
    #[must_use]
    pub const fn tokens(self) -> usize {
        self.0.get() as usize
    }

    /// Whole blocks in `tokens` tokens; a trailing partial block does not count.
    #[must_use]
    pub const fn whole_blocks(self, tokens: usize) -> usize {
        tokens / self.tokens()
    }
}

/// What a block is stored under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a block has a parent, has none, or we were not told: complete by nature")]
pub enum Parent {
    /// The block starts a prompt.
    Root,
    /// The block follows this one.
    Block(BlockHash),
    /// The source did not say. The block is found by its hash, as exactly.
    Unknown,
}

/// Stands in for the hash 0; the golden ratio's digits, as good as any.
const ZERO_STANDS_IN: NonZeroU64 = NonZeroU64::new(0x9E37_79B9_7F4A_7C15).expect("not zero");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_block_does_not_count() {
        let size = BlockSize::new(16).unwrap();
        assert_eq!(size.whole_blocks(15), 0);
        assert_eq!(size.whole_blocks(47), 2);
        assert_eq!(BlockSize::new(0), None);
    }
}
