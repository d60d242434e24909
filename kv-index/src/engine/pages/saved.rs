//! Pages as bytes of a snapshot.
//!
//! What is read may be anybody's: pages of a block that do not come one after the other would be followed for ever, so these
//! are refused.

use super::Pages;
use super::page::{Chain, Link, Page};
use crate::blocks::BlockHash;
use crate::engine::event::EngineHash;
use crate::index::snapshot::bytes::{Reader, put_u32, put_u64};
use crate::pods::SnapshotError;

impl Pages {
    pub(in crate::engine) fn write(&self, out: &mut Vec<u8>) {
        put_u32(out, self.per_block.into());
        put_u64(out, self.pages.len() as u64);
        for (id, page) in &self.pages {
            put_u64(out, id.get());
            page.write(out);
            put_link(out, self.links.get(id));
        }
        put_u64(out, self.departed.iter().count() as u64);
        for (id, page, link) in self.departed.iter() {
            put_u64(out, id.get());
            page.write(out);
            put_link(out, link);
        }
    }

    /// At most `most` pages.
    pub(in crate::engine) fn read(reader: &mut Reader<'_>, most: usize) -> Result<Self, SnapshotError> {
        let per_block = u16::try_from(reader.u32()?).map_err(|_| reader.malformed())?;
        let mut pages = Self::new(per_block, most);
        let count = reader.count(LEAST)?;
        if count > most {
            return Err(reader.malformed());
        }
        pages.pages.reserve(count);
        for _ in 0..count {
            let (id, page, link) = (EngineHash::new(reader.u64()?), Page::read(reader)?, read_link(reader)?);
            pages.pages.insert(id, page);
            link.into_iter().for_each(|link| drop(pages.links.insert(id, link)));
        }
        for _ in 0..reader.count(LEAST)? {
            let (id, page, link) = (EngineHash::new(reader.u64()?), Page::read(reader)?, read_link(reader)?);
            pages.departed.keep(id, page, link);
        }
        if pages.is_in_order() { Ok(pages) } else { Err(reader.malformed()) }
    }

    /// Whether the pages of every block come one after the other, and are there.
    fn is_in_order(&self) -> bool {
        let place = |id: &EngineHash| self.pages.get(id).map(|page| page.place);
        let here = self.pages.iter().all(|(id, page)| {
            let Some(link) = self.links.get(id) else { return page.place < self.per_block };
            let before = link.before.filter(|_| page.place > 0);
            page.place < self.per_block
                && before.iter().all(|before| place(before).and_then(|at| at.checked_add(1)) == Some(page.place))
                && link.after.iter().all(|after| place(after).is_some_and(|at| Some(at) == page.place.checked_add(1)))
        });
        let departed = |(_, page, link): (EngineHash, Page, Option<&Link>)| {
            page.place < self.per_block && link.is_none_or(|link| link.after.is_empty())
        };
        here && self.departed.iter().all(departed)
    }
}

impl Page {
    fn write(self, out: &mut Vec<u8>) {
        let (kind, state) = match self.chain {
            Chain::Seed(state) => (0, state),
            Chain::Block(state) => (1, state),
        };
        out.push(kind);
        put_u64(out, state.get());
        self.copies.iter().for_each(|copies| out.extend_from_slice(&copies.to_le_bytes()));
        out.extend_from_slice(&self.place.to_le_bytes());
        out.push(self.told);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, SnapshotError> {
        let kind = reader.u8()?;
        let state = BlockHash::new(reader.u64()?);
        let chain = match kind {
            0 => Chain::Seed(state),
            1 => Chain::Block(state),
            _ => return Err(reader.malformed()),
        };
        let mut short = || Ok(u16::from_le_bytes(reader.array()?));
        let copies = [short()?, short()?, short()?, short()?];
        let place = short()?;
        Ok(Self { chain, copies, place, told: reader.u8()? })
    }
}

fn put_link(out: &mut Vec<u8>, link: Option<&Link>) {
    out.push(u8::from(link.is_some()));
    let Some(link) = link else { return };
    out.push(u8::from(link.before.is_some()));
    put_u64(out, link.before.map_or(0, EngineHash::get));
    put_u64(out, link.tokens.len() as u64);
    link.tokens.iter().for_each(|token| put_u32(out, *token));
    put_u64(out, link.keys.len() as u64);
    for key in &link.keys {
        put_u64(out, key.len() as u64);
        out.extend_from_slice(key);
    }
    put_u64(out, link.after.len() as u64);
    link.after.iter().for_each(|after| put_u64(out, after.get()));
}

fn read_link(reader: &mut Reader<'_>) -> Result<Option<Link>, SnapshotError> {
    if reader.u8()? == 0 {
        return Ok(None);
    }
    let (known, before) = (reader.u8()?, EngineHash::new(reader.u64()?));
    let mut link = Link { before: (known == 1).then_some(before), ..Link::default() };
    for _ in 0..reader.count(4)? {
        link.tokens.push(reader.u32()?);
    }
    for _ in 0..reader.count(8)? {
        let length = reader.count(1)?;
        link.keys.push(reader.take(length)?.to_vec());
    }
    for _ in 0..reader.count(8)? {
        link.after.push(EngineHash::new(reader.u64()?));
    }
    Ok(Some(link))
}

/// Bytes of a page: its name, its chain, copies, place, what was told, and that there is no link.
const LEAST: usize = 8 + 9 + 8 + 2 + 1 + 1;
