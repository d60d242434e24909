//! Block hashing under both names of a block: the router's chain hash, and vLLM's digest with this process's seed.
//!
//! Invariant: the two chains cover the same blocks of the same tokens under the same salt.

use kv_index::engine::vllm::VllmHashing;
use kv_index::engine::{BlockDigest, Dialect, DialectError, DialectHasher, Prompt, Version, native_seed};
use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed};

use super::events::Block;

/// Hashes the blocks of one pod.
#[derive(Clone, Debug)]
pub(super) struct BlockHasher {
    model: ChainSeed,
    vllm: DialectHasher,
}

impl BlockHasher {
    /// As vLLM 0.32.0 hashes blocks with `PYTHONHASHSEED` set to `hash_seed`.
    pub(super) fn new(model: &str, size: BlockSize, hash_seed: &str) -> Result<Self, DialectError> {
        let dialect = Dialect::vllm(VllmHashing::new(Version::new(0, 32, 0)).seed(hash_seed))?;
        Ok(Self { model: ChainSeed::new(model), vllm: DialectHasher::new(dialect, size) })
    }

    pub(super) fn block_size(&self) -> BlockSize {
        self.vllm.block_size()
    }

    /// The router's hashes of `tokens`.
    pub(super) fn hashes(&self, tokens: &[u32], salt: Option<&str>) -> Vec<BlockHash> {
        ChainHasher::new(native_seed(self.model, None, salt), self.block_size()).hash(tokens)
    }

    /// Both chains of `tokens`. `known` gives the digests of blocks that were hashed before.
    pub(super) fn chain(
        &self,
        tokens: &[u32],
        salt: Option<&str>,
        known: impl Fn(BlockHash) -> Option<BlockDigest>,
    ) -> HashedPrompt {
        let size = self.block_size();
        let hashes = self.hashes(tokens, salt);
        let mut digests: Vec<BlockDigest> = hashes.iter().map_while(|&hash| known(hash)).collect();
        // Later blocks inherit the salt through the digest before them.
        let rest = Prompt::new(&tokens[digests.len() * size.tokens()..]);
        let named = match (digests.last(), salt) {
            (Some(parent), _) => self.vllm.digests_after(parent, &rest),
            (None, Some(salt)) => self.vllm.digests(&rest.salt(salt)),
            (None, None) => self.vllm.digests(&rest),
        };
        digests.extend(named.expect("tokens and a salt are all that vLLM's dialect needs"));
        HashedPrompt { hashes, digests, salt: salt.map(str::to_owned) }
    }
}

/// A prompt's blocks under both hashes, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HashedPrompt {
    pub(super) hashes: Vec<BlockHash>,
    pub(super) digests: Vec<BlockDigest>,
    pub(super) salt: Option<String>,
}

impl HashedPrompt {
    pub(super) fn block(&self, at: usize) -> Block {
        block(self.hashes[at], &self.digests[at])
    }
}

/// A block as events have it: the last eight bytes of its digest, as vLLM truncates it.
pub(super) fn block(hash: BlockHash, digest: &BlockDigest) -> Block {
    let engine_hash = digest.as_bytes().last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    Block { hash, engine_hash }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hasher(seed: &str) -> BlockHasher {
        BlockHasher::new("sim", BlockSize::new(4).unwrap(), seed).unwrap()
    }

    #[test]
    fn a_chain_is_the_same_whatever_of_it_was_known() {
        let tokens: Vec<u32> = (0..23).collect();
        for salt in [None, Some("tenant")] {
            let whole = hasher("0").chain(&tokens, salt, |_| None);
            assert_eq!((whole.hashes.len(), whole.digests.len()), (5, 5));
            for known in 0..=5 {
                let find = |hash| whole.hashes[..known].iter().position(|&h| h == hash).map(|at| whole.digests[at]);
                assert_eq!(hasher("0").chain(&tokens, salt, find), whole);
            }
        }
    }

    #[test]
    fn the_engines_hash_is_what_the_dialect_announces() {
        let tokens: Vec<u32> = (0..8).collect();
        let chain = hasher("7").chain(&tokens, None, |_| None);
        let announced = hasher("7").vllm.hash(&Prompt::new(&tokens)).unwrap();
        assert_eq!([chain.block(0).engine_hash, chain.block(1).engine_hash], [announced[0].get(), announced[1].get()]);
    }

    #[test]
    fn a_salt_changes_both_hashes_and_a_seed_only_the_engines() {
        let tokens: Vec<u32> = (0..8).collect();
        let plain = hasher("0").chain(&tokens, None, |_| None);
        let salted = hasher("0").chain(&tokens, Some("a"), |_| None);
        let seeded = hasher("1").chain(&tokens, None, |_| None);
        assert!((0..2).all(|at| plain.hashes[at] != salted.hashes[at] && plain.digests[at] != salted.digests[at]));
        assert!((0..2).all(|at| plain.hashes[at] == seeded.hashes[at] && plain.digests[at] != seeded.digests[at]));
    }
}
