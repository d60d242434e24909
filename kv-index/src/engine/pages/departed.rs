//! Evicted pages, remembered while events may still name them as parents.

use std::collections::VecDeque;

use crate::map::FixedMap;

use super::{Link, Page};
use crate::engine::event::EngineHash;

/// The pages that left last.
#[derive(Debug, Default)]
pub(super) struct Departed {
    pages: FixedMap<EngineHash, Past>,
    /// Oldest first; some have come back meanwhile, and perhaps left again.
    order: VecDeque<(EngineHash, u32)>,
    stamp: u32,
}

#[derive(Debug)]
struct Past {
    page: Page,
    /// Only where several pages make a block.
    link: Option<Box<Link>>,
    stamp: u32,
}

impl Departed {
    /// Remembers a page, in place of the oldest if there are many.
    pub(super) fn keep(&mut self, id: EngineHash, page: Page, link: Option<Link>) {
        self.stamp = self.stamp.wrapping_add(1);
        let past = Past { page, link: link.map(Box::new), stamp: self.stamp };
        self.pages.insert(id, past);
        self.order.push_back((id, self.stamp));
        if self.order.len() > MOST_DEPARTED {
            if let Some((oldest, stamp)) = self.order.pop_front() {
                if self.pages.get(&oldest).is_some_and(|past| past.stamp == stamp) {
                    self.pages.remove(&oldest);
                }
            }
        }
    }

    pub(super) fn page(&self, id: EngineHash) -> Option<Page> {
        self.pages.get(&id).map(|past| past.page)
    }

    /// Hands a page's link back and forgets the page.
    pub(super) fn take(&mut self, id: EngineHash) -> Option<Link> {
        self.pages.remove(&id).and_then(|past| past.link).map(|link| *link)
    }

    pub(super) fn forget(&mut self, id: EngineHash) {
        self.pages.remove(&id);
    }

    /// Every page, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (EngineHash, Page, Option<&Link>)> {
        self.order.iter().filter_map(|(id, stamp)| {
            let past = self.pages.get(id).filter(|past| past.stamp == *stamp)?;
            Some((*id, past.page, past.link.as_deref()))
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.pages.capacity() * (size_of::<(EngineHash, Past)>() + 1)
            + self.order.capacity() * size_of::<(EngineHash, u32)>()
    }
}

/// How many pages are remembered. What a running request has evicted from under it is followed by its next block
/// within a second or so; this many evictions take longer.
const MOST_DEPARTED: usize = 4096;
