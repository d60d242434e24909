//! Event normalizer: an engine's events as updates of the index.
//!
//! Pure bookkeeping for one stream. It keeps what events leave unsaid (which group carries the prefix, which of
//! our blocks an engine's name stands for) and counts everything it leaves out, by reason.

use crate::blocks::chain::{ChainHasher, ChainSeed};
use crate::blocks::{BlockHash, EventSemantics, Parent, Tier};
use crate::index::snapshot::bytes::{Reader, put_u32};
use crate::pods::SnapshotError;

use super::changes::Changes;
use super::drop_reason::{DropCounts, DropReason};
use super::event::{EngineBatch, EngineEvent, EngineMoved, EngineRemoved, EngineStored, TokenIds};
use super::feed::EngineFeedConfig;
use super::groups::{Groups, Standing};
#[cfg(feature = "trtllm")]
use super::json::TrtllmEvents;
use super::medium::tier;
use super::native::{namespace, native_seed, page_keys};
use super::pages::{CopiesLeft, Naming, NewPages, Pages};

/// What the index calls an engine's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a block is called as we do or as its engine does")]
pub enum HashMode {
    /// By our own hash of their tokens, whatever the engine calls them. Works with every engine that sends tokens.
    ///
    /// The seed is the model's; adapter and salt are added from the events, as [`native_seed`] does for requests.
    Tokens(ChainSeed),
    /// As the engine does. Requests must be hashed in the engine's [`Dialect`](super::Dialect).
    EngineHashes,
}

/// One stream's normalizer.
#[derive(Debug)]
pub(super) struct Translator {
    config: EngineFeedConfig,
    groups: Groups,
    /// Tokens in a page of the engine, once one was announced.
    page_size: Option<u32>,
    /// Its pages, where their names must be looked up.
    pages: Option<Pages>,
    pub(super) drop_counts: DropCounts,
    pub(super) changes: Changes,
    /// Tokens taken out of pairs.
    unfolded: Vec<u32>,
}

/// An engine's block size that does not go into the index's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OddSize(pub(super) u32);

impl Translator {
    pub(super) fn new(config: EngineFeedConfig) -> Self {
        Self {
            config,
            groups: Groups::default(),
            page_size: None,
            pages: None,
            drop_counts: DropCounts::default(),
            changes: Changes::default(),
            unfolded: Vec::new(),
        }
    }

    /// For a snapshot: all but the counts.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        self.groups.write(out);
        put_u32(out, self.page_size.unwrap_or(0));
        out.push(u8::from(self.pages.is_some()));
        self.pages.iter().for_each(|pages| pages.write(out));
    }

    /// From a snapshot.
    pub(super) fn read(config: EngineFeedConfig, reader: &mut Reader<'_>) -> Result<Self, SnapshotError> {
        let groups = Groups::read(reader)?;
        let page_size = Some(reader.u32()?).filter(|size| *size > 0);
        let pages = if reader.u8()? == 0 { None } else { Some(Pages::read(reader, config.max_pages)?) };
        Ok(Self { groups, page_size, pages, ..Self::new(config) })
    }

    /// Forgets everything but the counts.
    pub(super) fn reset(&mut self) {
        self.groups = Groups::default();
        self.page_size = None;
        self.pages = None;
    }

    /// Pages in the map, and its bytes.
    pub(super) fn map_size(&self) -> (usize, usize) {
        self.pages.as_ref().map_or((0, 0), |pages| (pages.len(), pages.bytes()))
    }

    /// What index events count: in the map, copies have been counted already, and what is told is names.
    pub(super) fn semantics(&self) -> EventSemantics {
        if self.is_direct() { self.config.semantics } else { EventSemantics::Copies }
    }

    /// Whether the batch's blocks are of a size the index can have; looked at before anything is changed.
    ///
    /// What an engine that started anew says is not held against what the old one said.
    pub(super) fn check(&self, batch: &EngineBatch<'_>, anew: bool) -> Result<(), OddSize> {
        let (mut groups, mut page_size) =
            if anew { (Groups::default(), None) } else { (self.groups.clone(), self.page_size) };
        for event in &batch.events {
            let EngineEvent::Stored(stored) = event else { continue };
            // Only what the prefix group has in GPU memory is surely the engine's own.
            let own = tier(stored.medium.as_deref(), stored.locality.as_deref()) == Some(Tier::Gpu)
                && !stored.hashes.is_empty()
                && stored.block_size != 0
                && !matches!(groups.stored(stored), Standing::Left(_));
            if own {
                if !self.config.fits(page_size, stored.block_size) {
                    return Err(OddSize(stored.block_size));
                }
                page_size = Some(stored.block_size);
            }
        }
        Ok(())
    }

    /// Counts what a decoder left out.
    #[cfg(feature = "trtllm")]
    pub(super) fn count_decoded(&mut self, decoded: &TrtllmEvents) {
        self.drop_counts.count_events(DropReason::UnknownType, decoded.unknown as usize, 0);
        self.drop_counts.count_events(DropReason::Malformed, decoded.malformed as usize, 0);
        self.drop_counts.count_events(DropReason::PartialBlock, decoded.partial as usize, decoded.partial as usize);
    }

    /// Leaves a whole batch out.
    pub(super) fn leave_out(&mut self, reason: DropReason) {
        self.changes.reset();
        self.drop_counts.count(reason, 0);
    }

    /// Has the index forget everything, and does so itself.
    pub(super) fn forget(&mut self) {
        self.reset();
        // What the batch before came to is still there.
        self.changes.reset();
        self.changes.cleared();
    }

    /// Turns a batch into [`Self::changes`].
    pub(super) fn translate(&mut self, batch: &EngineBatch<'_>) {
        self.changes.reset();
        self.drop_counts.count_events(DropReason::UnknownType, batch.unknown as usize, 0);
        self.drop_counts.count_events(DropReason::Malformed, batch.malformed as usize, 0);
        for event in &batch.events {
            match event {
                EngineEvent::Stored(stored) => self.stored(stored),
                EngineEvent::Removed(removed) => self.removed(removed),
                EngineEvent::Moved(moved) => self.moved(moved),
                EngineEvent::Cleared => self.cleared(),
                EngineEvent::Created(created) => {
                    if created.window.map(|window| self.groups.created(window)) == Some(Standing::PrefixAnew) {
                        self.cleared();
                    }
                }
            }
        }
    }

    fn stored(&mut self, stored: &EngineStored<'_>) {
        let tier = match self.admit(stored) {
            Ok(tier) => tier,
            Err(reason) => return self.drop_counts.count(reason, stored.hashes.len()),
        };
        if self.is_direct() {
            let mut parent = match stored.parent {
                Some(parent) => Parent::Block(parent.into()),
                // Without tokens nothing says that the store begins a prompt.
                None if stored.tokens.is_empty() => Parent::Unknown,
                None => Parent::Root,
            };
            for &hash in &stored.hashes {
                let block = BlockHash::from(hash);
                self.changes.stored(parent, block, tier);
                parent = Parent::Block(block);
            }
            return;
        }
        self.store_pages(stored, tier);
    }

    /// Whether a store is for the index, and which tier it is in.
    fn admit(&mut self, stored: &EngineStored<'_>) -> Result<Tier, DropReason> {
        if stored.hashes.is_empty() {
            return Err(DropReason::EmptyStore);
        }
        if stored.block_size == 0 {
            return Err(DropReason::Placeholder);
        }
        let tier = tier(stored.medium.as_deref(), stored.locality.as_deref()).ok_or(DropReason::UnknownMedium)?;
        // Layers beside the engine send chunks of their own size, without saying what group they are of. Groups and the
        // page size are learned from what the engine itself stored.
        let own = tier == Tier::Gpu || stored.window.is_some();
        if !own && !self.fits(stored.block_size) {
            return Err(DropReason::OtherBlockSize);
        }
        let told = own || stored.kind.is_some();
        match if told { self.groups.stored(stored) } else { self.groups.numbered(stored.group) } {
            Standing::Prefix => {}
            Standing::PrefixAnew => self.cleared(),
            Standing::Left(reason) => return Err(reason),
        }
        if !self.fits(stored.block_size) || !own && self.page_size.is_none() {
            return Err(DropReason::OtherBlockSize);
        }
        let tokens = stored.tokens.len();
        if tokens > 0 && tokens != stored.hashes.len().saturating_mul(stored.block_size as usize) {
            if own && self.groups.found_sparse(stored) {
                self.cleared();
            }
            return Err(DropReason::Sparse);
        }
        self.page_size = Some(stored.block_size);
        Ok(tier)
    }

    fn store_pages(&mut self, stored: &EngineStored<'_>, tier: Tier) {
        let size = self.config.block_size;
        let hasher;
        let naming = match self.config.mode {
            HashMode::EngineHashes => Naming::Engine,
            HashMode::Tokens(model) => {
                // Only a root's namespace matters: what follows inherits it from its parent's hash.
                let (adapter, salt) = namespace(stored);
                hasher = ChainHasher::new(native_seed(model, adapter.as_deref(), salt), size);
                Naming::Native(&hasher)
            }
        };
        let tokens: &[u32] = match &stored.tokens {
            TokenIds::Plain(ids) => ids,
            // A pair is a token and the one after it; the first of each pair are the page's own.
            TokenIds::Pairs(pairs) => {
                self.unfolded.clear();
                self.unfolded.extend(pairs.iter().map(|pair| pair[0]));
                &self.unfolded
            }
            TokenIds::Wide(_) if matches!(naming, Naming::Engine) => &[],
            TokenIds::Wide(_) => return self.drop_counts.count(DropReason::WideTokens, stored.hashes.len()),
        };
        let config = &self.config;
        let pages = self.pages.get_or_insert_with(|| {
            let per_block = (size.tokens() as u32 / stored.block_size).try_into().unwrap_or(u16::MAX);
            Pages::new(per_block, config.max_pages)
        });
        let new = NewPages {
            names: &stored.hashes,
            before: stored.parent,
            tokens: (!stored.tokens.is_empty()).then_some(tokens),
            tier,
            source: config.semantics,
            keys: &|page, place| page_keys(stored, page, place),
            naming,
        };
        pages.store(&new, &mut self.changes, &mut self.drop_counts);
    }

    fn removed(&mut self, removed: &EngineRemoved<'_>) {
        let blocks = removed.hashes.len();
        let Some(tier) = tier(removed.medium.as_deref(), removed.locality.as_deref()) else {
            return self.drop_counts.count(DropReason::UnknownMedium, blocks);
        };
        if let Standing::Left(reason) = self.groups.removed(removed) {
            return self.drop_counts.count(reason, blocks);
        }
        // A source that states membership and names no medium means that the block is nowhere any more.
        let everywhere = self.config.semantics == EventSemantics::Membership && removed.medium.is_none();
        let untold = if everywhere { CopiesLeft::NoneAnywhere } else { self.copies_left() };
        // What the engine itself counts is so, whichever copies it tells of.
        let told = removed.remaining.len() == blocks;
        let copies = |at: usize| if told { CopiesLeft::Known(removed.remaining[at]) } else { untold };
        if self.is_direct() {
            for (at, &hash) in removed.hashes.iter().enumerate() {
                self.changes.removed(hash.into(), tier, copies(at));
            }
            return;
        }
        let mut missing = blocks;
        if let Some(pages) = &mut self.pages {
            let changes = &mut self.changes;
            let found =
                removed.hashes.iter().enumerate().filter(|(at, id)| pages.remove(**id, tier, copies(*at), changes));
            missing -= found.count();
        }
        if missing > 0 {
            self.drop_counts.count(DropReason::UnknownBlock, missing);
        }
    }

    fn moved(&mut self, moved: &EngineMoved<'_>) {
        let (Some(from), Some(to)) = (tier(Some(&moved.from), None), tier(Some(&moved.to), None)) else {
            return self.drop_counts.count(DropReason::UnknownMedium, 1);
        };
        if let Standing::Left(reason) = self.groups.moved(moved.window) {
            return self.drop_counts.count(reason, 1);
        }
        if from == to {
            return;
        }
        if self.is_direct() {
            // In before out: between the two the block must not be forgotten, nor its parent.
            self.changes.stored(Parent::Unknown, moved.hash.into(), to);
            self.changes.removed(moved.hash.into(), from, self.copies_left());
            return;
        }
        let found = self.pages.as_mut().is_some_and(|pages| pages.shift(moved.hash, from, to, &mut self.changes));
        if !found {
            self.drop_counts.count(DropReason::UnknownBlock, 1);
        }
    }

    fn cleared(&mut self) {
        if let Some(pages) = &mut self.pages {
            pages.clear();
        }
        self.changes.cleared();
    }

    /// What an eviction says of copies, unless it says it itself.
    fn copies_left(&self) -> CopiesLeft {
        match self.config.semantics {
            EventSemantics::Copies => CopiesLeft::OneLess,
            EventSemantics::Membership => CopiesLeft::Known(0),
        }
    }

    /// Whether the index's blocks are the engine's, under the engine's names: nothing needs looking up.
    fn is_direct(&self) -> bool {
        let block = self.config.block_size.tokens();
        self.config.mode == HashMode::EngineHashes && self.page_size.is_none_or(|size| size as usize == block)
    }

    fn fits(&self, size: u32) -> bool {
        self.config.fits(self.page_size, size)
    }
}

impl EngineFeedConfig {
    /// Whether engine blocks of this size make up blocks of the index, given the size of those before.
    fn fits(&self, known: Option<u32>, size: u32) -> bool {
        let block = self.block_size.tokens() as u32;
        let divides = size > 0 && block % size == 0 && u16::try_from(block / size).is_ok();
        known.is_none_or(|known| known == size) && (size == block || self.accumulate && divides)
    }
}

#[cfg(all(test, not(routing_loom)))]
mod tests;
