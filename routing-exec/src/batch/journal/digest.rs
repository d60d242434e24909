//! Batch digest: FNV-1a over the requests.

/// Identifies a batch: 128 bits of FNV-1a over the requests, each with its length. Not cryptographic.
///
/// # Examples
///
/// ```
/// use routing_exec::batch::journal::BatchDigest;
///
/// let of = |requests: &[&str]| requests.iter().fold(BatchDigest::default(), |digest, r| digest.with(r.as_bytes()));
/// assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
/// assert_ne!(of(&["a", "b"]), of(&["b", "a"]));
/// assert_ne!(of(&["a", "b"]), of(&["ab", ""]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchDigest(u128);

impl BatchDigest {
    /// Adds a request.
    #[must_use]
    pub fn with(self, request: &[u8]) -> Self {
        let length = (request.len() as u64).to_le_bytes();
        let bytes = length.iter().chain(request);
        Self(bytes.fold(self.0, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME)))
    }

    pub(super) fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }
}

impl Default for BatchDigest {
    /// The digest of no requests.
    fn default() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
