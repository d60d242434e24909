//! Warm restart: what feeds know beside the index, in the index's snapshot.
//!
//! The rule: a feed's lock is taken before its pod's, here as by a batch. So what is saved of a feed is of the very moment
//! that its pod's blocks are.

use std::fmt;
use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use super::StreamId;

/// A feed with something to save.
pub(crate) trait SaveFeed: fmt::Debug + Send + Sync {
    /// Hands out what it knows, with how often its pod had been cleared then, and takes no batch meanwhile.
    fn with_saved(&self, act: &mut dyn FnMut(u64, Box<[u8]>));
}

/// What was saved of a stream's feed.
pub(crate) type SavedFeed = (StreamId, Box<[u8]>);

/// What a feed in use knows, and how often its pod had been cleared then.
#[derive(Debug)]
pub(crate) struct SavedInUse {
    pub(crate) clears: u64,
    pub(crate) feed: SavedFeed,
}

/// The feeds of a pod.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    in_use: SmallVec<[(StreamId, Weak<dyn SaveFeed>); 1]>,
    /// What a snapshot had, until a feed of the stream is made.
    pub(crate) saved: SmallVec<[SavedFeed; 1]>,
}

impl Feeds {
    /// Those that there are.
    pub(crate) fn in_use(&self) -> Vec<(StreamId, Arc<dyn SaveFeed>)> {
        self.in_use.iter().filter_map(|(stream, feed)| Some((*stream, feed.upgrade()?))).collect()
    }

    /// A feed was made, in place of an earlier one of its stream.
    #[cfg(feature = "engine")]
    pub(crate) fn enter(&mut self, stream: StreamId, feed: Weak<dyn SaveFeed>) {
        self.in_use.retain(|(other, _)| *other != stream);
        self.in_use.push((stream, feed));
    }

    /// Takes what a snapshot had of a stream's feed.
    #[cfg(feature = "engine")]
    pub(crate) fn take_saved(&mut self, stream: StreamId) -> Option<Box<[u8]>> {
        let at = self.saved.iter().position(|(other, _)| *other == stream)?;
        Some(self.saved.remove(at).1)
    }
}

/// Acts while none of the feeds takes a batch, on what each of them knows.
pub(crate) fn with_all_saved(
    feeds: &[(StreamId, Arc<dyn SaveFeed>)],
    saved: &mut Vec<SavedInUse>,
    act: &mut dyn FnMut(&[SavedInUse]),
) {
    let Some(((stream, feed), rest)) = feeds.split_first() else { return act(saved) };
    feed.with_saved(&mut |clears, bytes| {
        saved.push(SavedInUse { clears, feed: (*stream, bytes) });
        with_all_saved(rest, saved, act);
    });
}
