//! Sequenced ingestion: exactly-once application of numbered batches, gap detection, restart detection.
//!
//! A source numbers its batches; a feed judges each by (incarnation, sequence) under the pod's lock, so two
//! feeds of one stream, over two transports, agree on what has been applied. Sans-IO: the owner of a socket hands
//! batches to a [`Consumer`].

use crate::blocks::{ApplyStats, Event};
use crate::index::Index;
use crate::index::pod_update::PodUpdate;
use crate::index::reconcile::Inventory;
use crate::index::streams::{Cursor, FeedConfig, Judged, Number, OnGap};
use crate::pods::{DEFAULT_POD_WORDS, Pod, PodRetired};

/// Takes batches from whatever transport brings them.
pub trait Consumer {
    /// Judges a batch and applies it if it is the next one.
    ///
    /// # Errors
    ///
    /// When the pod is retired. The transport can stop.
    fn consume(&self, batch: &Batch<'_>) -> Result<BatchOutcome, PodRetired>;

    /// Applies `batch` although batches before it are missing for good: clears the pod's blocks first.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    fn skip_gap(&self, batch: &Batch<'_>) -> Result<BatchOutcome, PodRetired>;
}

/// Events that travelled together under one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// The incarnation of the source; a higher one means that it restarted.
    pub incarnation: u64,
    /// The batch's number in that incarnation.
    pub sequence: u64,
    /// The events, in order.
    pub events: &'a [Event<'a>],
}

impl Batch<'_> {
    fn number(&self) -> Number {
        Number { incarnation: self.incarnation, sequence: self.sequence }
    }
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchOutcome {
    /// It was the next one, and was applied.
    Applied(ApplyStats),
    /// It was applied before, by this feed or another one; nothing was changed.
    Duplicate,
    /// It is from an earlier incarnation of the source; nothing was changed.
    Stale,
    /// It is not of this pod's stream, or its sequence is `u64::MAX`, behind which there is none; nothing was changed.
    Foreign,
    /// Batches before it are missing, and it was not applied. Ask the source for these, then offer it again.
    Gap {
        /// The first missing sequence.
        from: u64,
        /// The batch's own sequence, the first that is not missing.
        to: u64,
        /// Whether the batch was the first of a new incarnation, and the pod's blocks were cleared.
        restarted: bool,
    },
    /// Missing batches were skipped: the pod's blocks were cleared, then it was applied.
    GapSkipped(ApplyStats),
    /// The source restarted: the pod's blocks were cleared, then it was applied.
    Restarted(ApplyStats),
}

/// A pod's end of one stream.
///
/// # Examples
///
/// ```
/// use kv_index::{Batch, BlockHash, Config, Consumer, Event, Feed, FeedConfig, Index, Stored, BatchOutcome};
///
/// let index: Index = Index::new(Config::default());
/// let pod = index.join("a")?;
/// let feed = Feed::new(&index, pod, FeedConfig::default());
/// let blocks = [BlockHash::new(1)];
/// let events = [Event::Stored(Stored::prompt(&blocks))];
/// let batch = |sequence| Batch { incarnation: 1, sequence, events: &events };
/// assert!(matches!(feed.consume(&batch(0))?, BatchOutcome::Applied(_)));
/// assert_eq!(feed.consume(&batch(0))?, BatchOutcome::Duplicate);
/// assert_eq!(feed.consume(&batch(3))?, BatchOutcome::Gap { from: 1, to: 3, restarted: false });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Feed<'i, const WORDS: usize = DEFAULT_POD_WORDS> {
    index: &'i Index<WORDS>,
    pod: Pod,
    config: FeedConfig,
}

impl<'i, const WORDS: usize> Feed<'i, WORDS> {
    /// A feed for the pod; its position is the pod's, so a feed made anew goes on where the last one was.
    #[must_use]
    pub fn new(index: &'i Index<WORDS>, pod: Pod, config: FeedConfig) -> Self {
        Self { index, pod, config }
    }

    /// Makes the pod's blocks those of the inventory and passes its number, both under the pod's lock.
    ///
    /// An inventory is taken unless its number was passed, whatever is missing before it and whichever incarnation it is of: it
    /// stands for all that. The outcome names what it stood for, as it does for a batch. But nothing is forgotten
    /// first: a block that the pod had and has is found all the while, and speculated blocks stay, as with
    /// [`Index::reconcile`]. Positions of the pod's other streams stay, too.
    ///
    /// # Errors
    ///
    /// When the pod is retired; then nothing is changed.
    ///
    /// # Examples
    ///
    /// ```
    /// use kv_index::{BlockHash, Config, Feed, FeedConfig, Index, Inventory, InventoryBlock, Parent, BatchOutcome};
    ///
    /// let index: Index = Index::new(Config::default());
    /// let pod = index.join("a")?;
    /// let feed = Feed::new(&index, pod, FeedConfig::default());
    /// let blocks = [InventoryBlock::new(BlockHash::new(1), Parent::Root)];
    /// let inventory = Inventory { incarnation: 1, sequence: 7, blocks: &blocks };
    /// assert!(matches!(feed.reconcile(&inventory)?, BatchOutcome::Applied(_)));
    /// assert_eq!(feed.reconcile(&inventory)?, BatchOutcome::Duplicate);
    /// assert_eq!(feed.cursor()?.map(|cursor| cursor.next), Some(8));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reconcile(&self, inventory: &Inventory<'_>) -> Result<BatchOutcome, PodRetired> {
        let number = Number { incarnation: inventory.incarnation, sequence: inventory.sequence };
        let mut change = self.index.change(self.pod)?;
        let verdict: fn(ApplyStats) -> BatchOutcome =
            match change.cache().cursors.judge(&self.config, number, OnGap::Forget) {
                Judged::Next => BatchOutcome::Applied,
                Judged::GivenUp => BatchOutcome::GapSkipped,
                Judged::Restart => BatchOutcome::Restarted,
                Judged::Stale => return Ok(BatchOutcome::Stale),
                Judged::Foreign => return Ok(BatchOutcome::Foreign),
                // A gap is never waited for here.
                Judged::Duplicate | Judged::Gap { .. } => return Ok(BatchOutcome::Duplicate),
            };
        change.reconcile(inventory.blocks);
        Ok(verdict(change.finish()))
    }

    /// Where the stream stands; none before its first batch.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    pub fn cursor(&self) -> Result<Option<Cursor>, PodRetired> {
        Ok(self.index.cache(self.pod)?.cursors.of(self.config.stream))
    }

    fn offer(&self, batch: &Batch<'_>, gap: OnGap) -> Result<BatchOutcome, PodRetired> {
        self.offer_with(batch.number(), gap, |change| {
            change.prefetch(batch.events.iter().copied());
            for event in batch.events {
                change.event(event, self.config.semantics);
            }
        })
    }

    /// Judges a batch by its number, and has it applied if it is to be: under the pod's lock, so that whatever
    /// `apply` keeps beside the index is told of exactly the batches that the index is.
    pub(crate) fn offer_with(
        &self,
        number: Number,
        gap: OnGap,
        apply: impl FnOnce(&mut PodUpdate<'_, WORDS>),
    ) -> Result<BatchOutcome, PodRetired> {
        let mut change = self.index.change(self.pod)?;
        let judged = change.cache().cursors.judge(&self.config, number, gap);
        if judged.forgets() {
            // Whatever other streams had brought is gone with it: they begin anew, by a gap.
            change.cache().cursors.keep_only(self.config.stream);
            change.clear();
            change.commit();
        }
        let verdict: fn(ApplyStats) -> BatchOutcome = match judged {
            Judged::Next => BatchOutcome::Applied,
            Judged::GivenUp => BatchOutcome::GapSkipped,
            Judged::Restart => BatchOutcome::Restarted,
            Judged::Duplicate => return Ok(BatchOutcome::Duplicate),
            Judged::Stale => return Ok(BatchOutcome::Stale),
            Judged::Foreign => return Ok(BatchOutcome::Foreign),
            Judged::Gap { from, restarted } => {
                change.finish();
                return Ok(BatchOutcome::Gap { from, to: number.sequence, restarted });
            }
        };
        let clears = change.cache().clears;
        apply(&mut change);
        if change.cache().clears != clears {
            // The batch itself emptied the cache, of what other streams brought too.
            change.cache().cursors.keep_only(self.config.stream);
        }
        Ok(verdict(change.finish()))
    }
}

impl<const WORDS: usize> Consumer for Feed<'_, WORDS> {
    fn consume(&self, batch: &Batch<'_>) -> Result<BatchOutcome, PodRetired> {
        self.offer(batch, OnGap::Wait)
    }

    fn skip_gap(&self, batch: &Batch<'_>) -> Result<BatchOutcome, PodRetired> {
        self.offer(batch, OnGap::Forget)
    }
}

#[cfg(all(test, not(routing_loom)))]
mod tests;
