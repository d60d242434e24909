//! Page accumulation: an engine's pages by the engine's hashes, and the index blocks that they make up.
//!
//! Token mode files blocks under hashes of our own, so an eviction that names the engine's block has to be looked
//! up: this map is what it is looked up in. Where engine pages are smaller than index blocks, it also knows which
//! pages a block is made of: a block is there while all of them are.
//!
//! The rules: a page is in the map while a copy of it is anywhere, or while a page of the same block hangs under
//! it; a block is told to the index once for each of its last pages and tiers, so that two engine names of one
//! block count as two copies. Pages that left are remembered for a while: an engine may evict a block under a
//! request that goes on, and then announce what follows it.

mod departed;
mod page;
mod saved;

use smallvec::SmallVec;

use crate::blocks::chain::ChainHasher;
use crate::blocks::{BlockHash, EventSemantics, Parent, Tier};
use crate::map::FixedMap;

use self::departed::Departed;
use self::page::{Before, Chain, Link, Page};
pub(super) use self::page::{CopiesLeft, Naming, NewPages};
use super::changes::Changes;
use super::drop_reason::{DropCounts, DropReason};
use super::event::EngineHash;

/// The pages of one pod.
#[derive(Debug)]
pub(super) struct Pages {
    pages: FixedMap<EngineHash, Page>,
    /// How pages hang together inside a block; empty where every page is a block.
    links: FixedMap<EngineHash, Link>,
    departed: Departed,
    per_block: u16,
    most: usize,
}

impl Pages {
    /// A map of at most `most` pages, `per_block` of which make a block.
    pub(super) fn new(per_block: u16, most: usize) -> Self {
        let (pages, links) = (FixedMap::default(), FixedMap::default());
        Self { pages, links, departed: Departed::default(), per_block: per_block.max(1), most }
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    /// Bytes of the maps; an estimate.
    pub(super) fn bytes(&self) -> usize {
        self.pages.capacity() * (size_of::<(EngineHash, Page)>() + 1)
            + self.links.capacity() * (size_of::<(EngineHash, Link)>() + 1)
            + self.departed.bytes()
    }

    pub(super) fn clear(&mut self) {
        self.pages = FixedMap::default();
        self.links = FixedMap::default();
        self.departed = Departed::default();
    }

    /// Counts pages in, up to the first that cannot be placed.
    pub(super) fn store(&mut self, new: &NewPages<'_>, changes: &mut Changes, drop_counts: &mut DropCounts) {
        let mut before = match new.before {
            None if new.tokens.is_none() => Before::Unknown,
            None => Before::Root,
            Some(id) => self.revive(id).map_or(Before::Unknown, |page| page.as_before(id)),
        };
        for (at, &id) in new.names.iter().enumerate() {
            let entered = match self.pages.contains_key(&id) {
                true if at == 0 && self.clashes(new, before) => Err(DropReason::NameClash),
                true => Ok(()),
                false => self.enter(new, at, before),
            };
            if let Err(reason) = entered {
                drop_counts.count(reason, new.names.len() - at);
                break;
            }
            if self.count_in(id, new.tier, new.source) {
                self.came(id, before, new.tier, changes);
            }
            before = self.pages.get(&id).map_or(Before::Unknown, |page| page.as_before(id));
        }
        if let Some(parent) = new.before {
            // Brought back for nothing, if nothing came under it.
            self.free(parent);
        }
    }

    /// Whether a known name comes as the root of something else than it stands for.
    fn clashes(&self, new: &NewPages<'_>, before: Before) -> bool {
        let (Before::Root, Naming::Native(hasher), Some(tokens)) = (before, new.naming, new.tokens) else {
            return false;
        };
        let Some(page) = self.pages.get(&new.names[0]) else { return false };
        let size = tokens.len() / new.names.len();
        let expected = match self.per_block {
            1 => hasher.block(None, &tokens[..size], &(new.keys)(0, 0).concat()).map(Chain::Block),
            _ => Some(Chain::Seed(hasher.start())),
        };
        expected != Some(page.chain)
    }

    /// Counts copies of a page out; false if there was none.
    pub(super) fn remove(&mut self, id: EngineHash, tier: Tier, left: CopiesLeft, changes: &mut Changes) -> bool {
        if matches!(left, CopiesLeft::NoneAnywhere) {
            // Not `any`, which would stop at the first.
            return Tier::ALL.into_iter().filter(|tier| self.remove(id, *tier, CopiesLeft::Known(0), changes)).count()
                > 0;
        }
        let Some(page) = self.pages.get_mut(&id) else { return false };
        let copies = &mut page.copies[tier.index()];
        if *copies == 0 {
            return false;
        }
        *copies = match left {
            CopiesLeft::OneLess => *copies - 1,
            CopiesLeft::Known(left) => u16::try_from(left).unwrap_or(u16::MAX),
            CopiesLeft::NoneAnywhere => 0,
        };
        if *copies == 0 {
            self.left(id, tier, changes);
            self.free(id);
        }
        true
    }

    /// Moves a page's copies from one tier to another; false if there were none.
    pub(super) fn shift(&mut self, id: EngineHash, from: Tier, to: Tier, changes: &mut Changes) -> bool {
        if self.pages.get(&id).is_none_or(|page| page.copies[from.index()] == 0) {
            return false;
        }
        // In before out: between the two the page must not be forgotten.
        if self.count_in(id, to, EventSemantics::Membership) {
            self.came(id, Before::Unknown, to, changes);
        }
        self.remove(id, from, CopiesLeft::Known(0), changes)
    }

    /// A page that something follows: as it is, or as it was when it left.
    ///
    /// One that is part of the block that follows comes back to the map, without a copy.
    fn revive(&mut self, id: EngineHash) -> Option<Page> {
        if let Some(page) = self.pages.get(&id) {
            return Some(*page);
        }
        let page = self.departed.page(id)?;
        if page.place + 1 == self.per_block {
            return Some(page);
        }
        if self.pages.len() >= self.most {
            return None;
        }
        let link = self.departed.take(id)?;
        if let Some(before) = link.before.filter(|_| page.place > 0) {
            self.revive(before).filter(|before| before.place + 1 == page.place)?;
            self.links.get_mut(&before)?.after.push(id);
        }
        self.pages.insert(id, page);
        self.links.insert(id, link);
        Some(page)
    }

    /// Enters a page that is not there, without a copy of it.
    fn enter(&mut self, new: &NewPages<'_>, at: usize, before: Before) -> Result<(), DropReason> {
        let (chain, place) = match before {
            Before::Root => (Chain::Seed(new.naming.seed()), 0),
            Before::Page { chain, place, .. } => (chain, (place + 1) % self.per_block),
            Before::Unknown if new.tokens.is_none() => return Err(DropReason::NoTokens),
            Before::Unknown => return Err(DropReason::UnknownParent),
        };
        if self.pages.len() >= self.most {
            return Err(DropReason::MapFull);
        }
        let id = new.names[at];
        let size = new.tokens.map_or(0, |tokens| tokens.len() / new.names.len());
        let tokens = new.tokens.map(|tokens| &tokens[at * size..(at + 1) * size]);
        let keys = (new.keys)(at, place as usize * size);
        let whole = place + 1 == self.per_block;
        let chain = match new.naming {
            Naming::Native(_) if tokens.is_none() => return Err(DropReason::NoTokens),
            _ if !whole => chain,
            Naming::Engine => Chain::Block(BlockHash::from(id)),
            Naming::Native(hasher) => {
                Chain::Block(self.hash(hasher, chain.state(), before, tokens.unwrap_or(&[]), &keys)?)
            }
        };
        self.departed.forget(id);
        self.pages.insert(id, Page { chain, copies: [0; 4], place, told: 0 });
        if self.per_block > 1 {
            let before = if let Before::Page { id, .. } = before { Some(id) } else { None };
            if let Some(link) = before.filter(|_| place > 0).and_then(|before| self.links.get_mut(&before)) {
                link.after.push(id);
            }
            let tokens = tokens.unwrap_or(&[]).into();
            self.links.insert(id, Link { before, tokens, keys, after: SmallVec::new() });
        }
        Ok(())
    }

    /// The hash of the block that a page completes.
    fn hash(
        &self,
        hasher: &ChainHasher,
        state: BlockHash,
        before: Before,
        tokens: &[u32],
        keys: &[Vec<u8>],
    ) -> Result<BlockHash, DropReason> {
        if self.per_block == 1 {
            return hasher.block(Some(state), tokens, &keys.concat()).ok_or(DropReason::UnknownParent);
        }
        let mut links = SmallVec::<[&Link; 16]>::new();
        let mut next = if let Before::Page { id, .. } = before { Some(id) } else { None };
        for _ in 1..self.per_block {
            let link = next.and_then(|id| self.links.get(&id)).ok_or(DropReason::UnknownParent)?;
            links.push(link);
            next = link.before;
        }
        links.reverse();
        let mut all: SmallVec<[u32; 64]> = links.iter().flat_map(|link| link.tokens.iter().copied()).collect();
        all.extend_from_slice(tokens);
        // An item that spans pages is one key of the block.
        let mut seen: Vec<&Vec<u8>> = Vec::new();
        for key in links.iter().flat_map(|link| &link.keys).chain(keys) {
            if !seen.contains(&key) {
                seen.push(key);
            }
        }
        let keys: Vec<u8> = seen.into_iter().flatten().copied().collect();
        hasher.block(Some(state), &all, &keys).ok_or(DropReason::UnknownParent)
    }

    /// Counts a copy in; whether it is the first in its tier.
    fn count_in(&mut self, id: EngineHash, tier: Tier, source: EventSemantics) -> bool {
        let Some(page) = self.pages.get_mut(&id) else { return false };
        let copies = &mut page.copies[tier.index()];
        let first = *copies == 0;
        if first || source == EventSemantics::Copies {
            *copies = copies.saturating_add(1);
        }
        first
    }

    /// A page is in a tier now, and was not: tells the index of the blocks that are whole with it.
    fn came(&mut self, id: EngineHash, before: Before, tier: Tier, changes: &mut Changes) {
        if self.per_block == 1 {
            let parent = match before {
                Before::Root => Parent::Root,
                Before::Page { chain, .. } => chain.parent(),
                Before::Unknown => Parent::Unknown,
            };
            if let (Some(name), true) = (self.block(id), self.tell(id, tier, true)) {
                changes.stored(parent, name, tier);
            }
            return;
        }
        for last in self.completed_through(id) {
            let Some(first) = self.whole(last, tier) else { continue };
            if let (Some(name), true) = (self.block(last), self.tell(last, tier, true)) {
                changes.stored(first.chain.parent(), name, tier);
            }
        }
    }

    /// A page is in a tier no longer: the blocks it was part of are not either.
    fn left(&mut self, id: EngineHash, tier: Tier, changes: &mut Changes) {
        for last in self.completed_through(id) {
            if let (Some(name), true) = (self.block(last), self.tell(last, tier, false)) {
                changes.removed(name, tier, CopiesLeft::OneLess);
            }
        }
    }

    /// The block that a page completes.
    fn block(&self, id: EngineHash) -> Option<BlockHash> {
        self.pages.get(&id).map(|page| page.chain.state())
    }

    /// Marks what the index is told of a block; whether that is news.
    fn tell(&mut self, last: EngineHash, tier: Tier, there: bool) -> bool {
        let Some(page) = self.pages.get_mut(&last) else { return false };
        let was = page.told & tier.bit() != 0;
        page.told = if there { page.told | tier.bit() } else { page.told & !tier.bit() };
        was != there
    }

    /// The last pages of the blocks that this page is part of.
    fn completed_through(&self, id: EngineHash) -> SmallVec<[EngineHash; 1]> {
        let mut last = SmallVec::new();
        let mut open = SmallVec::<[EngineHash; 8]>::from_slice(&[id]);
        while let Some(id) = open.pop() {
            match self.pages.get(&id) {
                Some(page) if page.place + 1 == self.per_block => last.push(id),
                Some(_) => open.extend(self.links.get(&id).into_iter().flat_map(|link| link.after.iter().copied())),
                None => {}
            }
        }
        last
    }

    /// The first page of a block all of whose pages are in a tier, by its last page.
    fn whole(&self, last: EngineHash, tier: Tier) -> Option<Page> {
        let mut id = last;
        loop {
            let page = self.pages.get(&id).filter(|page| page.copies[tier.index()] > 0)?;
            if page.place == 0 {
                return Some(*page);
            }
            id = self.links.get(&id)?.before?;
        }
    }

    /// Forgets a page without copies that nothing hangs under, and what only it kept.
    fn free(&mut self, id: EngineHash) {
        let mut next = Some(id);
        while let Some(id) = next.take() {
            let bare = self.pages.get(&id).is_some_and(|page| page.copies == [0; 4]);
            if !bare || self.links.get(&id).is_some_and(|link| !link.after.is_empty()) {
                break;
            }
            let Some(page) = self.pages.remove(&id) else { break };
            let link = self.links.remove(&id);
            let before = link.as_ref().and_then(|link| link.before).filter(|_| page.place > 0);
            if let Some(before) = before {
                if let Some(link) = self.links.get_mut(&before) {
                    link.after.retain(|after| *after != id);
                }
                next = Some(before);
            }
            self.departed.keep(id, page, link);
        }
        shrink(&mut self.pages);
        shrink(&mut self.links);
    }
}

/// Gives memory back once most of it is unused.
fn shrink<V>(map: &mut FixedMap<EngineHash, V>) {
    if map.capacity() > 4096 && map.len() < map.capacity() / 4 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(all(test, not(routing_loom)))]
mod tests;
