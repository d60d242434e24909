//! Numbered streams of batches: where each of a pod's stands, and the judgement of the next one.

mod saved;

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::blocks::EventSemantics;

#[cfg(feature = "engine")]
pub(crate) use saved::SaveFeed;
pub(crate) use saved::{Feeds, SavedInUse, with_all_saved};

/// One of the numbered streams that feed a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub u32);

/// How a stream numbers and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedConfig {
    /// Which stream of the pod; two feeds with one number share one position.
    ///
    /// When one stream restarts, skips a gap or reports that everything was cleared, all the pod's blocks are
    /// forgotten, and its other streams must be replayed from their first batch.
    pub stream: StreamId,
    /// What its events count.
    pub semantics: EventSemantics,
    /// The number of an incarnation's first batch.
    pub first_sequence: u64,
}

impl Default for FeedConfig {
    /// The only stream of a pod that announces every copy, numbered from 0.
    fn default() -> Self {
        Self { stream: StreamId(0), semantics: EventSemantics::Copies, first_sequence: 0 }
    }
}

impl FeedConfig {
    /// The same of another stream of the pod.
    #[must_use]
    pub fn stream(self, stream: StreamId) -> Self {
        Self { stream, ..self }
    }

    /// The same with events that count otherwise.
    #[must_use]
    pub fn semantics(self, semantics: EventSemantics) -> Self {
        Self { semantics, ..self }
    }

    /// The same with another number of an incarnation's first batch.
    #[must_use]
    pub fn first_sequence(self, first_sequence: u64) -> Self {
        Self { first_sequence, ..self }
    }
}

/// Position of a batch in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) incarnation: u64,
    pub(crate) sequence: u64,
}

/// Where each of a pod's streams stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursors(SmallVec<[(StreamId, Cursor); 1]>);

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "incarnation and sequence: complete by nature")]
pub struct Cursor {
    /// The latest incarnation.
    pub incarnation: u64,
    /// The sequence expected next.
    pub next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnGap {
    Wait,
    Forget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    Next,
    Duplicate,
    Stale,
    Foreign,
    /// In a new incarnation, what the old one had is untrue at once.
    Gap {
        from: u64,
        restarted: bool,
    },
    GivenUp,
    Restart,
}

impl Judged {
    pub(crate) fn forgets(self) -> bool {
        matches!(self, Self::GivenUp | Self::Restart | Self::Gap { restarted: true, .. })
    }
}

impl Cursors {
    /// Judges a batch, and moves past it if it is to be applied.
    pub(crate) fn judge(&mut self, config: &FeedConfig, batch: Number, gap: OnGap) -> Judged {
        let known = self.0.iter_mut().find(|(stream, _)| *stream == config.stream);
        let Some(next) = batch.sequence.checked_add(1) else { return Judged::Foreign };
        let passed = Cursor { incarnation: batch.incarnation, next };
        let Some((_, cursor)) = known else {
            if batch.sequence > config.first_sequence && gap == OnGap::Wait {
                return Judged::Gap { from: config.first_sequence, restarted: false };
            }
            self.0.push((config.stream, passed));
            return Judged::Next;
        };
        let restarted = batch.incarnation > cursor.incarnation;
        if batch.incarnation < cursor.incarnation {
            return Judged::Stale;
        }
        if restarted {
            *cursor = Cursor { incarnation: batch.incarnation, next: config.first_sequence };
        }
        let judged = match batch.sequence.cmp(&cursor.next) {
            _ if restarted && (batch.sequence <= cursor.next || gap == OnGap::Forget) => Judged::Restart,
            Ordering::Less => return Judged::Duplicate,
            Ordering::Equal => Judged::Next,
            Ordering::Greater if gap == OnGap::Wait => return Judged::Gap { from: cursor.next, restarted },
            Ordering::Greater => Judged::GivenUp,
        };
        *cursor = passed;
        judged
    }

    pub(crate) fn keep_only(&mut self, stream: StreamId) {
        self.0.retain(|(other, _)| *other == stream);
    }

    /// Forgets every stream's position; the highest incarnation there was.
    #[cfg(feature = "engine")]
    pub(crate) fn forget(&mut self) -> Option<u64> {
        let highest = self.0.iter().map(|(_, cursor)| cursor.incarnation).max();
        self.0.clear();
        highest
    }

    /// Where a stream stands.
    pub(crate) fn of(&self, stream: StreamId) -> Option<Cursor> {
        self.iter().find(|(other, _)| *other == stream).map(|(_, cursor)| cursor)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (StreamId, Cursor)> + '_ {
        self.0.iter().copied()
    }

    pub(crate) fn push(&mut self, stream: StreamId, cursor: Cursor) {
        self.0.push((stream, cursor));
    }
}
