//! Sans-IO state machine of a reporter: which message to send when, without clock, socket or task.
//!
//! One message is in flight at a time. The rule: a sequence number is given to one message, and that message is sent until it
//! is acknowledged, or until an inventory under a later number supersedes it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kv_index::EventSemantics;

use crate::message_sink::SinkError;
use crate::running_digest::RunningDigest;
use crate::wire::bounds::{MAX_BLOCKS, MAX_CHANGES, MAX_NUMBER, MAX_PARTS};
use crate::wire::{
    Ack, AckStatus, Change, DigestMessage, EventBatch, HashScheme, Inventory, InventoryEntry, Message, ResyncRequest,
};
use pointsman_lab::SplitMix64;

/// Configuration of a reporter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The pod's name, as the gateway's fleet has it.
    pub pod: String,
    /// How its blocks are hashed; the gateway's must be hashed the same way.
    pub hashing: HashScheme,
    /// What the engine's events count.
    pub source: EventSemantics,
    /// Higher each time the worker starts ([`incarnation_now`](crate::incarnation_now)). Below 2^53.
    pub incarnation: u64,
    /// Capacity of the queue in blocks; more is an overflow, repaired by an inventory.
    pub queue_blocks: usize,
    /// Blocks of a batch, at most [`MAX_BLOCKS`]; a full batch is sent at once.
    pub batch_blocks: usize,
    /// Longest time that an event waits for its batch to fill.
    pub flush_interval: Duration,
    /// Interval of digests.
    pub digest_interval: Duration,
    /// Least time between two inventories for digests that differ: a gateway whose index is full would request them for ever.
    pub inventory_interval: Duration,
    /// First retry delay; doubled each time, with jitter in its upper half.
    pub retry_initial: Duration,
    /// Longest retry delay.
    pub retry_max: Duration,
    /// Seed of the jitter.
    pub seed: u64,
}

impl Config {
    /// Defaults for a pod whose events count copies.
    #[must_use]
    pub fn new(pod: &str, hashing: HashScheme, incarnation: u64) -> Self {
        Self {
            pod: pod.to_owned(),
            hashing,
            source: EventSemantics::Copies,
            incarnation,
            queue_blocks: 1 << 16,
            batch_blocks: 2_048,
            flush_interval: Duration::from_millis(100),
            digest_interval: Duration::from_secs(5),
            inventory_interval: Duration::from_secs(30),
            retry_initial: Duration::from_millis(50),
            retry_max: Duration::from_secs(5),
            seed: incarnation,
        }
    }
}

/// Counters of a reporter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReporterStats {
    /// Batches acknowledged.
    pub batches: u64,
    /// Whole inventories acknowledged.
    pub inventories: u64,
    /// Digests acknowledged.
    pub digests: u64,
    /// Messages sent again.
    pub retries: u64,
    /// Messages that a gateway rejected.
    pub rejections: u64,
    /// Gaps that a gateway reported.
    pub gaps: u64,
    /// Digests that differed.
    pub mismatches: u64,
    /// Times that a later incarnation was known. If that goes on, two workers have one name.
    pub superseded: u64,
    /// Overflows of the queue.
    pub overflows: u64,
    /// Blocks whose events were dropped by overflows; an inventory repairs that.
    pub dropped: u64,
}

/// The queue and the cache that messages are made from.
pub(crate) trait BatchSource {
    /// Blocks in the queue.
    fn queued(&self) -> usize;
    /// Whether events were dropped since the last inventory.
    fn overflowed(&self) -> bool;
    /// Takes the oldest events, up to these counts.
    fn batch(&mut self, changes: usize, blocks: usize) -> Vec<Change>;
    /// Lists the whole cache, and drops the queued events that are in the list.
    fn inventory(&mut self) -> Vec<InventoryEntry>;
}

/// What the host does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// Send this, then call [`StateMachine::acknowledged`].
    Send(&'a Message),
    /// Poll again at this time, or when something is queued.
    Wait(Instant),
}

/// The state of a reporter.
#[derive(Debug)]
pub(crate) struct StateMachine {
    config: Config,
    /// The next sequence number.
    next: u64,
    /// The sequence number of the last inventory.
    last_inventory: Option<u64>,
    /// Digest of everything sent.
    digest: RunningDigest,
    /// Numbered messages, in order; the first is to be sent or in flight.
    pending: VecDeque<Message>,
    /// Whether the next numbered message must be an inventory.
    needs_inventory: bool,
    /// When the oldest queued event was first seen.
    waiting_since: Option<Instant>,
    digest_at: Instant,
    /// Digests that differ request no inventory before this.
    inventory_not_before: Option<Instant>,
    retry_at: Option<Instant>,
    /// Nothing is sent before this: another worker has the pod's name.
    quiet_until: Option<Instant>,
    failures: u32,
    rng: SplitMix64,
    stats: ReporterStats,
}

impl StateMachine {
    pub(crate) fn new(config: Config, now: Instant) -> Self {
        Self {
            next: 0,
            last_inventory: None,
            digest: RunningDigest::default(),
            pending: VecDeque::new(),
            // A gateway may have anything of an earlier incarnation.
            needs_inventory: true,
            waiting_since: None,
            digest_at: now + config.digest_interval,
            inventory_not_before: None,
            retry_at: None,
            quiet_until: None,
            failures: 0,
            rng: SplitMix64::new(config.seed),
            stats: ReporterStats::default(),
            config,
        }
    }

    /// The next action. `flush` sends what is queued without waiting for a batch to fill.
    pub(crate) fn poll(&mut self, now: Instant, flush: bool, source: &mut impl BatchSource) -> Action<'_> {
        if let Some(at) = self.retry_at.max(self.quiet_until).filter(|&at| at > now) {
            return Action::Wait(at);
        }
        self.retry_at = None;
        if self.pending.is_empty()
            && let Some(until) = self.prepare_next(now, flush, source)
        {
            return Action::Wait(until);
        }
        self.pending.front().map_or(Action::Wait(now), Action::Send)
    }

    /// The result of the message sent last.
    pub(crate) fn acknowledged(&mut self, now: Instant, result: Result<Ack, SinkError>) {
        match result {
            Ok(ack) => {
                self.failures = 0;
                self.handle_ack(now, ack);
            }
            Err(SinkError::Rejected { .. }) => {
                // Sent again it would be rejected again. Its events are in the next inventory.
                self.stats.rejections += 1;
                self.schedule_inventory();
                self.retry_at = Some(now + self.config.retry_max);
            }
            Err(SinkError::Unacknowledged(_)) => {
                self.stats.retries += 1;
                if let Some(Message::Digest(_)) = self.pending.front() {
                    self.pending.clear();
                }
                self.retry_at = Some(now + self.backoff());
            }
        }
    }

    /// A stream consumer requests an inventory.
    pub(crate) fn resync_requested(&mut self, now: Instant, resync: &ResyncRequest) {
        let healed = self.last_inventory.is_some_and(|sent| sent >= resync.from);
        if resync.pod != self.config.pod || resync.incarnation != self.config.incarnation || healed {
            return;
        }
        match resync.status {
            AckStatus::Stale => self.supersede(now),
            AckStatus::Mismatch => self.handle_mismatch(now),
            AckStatus::Gap => {
                self.stats.gaps += 1;
                self.schedule_inventory();
            }
            _ => {}
        }
    }

    pub(crate) fn stats(&self) -> ReporterStats {
        self.stats
    }

    /// Whether the last attempt failed and the next is still to come.
    pub(crate) fn is_retrying(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Makes the next message, or returns the time until which there is none.
    fn prepare_next(&mut self, now: Instant, flush: bool, source: &mut impl BatchSource) -> Option<Instant> {
        if self.needs_inventory || source.overflowed() {
            self.push_inventory(&source.inventory());
            return None;
        }
        let queued = source.queued();
        let since = *self.waiting_since.get_or_insert(now);
        if queued == 0 {
            self.waiting_since = None;
        } else if flush || queued >= self.config.batch_blocks || now >= since + self.config.flush_interval {
            let changes = source.batch(MAX_CHANGES, self.config.batch_blocks.clamp(1, MAX_BLOCKS));
            self.push_batch(changes);
            return None;
        }
        if now >= self.digest_at && !flush {
            self.digest_at = now + self.config.digest_interval;
            self.pending.push_back(Message::Digest(DigestMessage {
                pod: self.config.pod.clone(),
                incarnation: self.config.incarnation,
                sequence: self.next,
                digest: self.digest.value(),
            }));
            return None;
        }
        let due = self.waiting_since.map(|since| since + self.config.flush_interval);
        Some(due.map_or(self.digest_at, |due| due.min(self.digest_at)))
    }

    fn push_batch(&mut self, changes: Vec<Change>) {
        self.waiting_since = None;
        for change in &changes {
            self.digest.apply(change, self.config.source);
        }
        let batch = EventBatch {
            pod: self.config.pod.clone(),
            incarnation: self.config.incarnation,
            sequence: self.take_sequence(),
            hashing: self.config.hashing,
            source: self.config.source,
            changes,
        };
        self.pending.push_back(Message::Batch(batch));
    }

    fn push_inventory(&mut self, blocks: &[InventoryEntry]) {
        self.waiting_since = None;
        self.needs_inventory = false;
        // A cache larger than an inventory may be is listed in part: less is known, nothing wrong.
        let blocks = &blocks[..blocks.len().min(MAX_BLOCKS * MAX_PARTS as usize)];
        self.digest = RunningDigest::of(blocks);
        let sequence = self.take_sequence();
        self.last_inventory = Some(sequence);
        let parts = blocks.len().div_ceil(MAX_BLOCKS).max(1) as u32;
        for part in 0..parts {
            let from = part as usize * MAX_BLOCKS;
            self.pending.push_back(Message::Inventory(Inventory {
                pod: self.config.pod.clone(),
                incarnation: self.config.incarnation,
                sequence,
                hashing: self.config.hashing,
                part,
                parts,
                blocks: blocks[from..blocks.len().min(from + MAX_BLOCKS)].to_vec(),
            }));
        }
    }

    fn handle_ack(&mut self, now: Instant, ack: Ack) {
        let Some(message) = self.pending.pop_front() else { return };
        match (&message, ack.status) {
            (_, AckStatus::Stale) => self.supersede(now),
            // The gateway is ahead: another worker sends under this name and incarnation.
            (Message::Digest(_), AckStatus::Passed) => self.supersede(now),
            (_, AckStatus::Gap) => {
                self.stats.gaps += 1;
                self.schedule_inventory();
            }
            (Message::Digest(_), AckStatus::Mismatch) => self.handle_mismatch(now),
            (Message::Digest(_), _) => self.stats.digests += 1,
            (Message::Batch(_), _) => self.stats.batches += 1,
            (Message::Inventory(inventory), status) => {
                if status == AckStatus::Duplicate {
                    // It was complete before; a retry of an earlier part learns of it first.
                    self.pending.clear();
                }
                self.stats.inventories += u64::from(inventory.part + 1 == inventory.parts || self.pending.is_empty());
            }
        }
    }

    fn handle_mismatch(&mut self, now: Instant) {
        self.stats.mismatches += 1;
        if self.inventory_not_before.is_none_or(|until| now >= until) {
            self.inventory_not_before = Some(now + self.config.inventory_interval);
            self.schedule_inventory();
        }
    }

    /// Starts again under a higher incarnation than the known one.
    ///
    /// Two workers of one name supersede each other. So each backs off, longer every time: in the end one of them is heard
    /// for minutes, and an operator has a counter that grows.
    fn supersede(&mut self, now: Instant) {
        self.stats.superseded += 1;
        let times = self.stats.superseded.min(16) as u32;
        // Further each time, in microseconds: a clock that went back by a week is made up for in four steps.
        let further = self.config.incarnation.saturating_add(1 << (10 * times.min(4)));
        self.config.incarnation = further.min(MAX_NUMBER);
        self.quiet_until = Some(now + self.config.retry_initial.saturating_mul(1 << times).min(MAX_QUIET));
        self.next = 0;
        self.last_inventory = None;
        self.schedule_inventory();
    }

    /// Pending messages are void; an inventory supersedes them.
    fn schedule_inventory(&mut self) {
        self.pending.clear();
        self.needs_inventory = true;
    }

    fn take_sequence(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Exponential backoff with jitter in the upper half, so that workers do not retry in step.
    fn backoff(&mut self) -> Duration {
        let doubled = self.config.retry_initial.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let most = doubled.min(self.config.retry_max);
        let half = most / 2;
        half + Duration::from_nanos(self.rng.below(half.as_nanos() as usize + 1) as u64)
    }
}

/// The longest time that a worker is quiet for another one of its name.
const MAX_QUIET: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests;
