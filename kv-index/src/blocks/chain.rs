//! Chained block hashing: a prompt as cumulative block hashes (native hash), eager and lazy.
//!
//! Tokens are folded in chunks of up to 16 by independent 64×64→128-bit multiplications, whose results the
//! processor overlaps; only one multiplication per chunk waits for the chunk before it. The rule that
//! must never break: hashing a prompt in pieces, at once or lazily gives the same hashes.

use std::fmt;
use std::hint::black_box;

use crate::blocks::{BlockHash, BlockSize, ChainSource};

/// What makes caches incompatible. Any difference here gives chains that have no block in common.
///
/// # Examples
///
/// ```
/// use kv_index::{BlockSize, ChainHasher, ChainSeed};
///
/// let size = BlockSize::new(16).unwrap();
/// let plain = ChainHasher::new(ChainSeed::new("llama-8b"), size);
/// let tuned = ChainHasher::new(ChainSeed::new("llama-8b").adapter("sql"), size);
/// let prompt: Vec<u32> = (0..64).collect();
/// assert_eq!(plain.hash(&prompt).len(), 4);
/// assert_ne!(plain.hash(&prompt)[0], tuned.hash(&prompt)[0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainSeed(u64);

impl ChainSeed {
    /// The seed of a model's plain cache: no adapter, no salt, no tenant.
    #[must_use]
    pub fn new(model: &str) -> Self {
        Self(absorb(SEED, Field::Model, model.as_bytes()))
    }

    #[cfg(feature = "engine")]
    pub(crate) fn get(self) -> u64 {
        self.0
    }

    /// Narrows to the cache of one LoRA adapter.
    #[must_use]
    pub fn adapter(self, name: &str) -> Self {
        Self(absorb(self.0, Field::Adapter, name.as_bytes()))
    }

    /// Narrows to the requests that carry this cache salt.
    #[must_use]
    pub fn salt(self, salt: &str) -> Self {
        Self(absorb(self.0, Field::Salt, salt.as_bytes()))
    }

    /// Narrows to one tenant's namespace.
    #[must_use]
    pub fn tenant(self, name: &str) -> Self {
        Self(absorb(self.0, Field::Tenant, name.as_bytes()))
    }
}

/// Turns token ids into block hashes.
#[derive(Clone, Copy, Debug)]
pub struct ChainHasher {
    start: u64,
    size: BlockSize,
}

impl ChainHasher {
    /// A hasher for one cache namespace and block size. Another block size gives other hashes.
    #[must_use]
    pub fn new(seed: ChainSeed, size: BlockSize) -> Self {
        let start = absorb(seed.0, Field::BlockSize, &(size.tokens() as u64).to_le_bytes());
        // Like a block's hash, so that a chain can be told by the hash before its first block too.
        Self { start: seal(start).get(), size }
    }

    /// What stands before the first block.
    #[cfg(feature = "engine")]
    pub(crate) fn start(&self) -> BlockHash {
        BlockHash::new(self.start)
    }

    /// Tokens in a block.
    #[must_use]
    pub fn block_size(&self) -> BlockSize {
        self.size
    }

    /// The hashes of every whole block of `tokens`.
    #[must_use]
    pub fn hash(&self, tokens: &[u32]) -> Vec<BlockHash> {
        let mut hashes = Vec::with_capacity(self.size.whole_blocks(tokens.len()));
        self.extend_into(tokens, &mut hashes);
        hashes
    }

    /// Extends `hashes`, the chain of the first `hashes.len()` blocks of `tokens`, to every whole block.
    ///
    /// `tokens` is the whole prompt, so a conversation's next turn costs only its new blocks.
    pub fn extend_into(&self, tokens: &[u32], hashes: &mut Vec<BlockHash>) {
        self.extend_to(tokens, hashes, self.size.whole_blocks(tokens.len()));
    }

    /// Borrows `tokens` as a chain that is hashed only as deep as it is asked for.
    ///
    /// `buffer` is cleared and then holds what was hashed; reuse it and nothing is allocated.
    pub fn lazy<'a>(&'a self, tokens: &'a [u32], buffer: &'a mut Vec<BlockHash>) -> LazyChain<'a> {
        buffer.clear();
        LazyChain { hasher: self, tokens, blocks: self.size.whole_blocks(tokens.len()), hashes: buffer }
    }

    /// The hash of one block after the block `before` it, or of a first block.
    ///
    /// `keys` tells it from blocks with the same tokens: an image's content, say. Without keys the hash is the one
    /// that [`Self::hash`] gives. Returns `None` if `tokens` is not exactly one block.
    #[must_use]
    pub fn block(&self, before: Option<BlockHash>, tokens: &[u32], keys: &[u8]) -> Option<BlockHash> {
        if tokens.len() != self.size.tokens() {
            return None;
        }
        let mut state = before.map_or(self.start, BlockHash::get);
        if !keys.is_empty() {
            state = absorb(state, Field::Keys, keys);
        }
        for chunk in tokens.chunks(CHUNK) {
            state = step(&KEYS, state, digest(&KEYS, chunk));
        }
        Some(seal(state))
    }

    fn extend_to(&self, tokens: &[u32], hashes: &mut Vec<BlockHash>, blocks: usize) {
        let size = self.size.tokens();
        let mut state = hashes.last().map_or(self.start, |last| last.get());
        let Some(tokens) = tokens.get(hashes.len() * size..blocks * size) else { return };
        // As numbers in the code, where the compiler would put them, keys take longer to load than from beside the tokens.
        let keys = black_box(&KEYS);
        if size == CHUNK {
            hashes.extend(tokens.chunks_exact(CHUNK).map(|block| {
                let sealed = seal(step(keys, state, digest_chunk(keys, block)));
                state = sealed.get();
                sealed
            }));
        } else {
            hashes.extend(tokens.chunks_exact(size).map(|block| {
                for chunk in block.chunks(CHUNK) {
                    state = step(keys, state, digest(keys, chunk));
                }
                let sealed = seal(state);
                state = sealed.get();
                sealed
            }));
        }
    }
}

/// A prompt whose blocks are hashed on demand, front to back.
///
/// A search over it hashes in proportion to what matched, not to the prompt's length.
pub struct LazyChain<'a> {
    hasher: &'a ChainHasher,
    tokens: &'a [u32],
    /// Whole blocks of them: asked for at every step, and a division.
    blocks: usize,
    hashes: &'a mut Vec<BlockHash>,
}

impl LazyChain<'_> {
    /// The hashes of the first `blocks` blocks, or of all if there are fewer.
    pub fn hash_up_to(&mut self, blocks: usize) -> &[BlockHash] {
        let blocks = blocks.min(self.len());
        if blocks > self.hashes.len() {
            self.hasher.extend_to(self.tokens, self.hashes, blocks);
        }
        &self.hashes[..blocks]
    }

    /// What has been hashed so far.
    #[must_use]
    pub fn hashes(&self) -> &[BlockHash] {
        self.hashes
    }

    /// Whole blocks in the prompt.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks
    }

    /// Whether the prompt is shorter than a block.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl ChainSource for LazyChain<'_> {
    #[inline]
    fn len(&self) -> usize {
        LazyChain::len(self)
    }

    #[inline]
    fn hashes(&self) -> &[BlockHash] {
        LazyChain::hashes(self)
    }

    #[inline]
    fn hash_up_to(&mut self, blocks: usize) -> &[BlockHash] {
        LazyChain::hash_up_to(self, blocks)
    }
}

impl fmt::Debug for LazyChain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LazyChain({} of {} blocks hashed)", self.hashes.len(), self.len())
    }
}

/// A checksum of bytes, for finding damage.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    absorb(SEED, Field::Checksum, bytes)
}

/// Fields of a seed, so that a salt is never taken for an adapter of the same name.
#[derive(Clone, Copy)]
enum Field {
    Model = 1,
    Adapter,
    Salt,
    Tenant,
    BlockSize,
    Checksum,
    Keys,
}

fn absorb(state: u64, field: Field, bytes: &[u8]) -> u64 {
    let header = (bytes.len() as u64) << 8 | field as u64;
    let mut state = step(&KEYS, state, fold(header ^ KEYS[0], KEYS[1]));
    for chunk in bytes.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = step(&KEYS, state, fold(u64::from_le_bytes(word) ^ KEYS[2], KEYS[3]));
    }
    step(&KEYS, state, KEYS[4])
}

/// Digest of 1 to 16 tokens.
#[inline]
fn digest(keys: &Keys, tokens: &[u32]) -> u64 {
    if tokens.len() == CHUNK { digest_chunk(keys, tokens) } else { digest_short(keys, tokens) }
}

/// Digest of exactly 16 tokens: four independent folds.
#[inline(always)]
fn digest_chunk(keys: &Keys, tokens: &[u32]) -> u64 {
    let tokens: &[u32; CHUNK] = tokens.try_into().expect("callers pass whole chunks");
    let word = |i: usize| u64::from(tokens[2 * i]) | u64::from(tokens[2 * i + 1]) << 32;
    let pair = |i: usize| fold(word(i) ^ keys[i], word(i + 1) ^ keys[i + 1]);
    (pair(0) ^ pair(2)).wrapping_add(pair(4) ^ pair(6))
}

/// Digest of 1 to 15 tokens; the length is part of the hasher's block size, so it needs no mixing in.
fn digest_short(keys: &Keys, tokens: &[u32]) -> u64 {
    let mut padded = [u32::MAX; CHUNK];
    padded[..tokens.len()].copy_from_slice(tokens);
    digest_chunk(keys, &padded)
}

/// Folds a digest into the chain: the only multiplication that waits for the one before.
#[inline(always)]
fn step(keys: &Keys, state: u64, digest: u64) -> u64 {
    fold(state ^ digest, keys[8])
}

/// A block's hash from the state after it; the state goes on from the hash, so a chain resumes from its last one.
#[inline(always)]
fn seal(state: u64) -> BlockHash {
    // Out of the way: as good as never, and every block asks.
    if state == 0 { seal_zero() } else { BlockHash::new(state) }
}

#[cold]
#[inline(never)]
fn seal_zero() -> BlockHash {
    BlockHash::new(0)
}

/// Both halves of a 128-bit product, folded together.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Tokens folded at once.
const CHUNK: usize = 16;

const SEED: u64 = 0x243F_6A88_85A3_08D3;

type Keys = [u64; 9];

/// Digits of pi. Each half has bits above any vocabulary's size, so no token pair can cancel a key and
/// zero a product.
static KEYS: Keys = [
    0x1319_8A2E_0370_7345,
    0xA409_3822_299F_31D1,
    0x082E_FA98_EC4E_6C89,
    0x4528_21E6_38D0_1377,
    0xBE54_66CF_34E9_0C6D,
    0xC0AC_29B7_C97C_50DD,
    0x3F84_D5B5_B547_0917,
    0x9216_D5D9_8979_FB1B,
    0xD131_0BA6_98DF_B5AD,
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hasher(size: u32) -> ChainHasher {
        ChainHasher::new(ChainSeed::new("m"), BlockSize::new(size).unwrap())
    }

    proptest! {
        #[test]
        fn in_pieces_at_once_or_lazily_or_by_the_block_the_hashes_are_the_same(
            tokens in prop::collection::vec(any::<u32>(), 0..200),
            size in 1u32..40,
            cut in 0usize..200,
            depth in 0usize..50,
        ) {
            let hasher = hasher(size);
            let whole = hasher.hash(&tokens);
            prop_assert_eq!(whole.len(), tokens.len() / size as usize);
            let mut pieces = hasher.hash(&tokens[..cut.min(tokens.len())]);
            hasher.extend_into(&tokens, &mut pieces);
            prop_assert_eq!(&pieces, &whole);
            let mut buffer = vec![BlockHash::new(9)];
            let mut lazy = hasher.lazy(&tokens, &mut buffer);
            let depth = depth.min(whole.len());
            prop_assert_eq!(lazy.hash_up_to(depth), &whole[..depth]);
            prop_assert_eq!(lazy.hashes().len(), depth, "no deeper than asked");
            prop_assert_eq!(lazy.hash_up_to(usize::MAX), &whole[..]);
            let mut before = None;
            for (block, &hash) in tokens.chunks_exact(size as usize).zip(&whole) {
                prop_assert_eq!(hasher.block(before, block, &[]), Some(hash));
                prop_assert_ne!(hasher.block(before, block, b"image"), Some(hash));
                before = Some(hash);
            }
        }

        #[test]
        fn every_token_of_every_block_matters(
            tokens in prop::collection::vec(0u32..200_000, 64), size in 1u32..33, at in 0usize..64, other in 0u32..200_000,
        ) {
            let hasher = hasher(size);
            let mut changed = tokens.clone();
            changed[at] = other;
            let (a, b) = (hasher.hash(&tokens), hasher.hash(&changed));
            for (block, (x, y)) in a.iter().zip(&b).enumerate() {
                prop_assert_eq!(x == y, tokens[at] == other || block < at / size as usize);
            }
        }
    }

    #[test]
    fn model_adapter_salt_tenant_and_block_size_give_disjoint_chains() {
        let tokens: Vec<u32> = (0..512).collect();
        let model = ChainSeed::new("m");
        let mut seeds = vec![model, ChainSeed::new("n"), ChainSeed::new("")];
        for name in ["", "a", "b", "abcdefgh", "abcdefghi"] {
            seeds.extend([model.adapter(name), model.salt(name), model.tenant(name), ChainSeed::new("x").salt(name)]);
        }
        seeds.push(model.adapter("a").salt("b"));
        seeds.push(model.adapter("b").salt("a"));
        seeds.push(model.adapter("ab"));
        let mut seen = std::collections::HashSet::new();
        for seed in seeds {
            for size in [1, 16, 17, 64] {
                for hash in ChainHasher::new(seed, BlockSize::new(size).unwrap()).hash(&tokens) {
                    assert!(seen.insert(hash), "{seed:?} at {size}");
                }
            }
        }
    }

    /// The hash is part of what replicas of different builds must agree on.
    #[test]
    fn the_hash_is_pinned() {
        let tokens: Vec<u32> = (0..48).collect();
        let got: Vec<u64> = hasher(16).hash(&tokens).iter().map(|h| h.get()).collect();
        assert_eq!(got, PINNED);
    }

    const PINNED: [u64; 3] = [8_131_006_880_933_003_986, 161_679_320_682_310_974, 9_049_563_406_104_509_455];
}
