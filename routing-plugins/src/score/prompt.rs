//! How long the prompt is, and how much of it a pod would have to compute.

use kv_index::{Matches, PodSet};
use routing_core::{Context, Declare, Held, Read, Reads, Request, SlotError, TryRead};

use super::normalize;
use crate::prepare::PromptChain;
use crate::tokens::PromptTokens;

/// The slots that tell a prompt's length and who holds how much of it.
#[derive(Debug)]
pub(crate) struct PromptReads<const W: usize> {
    tokens: TryRead<PromptTokens>,
    chain: Read<PromptChain>,
    held: Read<Held<W>>,
}

impl<const W: usize> PromptReads<W> {
    pub(crate) fn declare(declare: &mut Declare<'_>) -> Self {
        Self { tokens: declare.tries(), chain: declare.reads(), held: declare.reads() }
    }

    pub(crate) fn read<'d>(&self, context: &Context<'d, W>) -> Result<PromptSize<'d, W>, SlotError> {
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
        let tokens = tokens.map_or(held.blocks() as u64 * block, |tokens| tokens as u64);
        Self { tokens, block, held }
    }

    /// Tokens that a pod which holds so many leading blocks has to compute.
    #[inline]
    pub(crate) fn uncached(&self, depth: usize) -> u64 {
        self.tokens.saturating_sub(depth as u64 * self.block)
    }

    /// Candidates by how many leading blocks they hold.
    pub(crate) fn by_depth(&self, candidates: PodSet<W>, visit: impl FnMut(PodSet<W>, usize)) {
        normalize::by_depth(Some(self.held), candidates, visit);
    }
}
