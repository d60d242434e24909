//! Sampled hash verification: whether an engine hashes as its dialect says.
//!
//! Events carry 64 bits of a hash and the next block needs all of them, so a chain can only be recomputed from its
//! root: some roots are chosen, and what follows them is followed.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU32;

use crate::map::FixedMap;

use super::dialect::Dialect;
use super::event::{EngineBatch, EngineEvent, EngineHash, EngineStored};
use super::groups;
use super::mismatch_cause::{self, MismatchCause};
use super::rules::ChainState;

/// Sampled verification: the dialect to check against, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyConfig {
    /// What the engine is taken to speak.
    pub dialect: Dialect,
    /// Of how many stores one is chosen.
    pub every: NonZeroU32,
}

impl VerifyConfig {
    /// Checks one of `every` stores, and what continues it; all of them if `every` is 0 or 1.
    #[must_use]
    pub fn every(dialect: Dialect, every: u32) -> Self {
        Self { dialect, every: NonZeroU32::new(every).unwrap_or(NonZeroU32::MIN) }
    }
}

/// Outcome of sampled verification, in blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyStats {
    /// The announced hash is the computed one.
    pub matched: u64,
    /// It is not.
    pub mismatched: u64,
    /// Nothing could be computed: no tokens, or a parent of which only 64 bits are known.
    pub unverifiable: u64,
    /// The last mismatch.
    pub last_mismatch: Option<HashMismatch>,
}

/// An engine announced a hash that its dialect does not give. Requests hashed in that dialect find nothing on it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashMismatch {
    /// What the engine is taken to speak.
    pub dialect: Dialect,
    /// What it announced.
    pub announced: EngineHash,
    /// What the dialect gives.
    pub computed: EngineHash,
    /// What most likely differs.
    pub cause: MismatchCause,
}

impl fmt::Display for HashMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dialect, announced, computed, cause } = self;
        write!(f, "the engine announced {:016x} where {dialect} gives {:016x}: ", announced.get(), computed.get())?;
        write!(f, "{cause}")
    }
}

/// One engine's verifier.
#[derive(Debug)]
pub(super) struct Verifier {
    verify: VerifyConfig,
    seen: u32,
    /// Where chains that are followed stood after each block.
    states: FixedMap<EngineHash, ChainState>,
    /// The same blocks, oldest first.
    order: VecDeque<EngineHash>,
    /// Blocks of tokens alone that agreed.
    plain: u64,
    stats: VerifyStats,
}

impl Verifier {
    pub(super) fn new(verify: VerifyConfig) -> Self {
        let (states, order) = (FixedMap::default(), VecDeque::new());
        Self { verify, seen: 0, states, order, plain: 0, stats: VerifyStats::default() }
    }

    pub(super) fn stats(&self) -> VerifyStats {
        self.stats.clone()
    }

    /// Forgets the chains that are followed; the counts stay.
    pub(super) fn reset(&mut self) {
        self.states = FixedMap::default();
        self.order.clear();
    }

    /// Checks what of a batch is chosen; the first mismatch, and later ones of another cause.
    pub(super) fn look_at(&mut self, batch: &EngineBatch<'_>) -> Option<HashMismatch> {
        let mut news = None;
        for event in &batch.events {
            let EngineEvent::Stored(stored) = event else { continue };
            if let Some(found) = self.look_at_store(stored) {
                let known = self.stats.last_mismatch.as_ref().is_some_and(|last| last.cause == found.cause);
                self.stats.last_mismatch = Some(found.clone());
                if !known {
                    news.get_or_insert(found);
                }
            }
        }
        news
    }

    fn look_at_store(&mut self, stored: &EngineStored<'_>) -> Option<HashMismatch> {
        // What keeps no prefix is sparse, and placeholders say nothing of their blocks.
        let telling = stored.block_size > 0 && groups::carries_prefix(stored.kind.as_deref());
        if stored.hashes.is_empty() || !telling {
            return None;
        }
        let before = stored.parent.and_then(|parent| self.states.get(&parent));
        if before.is_none() {
            self.seen = (self.seen + 1) % self.verify.every;
            if self.seen != 0 && self.verify.every.get() > 1 {
                return None;
            }
        }
        let blocks = stored.hashes.len() as u64;
        let Ok(computed) = self.verify.dialect.recompute(stored, before) else {
            self.stats.unverifiable += blocks;
            return None;
        };
        let same = computed.iter().zip(&stored.hashes).take_while(|((computed, _), announced)| computed == *announced);
        let same = same.count();
        self.stats.matched += same as u64;
        if same == stored.hashes.len() {
            if stored.extra_keys.iter().all(Vec::is_empty) {
                self.plain += blocks;
            }
            computed.into_iter().for_each(|(block, state)| self.follow(block, state));
            return None;
        }
        let cause = self.cause(stored);
        if self.verify.dialect.hides_keys() && !cause.is_proven() {
            // A key that events do not carry may have been hashed too.
            self.stats.unverifiable += blocks - same as u64;
            return None;
        }
        self.stats.mismatched += blocks - same as u64;
        Some(HashMismatch {
            dialect: self.verify.dialect.clone(),
            announced: stored.hashes[same],
            computed: computed[same].0,
            cause,
        })
    }

    /// Why they disagree. Trying takes long, so what was found is believed for a while.
    fn cause(&self, stored: &EngineStored<'_>) -> MismatchCause {
        match &self.stats.last_mismatch {
            Some(last) if self.stats.mismatched % 64 != 0 => last.cause.clone(),
            _ => mismatch_cause::find(&self.verify.dialect, stored, self.plain > 0),
        }
    }

    /// Remembers where a chain stands after a block, in place of the oldest if there are many.
    fn follow(&mut self, block: EngineHash, state: ChainState) {
        if self.states.insert(block, state).is_none() {
            self.order.push_back(block);
        }
        if self.order.len() > MOST_FOLLOWED {
            if let Some(oldest) = self.order.pop_front() {
                self.states.remove(&oldest);
            }
        }
    }
}

/// Blocks after which a chain may be taken up again.
const MOST_FOLLOWED: usize = 4096;

#[cfg(all(test, feature = "vllm", not(routing_loom)))]
mod tests;
