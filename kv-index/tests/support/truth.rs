//! Reference state: what the index must hold for a simulated engine.

use std::collections::BTreeMap;

use kv_index::engine::{EngineFeedConfig, native_seed};
use kv_index::{BlockHash, BlockSize, ChainHasher, Digest, EventSemantics, Index, Matches, Pod, Tier};

use super::pool::{Namespace, Pool, Removals, engine_hashes, model};

/// How the index is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Blocks under the engine's names.
    EngineHashes,
    /// Blocks under our own hashes.
    Tokens,
    /// Our own hashes, two pages of the engine to a block.
    TokensOfTwoPages,
    /// The engine's names, two pages to a block.
    EngineHashesOfTwoPages,
}

impl Way {
    pub const ALL: [Self; 4] = [Self::EngineHashes, Self::Tokens, Self::TokensOfTwoPages, Self::EngineHashesOfTwoPages];

    fn pages(self) -> usize {
        match self {
            Self::EngineHashes | Self::Tokens => 1,
            Self::TokensOfTwoPages | Self::EngineHashesOfTwoPages => 2,
        }
    }

    fn block_size(self, pool: &Pool) -> BlockSize {
        BlockSize::new((pool.block_size * self.pages()) as u32).expect("blocks have tokens")
    }

    pub fn config(self, pool: &Pool) -> EngineFeedConfig {
        let size = self.block_size(pool);
        let mut config = match self {
            Self::EngineHashes | Self::EngineHashesOfTwoPages => EngineFeedConfig::engine_hashes(size),
            Self::Tokens | Self::TokensOfTwoPages => EngineFeedConfig::tokens(model(), size),
        };
        config.accumulate = self.pages() > 1;
        if pool.removals == Removals::LastCopy {
            config.semantics = EventSemantics::Membership;
        }
        config
    }

    /// The chain a request searches by.
    pub fn chain(self, pool: &Pool, namespace: Namespace, tokens: &[u32]) -> Vec<BlockHash> {
        let pages = self.pages();
        match self {
            Self::EngineHashes | Self::EngineHashesOfTwoPages => {
                let hashes = engine_hashes(tokens, namespace, pool.block_size);
                hashes.into_iter().skip(pages - 1).step_by(pages).map(BlockHash::new).collect()
            }
            Self::Tokens | Self::TokensOfTwoPages => {
                let seed = native_seed(model(), namespace.0, namespace.1);
                ChainHasher::new(seed, self.block_size(pool)).hash(tokens)
            }
        }
    }

    /// Every block the index must hold, with its copies.
    fn blocks(self, pool: &Pool) -> BTreeMap<BlockHash, u32> {
        let mut blocks = BTreeMap::new();
        for (hash, copies) in pool.truth() {
            let (namespace, tokens) = &pool.meaning[&hash];
            let pages = engine_hashes(tokens, *namespace, pool.block_size);
            let whole = pages.len() % self.pages() == 0
                && pages[pages.len() - self.pages()..].iter().all(|page| pool.holds(*page));
            if whole {
                let name = *self.chain(pool, *namespace, tokens).last().expect("a whole block");
                // Under the engine's names each physical copy counts; behind the map of names, each name does.
                blocks.insert(name, if self == Self::EngineHashes { copies } else { 1 });
            }
        }
        blocks
    }

    /// Compares the pod's state with the engine's: every block and copy, and every prompt's depth.
    pub fn compare(self, index: &Index, pod: Pod, pool: &Pool, prompts: &[(Namespace, Vec<u32>)], note: &str) {
        let truth = self.blocks(pool);
        let mut digest = Digest::EMPTY;
        // Where only the last copy's end is told, nobody can count them.
        let told = |copies: u32| if pool.removals == Removals::LastCopy { copies.min(1) } else { copies };
        truth.iter().for_each(|(block, copies)| digest.add_copies(*block, Tier::Gpu, told(*copies)));
        let stats = index.pod_stats(pod).expect("live");
        assert_eq!(stats.blocks, truth.len(), "{self:?}, {note}");
        assert_eq!(index.digest(pod), Ok(digest), "{self:?}, {note}");
        for (found, held) in self.depths(index, pod, pool, prompts) {
            assert_eq!(found, held, "{self:?}, {note}");
        }
    }

    /// Each prompt's depth: as a search finds it, and as it is.
    pub fn depths(
        self,
        index: &Index,
        pod: Pod,
        pool: &Pool,
        prompts: &[(Namespace, Vec<u32>)],
    ) -> Vec<(usize, usize)> {
        let (truth, mut matches) = (self.blocks(pool), Matches::default());
        let depths = prompts.iter().map(|(namespace, tokens)| {
            let chain = self.chain(pool, *namespace, tokens);
            index.search(&chain, &mut matches);
            (matches.depth(pod.id()), chain.iter().take_while(|block| truth.contains_key(*block)).count())
        });
        depths.collect()
    }
}
