//! The wire between an engine and the index: numbered packets, a replay buffer, and a consumer that fills gaps.

use std::collections::VecDeque;
use std::rc::Rc;

use kv_index::{
    ApplyStats, Batch, BatchOutcome, BlockHash, Consumer, Event, Feed, Parent, PodRetired, Removed, Stored,
};
use pointsman_lab::SplitMix64;

/// A cache event, owned.
pub(crate) enum Change {
    Stored { parent: Parent, blocks: Vec<BlockHash> },
    Removed(Vec<BlockHash>),
    Cleared,
}

impl Change {
    fn event(&self) -> Event<'_> {
        match self {
            Self::Stored { parent, blocks } => Event::Stored(Stored::new(*parent, blocks)),
            Self::Removed(blocks) => Event::Removed(Removed::new(blocks)),
            Self::Cleared => Event::Cleared,
        }
    }
}

pub(crate) struct Packet {
    incarnation: u64,
    sequence: u64,
    changes: Vec<Change>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) restarts: usize,
    pub(crate) restarts_seen: usize,
    pub(crate) retired: usize,
    /// Packets of a retired pod.
    pub(crate) late: usize,
    pub(crate) gaps: usize,
    pub(crate) given_up: usize,
    pub(crate) duplicates: usize,
    pub(crate) stale: usize,
    /// Pods whose last packets were lost.
    pub(crate) repaired: usize,
    pub(crate) removed: usize,
    pub(crate) cached_blocks: usize,
    /// Ticks after which some pod had two copies of a block.
    pub(crate) copies: usize,
    pub(crate) applied: ApplyStats,
}

/// The engine's end of the wire.
pub(crate) struct Link {
    rng: SplitMix64,
    incarnation: u64,
    next: u64,
    /// The last packets of this incarnation.
    replay: VecDeque<Rc<Packet>>,
    /// Arrives behind the next packet.
    delayed: Option<Rc<Packet>>,
}

impl Link {
    pub(crate) fn new(rng: SplitMix64) -> Self {
        Self { rng, incarnation: 1, next: 0, replay: VecDeque::new(), delayed: None }
    }

    /// Sends changes under the next number; the packets that arrive.
    pub(crate) fn send(&mut self, changes: Vec<Change>) -> Vec<Rc<Packet>> {
        let packet = Rc::new(Packet { incarnation: self.incarnation, sequence: self.next, changes });
        self.next += 1;
        self.replay.push_back(Rc::clone(&packet));
        if self.replay.len() > 256 {
            self.replay.pop_front();
        }
        let delayed = self.delayed.take();
        let (lost, late, repeated) = (self.rng.one_in(25), self.rng.one_in(25), self.rng.one_in(25));
        if !lost && (late || repeated) {
            self.delayed = Some(Rc::clone(&packet));
        }
        (!lost && !late).then_some(packet).into_iter().chain(delayed).collect()
    }

    /// Numbers begin anew. The last packet is still under way, and arrives behind the first of the new incarnation.
    pub(crate) fn restart(&mut self) {
        self.delayed = self.replay.pop_back();
        (self.incarnation, self.next) = (self.incarnation + 1, 0);
        self.replay.clear();
    }

    pub(crate) fn last(&self) -> Option<&Rc<Packet>> {
        self.replay.back()
    }

    fn again(&self, sequence: u64) -> Option<&Rc<Packet>> {
        self.replay.iter().find(|packet| packet.sequence == sequence)
    }
}

/// Offers a packet to the index; those missing before it are fetched first.
pub(crate) fn receive(feed: &Feed<'_>, link: &Link, packet: &Packet, counts: &mut Counts) -> Result<(), PodRetired> {
    let outcome = offer(packet, |batch| feed.consume(batch))?;
    let BatchOutcome::Gap { from, to, .. } = outcome else {
        count(packet, outcome, counts);
        return Ok(());
    };
    counts.gaps += 1;
    for sequence in from..to {
        let Some(missing) = link.again(sequence) else {
            counts.given_up += 1;
            offer(packet, |batch| feed.skip_gap(batch))?;
            return Ok(());
        };
        count(missing, offer(missing, |batch| feed.consume(batch))?, counts);
    }
    count(packet, offer(packet, |batch| feed.consume(batch))?, counts);
    Ok(())
}

fn offer(
    packet: &Packet,
    to: impl FnOnce(&Batch<'_>) -> Result<BatchOutcome, PodRetired>,
) -> Result<BatchOutcome, PodRetired> {
    let events: Vec<Event<'_>> = packet.changes.iter().map(Change::event).collect();
    to(&Batch { incarnation: packet.incarnation, sequence: packet.sequence, events: &events })
}

fn count(packet: &Packet, outcome: BatchOutcome, counts: &mut Counts) {
    match outcome {
        BatchOutcome::Applied(applied) => counts.applied += applied,
        BatchOutcome::Restarted(applied) => {
            counts.restarts_seen += 1;
            counts.applied += applied;
        }
        BatchOutcome::Duplicate => counts.duplicates += 1,
        BatchOutcome::Stale => counts.stale += 1,
        other => panic!("{other:?} of packet {}", packet.sequence),
    }
}
