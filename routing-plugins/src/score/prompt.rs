//! Uncached tokens: prompt length, and what of it a pod would compute.

use kv_index::{Matches, PodSet};
use routing_core::{Declare, PrefixMatches, Read, Reads, Request, RoutingContext, SlotError, TryRead};

use super::normalize;
use crate::prepare::PromptChain;
use crate::tokens::PromptTokens;

/// The slots that tell a prompt's length and who holds how much of it.
#[derive(Debug)]
pub(crate) struct PromptReads<const W: usize> {
    tokens: TryRead<PromptTokens>,
    chain: Read<PromptChain>,
    held: Read<PrefixMatches<W>>,
}

impl<const W: usize> PromptReads<W> {
    pub(crate) fn declare(declare: &mut Declare<'_>) -> Self {
        Self { tokens: declare.tries(), chain: declare.reads(), held: declare.reads() }
    }

    pub(crate) fn read<'d>(&self, context: &RoutingContext<'d, W>) -> Result<PromptSize<'d, W>, SlotError> {
        let tokens = context.try_read(self.tokens)?.map(|tokens| tokens.of(context.request()).len());
        let (chain, held) = (context.read(self.chain)?, context.read(self.held)?);
        Ok(PromptSize::new(tokens, chain.block_tokens(), held))
    }

    /// The same while a slot is written.
    pub(crate) fn read_from<'d>(
        &self,
        reads: &Reads<'d>,
        request: &Request<'d>,
    ) -> Result<PromptSize<'d, W>, SlotError> {
        let tokens = reads.try_read(self.tokens)?.map(|tokens| tokens.of(request).len());
        Ok(PromptSize::new(tokens, reads.read(self.chain)?.block_tokens(), reads.read(self.held)?))
    }
}

/// Tokens of a prompt that a pod has to compute which holds so many leading blocks of it.
///
/// Only as many blocks are searched for as count: a preparer or a request may set a limit to them. What lies beyond is
/// taken to be held by pods that hold everything which counts, up to the last whole block, and by nobody else.
#[inline]
pub(crate) fn uncached<const W: usize>(tokens: u64, block: u64, held: &Matches<W>, depth: usize) -> u64 {
    if depth > 0 && depth >= held.blocks() {
        tokens % block.max(1)
    } else {
        tokens.saturating_sub(depth as u64 * block)
    }
}

/// Tokens of a prompt; of its whole blocks, where there are no tokens: it came as text, or as hashes.
#[inline]
pub(crate) fn length<const W: usize>(tokens: u64, block: u64, held: &Matches<W>) -> u64 {
    if tokens == 0 { (held.blocks() as u64).saturating_mul(block) } else { tokens }
}

/// A prompt's length, and who holds how much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PromptSize<'d, const W: usize> {
    /// Tokens of the prompt; of its whole blocks, where there are no tokens.
    pub(crate) tokens: u64,
    /// Tokens in a block, at least 1.
    pub(crate) block: u64,
    pub(crate) held: &'d Matches<W>,
}

impl<'d, const W: usize> PromptSize<'d, W> {
    fn new(tokens: Option<usize>, block: usize, held: &'d Matches<W>) -> Self {
        let block = block.max(1) as u64;
        Self { tokens: length(tokens.unwrap_or_default() as u64, block, held), block, held }
    }

    /// Tokens that a pod which holds so many leading blocks has to compute.
    #[inline]
    pub(crate) fn uncached(&self, depth: usize) -> u64 {
        uncached(self.tokens, self.block, self.held, depth)
    }

    /// Candidates by how many leading blocks they hold.
    pub(crate) fn by_depth(&self, candidates: PodSet<W>, visit: impl FnMut(PodSet<W>, usize)) {
        normalize::by_depth(Some(self.held), candidates, visit);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::score::PrefillCostScorer;
    use crate::score::testing::{BLOCK, Scene};

    #[test]
    fn beyond_what_counts_nothing_is_lacking_where_all_that_counts_is_held() {
        // Of 10 blocks 4 count. Who holds them has 5 tokens to compute, who holds 3 of them all but those.
        let scene = Scene::new(3).prompt(10 * BLOCK + 5, &[10, 3]);
        let request = scene.request().most_prefix(4 * BLOCK as u32);
        let scores = scene.scores_of(&request, scene.profile().scorer("cost", 1.0, PrefillCostScorer::declare));
        assert_eq!(scores, [1.0, (3 * BLOCK) as f32 / (10 * BLOCK) as f32, 0.0]);
    }

    proptest! {
        /// Where everything counts, a pod lacks what it does not hold.
        #[test]
        fn without_a_limit_it_is_what_is_not_held(blocks in 1..12usize, rest in 0..BLOCK, held in 0..12usize) {
            let held = held.min(blocks);
            let scene = Scene::new(1).prompt(blocks * BLOCK + rest, &[held]);
            let mut matches = Matches::default();
            scene.index.search(&scene.hashes(), &mut matches);
            let tokens = (blocks * BLOCK + rest) as u64;
            let lacking = uncached(tokens, BLOCK as u64, &matches, matches.depth(scene.pod(0).id()));
            prop_assert_eq!(lacking, tokens - (held * BLOCK) as u64);
        }
    }
}
