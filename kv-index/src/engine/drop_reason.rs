//! Drop accounting: why parts of an engine's events are not indexed, counted by reason.

use std::fmt;
use std::ops::AddAssign;

use super::named::named;

named! {
    /// Why something an engine announced is not in the index.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    #[non_exhaustive]
    pub enum DropReason {
        /// The group's attention does not carry a prefix: sliding window, chunked-local, Mamba, cross attention.
        NotPrefixGroup => "the group's attention does not carry a prefix",
        /// A second group that carries the prefix; one of them stands for all.
        SecondGroup => "a second group carries the same prefix",
        /// An eviction in a group of which nothing was stored since the feed began or its state was forgotten.
        UnknownGroup => "nothing of the group was stored",
        /// Fewer hashes than the tokens have blocks. Which block is which cannot be told.
        Sparse => "fewer hashes than blocks of tokens",
        /// An offloading placeholder: no tokens, no block size.
        Placeholder => "a placeholder without tokens and block size",
        /// A store of no blocks.
        EmptyStore => "a store of no blocks",
        /// A medium no listed release has.
        UnknownMedium => "an unknown medium",
        /// Blocks of another size outside GPU memory: another layer's chunks, hashed its own way.
        OtherBlockSize => "another block size",
        /// Token mode: the store brought no tokens, and its blocks were not known before.
        NoTokens => "no tokens to hash",
        /// Token mode: a token id does not fit in 32 bits.
        WideTokens => "a token id of more than 32 bits",
        /// Token mode: the store's parent was never announced, or its eviction was.
        UnknownParent => "the parent is not known",
        /// An eviction of a block that was not there.
        UnknownBlock => "the evicted block was not there",
        /// Token mode: one engine name for two different blocks, as where adapters announce the same hashes.
        NameClash => "one name for two different blocks",
        /// The map of engine blocks is at its bound.
        MapFull => "the map of engine blocks is full",
        /// An event of a type no listed release has.
        UnknownType => "an unknown type of event",
        /// An event of a known type without its form.
        Malformed => "a malformed event",
        /// A block that is not full yet (TensorRT-LLM).
        PartialBlock => "a block that is not full",
        /// A batch of another data-parallel rank.
        OtherRank => "another data-parallel rank",
        /// A batch whose bytes could not be decoded, even when it was replayed.
        Undecodable => "a batch that could not be decoded",
    }
}

/// How often each reason applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts([DropCount; DropReason::ALL.len()]);

/// What one reason cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DropCount {
    /// Events that lost something, or batches for reasons that concern whole batches.
    pub events: u64,
    /// Blocks they lost.
    pub blocks: u64,
}

impl DropCounts {
    /// What a reason cost.
    #[must_use]
    pub fn of(&self, reason: DropReason) -> DropCount {
        self.0[reason as usize]
    }

    /// The reasons that applied at all.
    pub fn iter(&self) -> impl Iterator<Item = (DropReason, DropCount)> + '_ {
        DropReason::ALL.into_iter().map(|reason| (reason, self.of(reason))).filter(|(_, dropped)| dropped.events > 0)
    }

    pub(crate) fn count(&mut self, reason: DropReason, blocks: usize) {
        self.count_events(reason, 1, blocks);
    }

    pub(crate) fn count_events(&mut self, reason: DropReason, events: usize, blocks: usize) {
        let dropped = &mut self.0[reason as usize];
        dropped.events += events as u64;
        dropped.blocks += blocks as u64;
    }
}

impl AddAssign for DropCounts {
    fn add_assign(&mut self, other: Self) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            sum.events += more.events;
            sum.blocks += more.blocks;
        }
    }
}

impl fmt::Display for DropCounts {
    /// One line, such as `3 blocks in 1 event: no tokens to hash`, the reasons separated by semicolons.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        for (reason, dropped) in self.iter() {
            let separator = if std::mem::take(&mut first) { "" } else { "; " };
            let plural = |count: u64| if count == 1 { "" } else { "s" };
            let (blocks, events) = (dropped.blocks, dropped.events);
            write!(f, "{separator}{blocks} block{} in {events} event{}: {reason}", plural(blocks), plural(events))?;
        }
        if first { f.write_str("nothing") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_place_and_a_text_of_its_own() {
        let mut texts = std::collections::HashSet::new();
        for (at, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, at);
            assert!(texts.insert(reason.to_string()), "{reason}");
        }
    }

    #[test]
    fn drops_read_as_a_line() {
        let mut drop_counts = DropCounts::default();
        assert_eq!(drop_counts.to_string(), "nothing");
        drop_counts.count(DropReason::NoTokens, 3);
        drop_counts.count(DropReason::EmptyStore, 0);
        drop_counts.count(DropReason::EmptyStore, 0);
        assert_eq!(
            drop_counts.to_string(),
            "0 blocks in 2 events: a store of no blocks; 3 blocks in 1 event: no tokens to hash"
        );
    }
}
