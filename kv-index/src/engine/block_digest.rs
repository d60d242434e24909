//! Full-width block digests, before an engine truncates them to the 64 bits that its events carry.

use std::fmt;

use sha2::{Digest, Sha256};

/// A block's hash as its engine keeps it: 32 bytes of SHA-256, 16 of XXH3, or 8 of TensorRT-LLM's first form.
///
/// # Examples
///
/// ```
/// use kv_index::engine::BlockDigest;
///
/// let digest = BlockDigest::new(&[0xab; 16]).expect("16 is a digest's length");
/// assert_eq!(digest.as_bytes(), [0xab; 16]);
/// assert!(digest.to_string().starts_with("abab"));
/// assert_eq!(BlockDigest::new(&[0; 20]), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockDigest {
    bytes: [u8; 32],
    length: u8,
}

impl BlockDigest {
    /// Nothing: what a chain without a root starts from.
    pub(super) const EMPTY: Self = Self { bytes: [0; 32], length: 0 };

    /// Takes a digest of 8, 16 or 32 bytes; no engine has others.
    #[must_use]
    pub fn new(digest: &[u8]) -> Option<Self> {
        matches!(digest.len(), 8 | 16 | 32).then(|| {
            let mut bytes = [0; 32];
            bytes[..digest.len()].copy_from_slice(digest);
            Self { bytes, length: digest.len() as u8 }
        })
    }

    /// The SHA-256 of what an engine serialized.
    #[inline]
    pub(super) fn sha256(bytes: &[u8]) -> Self {
        Self::from(<[u8; 32]>::from(Sha256::digest(bytes)))
    }

    /// The bytes, in the engine's order.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// The first eight bytes, big endian: how SGLang and TensorRT-LLM cut a digest.
    #[inline]
    pub(super) fn first_word(&self) -> u64 {
        self.as_bytes().first_chunk().map_or(0, |word| u64::from_be_bytes(*word))
    }

    /// The last eight bytes, big endian: how vLLM cuts a digest.
    #[inline]
    pub(super) fn last_word(&self) -> u64 {
        self.as_bytes().last_chunk().map_or(0, |word| u64::from_be_bytes(*word))
    }
}

impl From<[u8; 32]> for BlockDigest {
    #[inline]
    fn from(bytes: [u8; 32]) -> Self {
        Self { bytes, length: 32 }
    }
}

impl fmt::Display for BlockDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlockDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockDigest({self})")
    }
}
