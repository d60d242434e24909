//! Ours: `Index::search` over cumulative hashes.

use std::time::{Duration, Instant};

use kv_index::{
    BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Event, Index, Matches, Parent, Pod, Removed, Source, Stored,
};

use super::System;
use crate::fleet::{Op, Step};

/// Our index with one caller's buffers.
#[derive(Debug)]
pub struct Ours {
    index: Index,
    pods: Vec<Pod>,
    matches: Matches,
    hasher: ChainHasher,
    hashes: Vec<BlockHash>,
}

/// A prompt, and the same from its end for evictions.
#[derive(Debug)]
pub struct OurChain {
    forward: Vec<BlockHash>,
    backward: Vec<BlockHash>,
}

impl System for Ours {
    const NAME: &'static str = "pointsman";
    type Chain = OurChain;

    fn new(pods: usize) -> Self {
        let index = Index::new(Config::default());
        let pods = (0..pods).map(|i| index.join(&format!("pod-{i}")).expect("room for every pod")).collect();
        Self { index, pods, matches: Matches::default(), hasher: hasher(), hashes: Vec::new() }
    }

    fn chain(hashes: &[BlockHash]) -> OurChain {
        OurChain { forward: hashes.to_vec(), backward: hashes.iter().rev().copied().collect() }
    }

    fn chain_of_tokens(tokens: &[u32]) -> OurChain {
        Self::chain(&hasher().hash(tokens))
    }

    fn touch(chain: &OurChain) -> u64 {
        chain.forward.iter().map(|hash| hash.get() >> 32).sum()
    }

    fn write(&mut self, chains: &[OurChain], steps: &[Step]) -> Duration {
        let start = Instant::now();
        for step in steps {
            let chain = &chains[step.chain];
            let event = match step.op {
                Op::Store => {
                    let parent = match step.from {
                        0 => Parent::Root,
                        from => Parent::Block(chain.forward[from - 1]),
                    };
                    Event::Stored(Stored::new(parent, &chain.forward[step.from..step.to]))
                }
                Op::Evict => {
                    let len = chain.backward.len();
                    Event::Removed(Removed::new(&chain.backward[len - step.to..len - step.from]))
                }
            };
            self.index.apply(self.pods[step.pod], Source::Membership, &event).expect("every pod is live");
        }
        start.elapsed()
    }

    fn ask(&mut self, chain: &OurChain) -> u64 {
        self.index.search(&chain.forward, &mut self.matches);
        self.sum()
    }

    fn ask_by_pod(&mut self, chain: &OurChain) -> u64 {
        self.index.search(&chain.forward, &mut self.matches);
        let groups = self.matches.groups().iter();
        groups.map(|group| group.pods.iter().map(|pod| (pod.index() ^ group.depth) as u64).sum::<u64>()).sum()
    }

    fn ask_tokens(&mut self, tokens: &[u32]) -> u64 {
        self.hashes.clear();
        self.hasher.extend_into(tokens, &mut self.hashes);
        self.index.search(&self.hashes, &mut self.matches);
        self.sum()
    }

    fn ask_tokens_lazily(&mut self, tokens: &[u32]) -> u64 {
        let mut chain = self.hasher.lazy(tokens, &mut self.hashes);
        self.index.search_lazy(&mut chain, &mut self.matches);
        self.sum()
    }

    fn depths(&mut self, chain: &OurChain, depths: &mut [u32]) {
        self.index.search(&chain.forward, &mut self.matches);
        depths.fill(0);
        for group in self.matches.groups() {
            for pod in group.pods {
                depths[pod.index()] = group.depth as u32;
            }
        }
    }

    fn probes(&self) -> Option<usize> {
        Some(self.matches.probes())
    }

    fn claimed_bytes(&self) -> Option<usize> {
        Some(self.index.stats().bytes)
    }

    fn tidy(&mut self) {
        kv_index::collect();
    }
}

impl Ours {
    fn sum(&self) -> u64 {
        self.matches.groups().iter().map(|group| group.depth as u64 ^ group.pods.words()[0]).sum()
    }
}

fn hasher() -> ChainHasher {
    ChainHasher::new(ChainSeed::new("bench"), BlockSize::new(super::BLOCK_TOKENS as u32).expect("not zero"))
}
