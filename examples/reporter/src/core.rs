//! What a reporter sends when: a state machine without clock, socket or task.
//!
//! One message is under way at a time. The rule: a number is given to one message, and that message is offered until it is
//! answered, or until an inventory under a later number stands for it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use kv_index::EventSemantics;

use crate::outlet::OutletError;
use crate::tally::Tally;
use crate::wire::bounds::{MOST_BLOCKS, MOST_CHANGES, MOST_NUMBER, MOST_PARTS};
use crate::wire::{Answer, Change, DigestReport, Hashing, HeldBlock, Inventory, Message, Report, Resync, Verdict};
use pointsman_lab::SplitMix64;

/// How a reporter reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The pod's name, as the gateway's fleet has it.
    pub pod: String,
    /// How its blocks come to be: the gateway's must come the same way.
    pub hashing: Hashing,
    /// What the engine's events count.
    pub source: EventSemantics,
    /// Which life this is: higher each time the worker starts ([`incarnation_now`](crate::incarnation_now)). Below 2^53.
    pub incarnation: u64,
    /// Blocks that may wait to be sent; more make an overflow.
    pub queue_blocks: usize,
    /// Blocks of a batch, at most [`MOST_BLOCKS`]; so many are sent at once.
    pub batch_blocks: usize,
    /// How long a change may wait for others.
    pub flush_every: Duration,
    /// How often digests are compared.
    pub digest_every: Duration,
    /// The least time between two inventories for a digest that differs: a gateway without room for every block
    /// would ask for ever.
    pub inventory_pause: Duration,
    /// The first pause before a message is sent again; doubled each time, and half of it left to chance.
    pub retry_first: Duration,
    /// The longest pause before a message is sent again.
    pub retry_most: Duration,
    /// What pauses are drawn from.
    pub seed: u64,
}

impl Config {
    /// A pod that announces copies, with the usual times.
    #[must_use]
    pub fn new(pod: &str, hashing: Hashing, incarnation: u64) -> Self {
        Self {
            pod: pod.to_owned(),
            hashing,
            source: EventSemantics::Copies,
            incarnation,
            queue_blocks: 1 << 16,
            batch_blocks: 2_048,
            flush_every: Duration::from_millis(100),
            digest_every: Duration::from_secs(5),
            inventory_pause: Duration::from_secs(30),
            retry_first: Duration::from_millis(50),
            retry_most: Duration::from_secs(5),
            seed: incarnation,
        }
    }
}

/// What a reporter did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Reports that were answered.
    pub reports: u64,
    /// Inventories that were answered, whole.
    pub inventories: u64,
    /// Digests that were answered.
    pub digests: u64,
    /// Messages sent again.
    pub retries: u64,
    /// Messages a gateway would not take.
    pub refusals: u64,
    /// How often a gateway was found to be missing something.
    pub gaps: u64,
    /// How often a digest differed.
    pub mismatches: u64,
    /// How often a later life of this worker was known. If that goes on, two workers go by one name.
    pub superseded: u64,
    /// How often the queue was too short.
    pub overflows: u64,
    /// Blocks whose events were dropped for that; an inventory has made up for them, or will.
    pub dropped: u64,
}

/// Where batches and inventories come from.
pub trait Supply {
    /// Blocks that wait.
    fn queued(&self) -> usize;
    /// Whether events were dropped since the last inventory.
    fn overflowed(&self) -> bool;
    /// Takes the oldest changes, up to these counts.
    fn batch(&mut self, changes: usize, blocks: usize) -> Vec<Change>;
    /// Takes everything there is, and drops the changes that are in it.
    fn inventory(&mut self) -> Vec<HeldBlock>;
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "one sends or one waits: complete by nature")]
pub enum Step<'a> {
    /// Send this, then tell the answer.
    Send(&'a Message),
    /// Nothing to do before then, unless something is queued.
    Wait(Instant),
}

/// The state of a reporter.
#[derive(Debug)]
pub struct Core {
    config: Config,
    /// The number of the next message that gets one.
    next: u64,
    /// The number of the last inventory.
    last_inventory: Option<u64>,
    tally: Tally,
    /// Messages that were given out, in order; the first is to be sent or under way.
    pending: VecDeque<Message>,
    wanted: Wanted,
    /// When the oldest queued change was first seen.
    waiting_since: Option<Instant>,
    digest_at: Instant,
    /// Digests that differ ask for no inventory before this.
    pause_until: Option<Instant>,
    retry_at: Option<Instant>,
    /// Nothing is sent before this, since another worker speaks for the pod.
    quiet_until: Option<Instant>,
    failures: u32,
    rng: SplitMix64,
    figures: Figures,
}

/// Whether the next numbered message must be an inventory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Nothing,
    Inventory,
}

impl Core {
    /// A reporter that has sent nothing.
    #[must_use]
    pub fn new(config: Config, now: Instant) -> Self {
        Self {
            next: 0,
            last_inventory: None,
            tally: Tally::default(),
            pending: VecDeque::new(),
            wanted: Wanted::Inventory,
            waiting_since: None,
            digest_at: now + config.digest_every,
            pause_until: None,
            retry_at: None,
            quiet_until: None,
            failures: 0,
            rng: SplitMix64::new(config.seed),
            figures: Figures::default(),
            config,
        }
    }

    /// What to do now. `hurry` sends what is queued without waiting for more.
    pub fn poll(&mut self, now: Instant, hurry: bool, supply: &mut impl Supply) -> Step<'_> {
        if let Some(at) = self.retry_at.max(self.quiet_until).filter(|&at| at > now) {
            return Step::Wait(at);
        }
        self.retry_at = None;
        if self.pending.is_empty()
            && let Some(until) = self.fill(now, hurry, supply)
        {
            return Step::Wait(until);
        }
        self.pending.front().map_or(Step::Wait(now), Step::Send)
    }

    /// The answer to what was sent last.
    pub fn answered(&mut self, now: Instant, answer: Result<Answer, OutletError>) {
        match answer {
            Ok(answer) => {
                self.failures = 0;
                self.take(now, answer);
            }
            Err(OutletError::Refused { .. }) => {
                // Sent again it would be refused again. What it said is in the next inventory.
                self.figures.refusals += 1;
                self.start_over();
                self.retry_at = Some(now + self.config.retry_most);
            }
            Err(OutletError::Lost(_)) => {
                self.figures.retries += 1;
                if let Some(Message::Digest(_)) = self.pending.front() {
                    self.pending.clear();
                }
                self.retry_at = Some(now + self.pause());
            }
        }
    }

    /// A gateway that reads a stream asks for an inventory.
    pub fn asked(&mut self, now: Instant, resync: &Resync) {
        let healed = self.last_inventory.is_some_and(|sent| sent >= resync.from);
        if resync.pod != self.config.pod || resync.incarnation != self.config.incarnation || healed {
            return;
        }
        match resync.verdict {
            Verdict::Stale => self.supersede(now),
            Verdict::Mismatch => self.differs(now),
            Verdict::Gap => {
                self.figures.gaps += 1;
                self.start_over();
            }
            _ => {}
        }
    }

    /// What it did so far.
    #[must_use]
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Whether the last attempt failed and the next is still to come.
    #[must_use]
    pub fn is_retrying(&self) -> bool {
        self.retry_at.is_some()
    }

    /// Gives the next message out, or says until when there is none.
    fn fill(&mut self, now: Instant, hurry: bool, supply: &mut impl Supply) -> Option<Instant> {
        if self.wanted == Wanted::Inventory || supply.overflowed() {
            self.give_inventory(&supply.inventory());
            return None;
        }
        let queued = supply.queued();
        let since = *self.waiting_since.get_or_insert(now);
        if queued == 0 {
            self.waiting_since = None;
        } else if hurry || queued >= self.config.batch_blocks || now >= since + self.config.flush_every {
            let changes = supply.batch(MOST_CHANGES, self.config.batch_blocks.clamp(1, MOST_BLOCKS));
            self.give_report(changes);
            return None;
        }
        if now >= self.digest_at && !hurry {
            self.digest_at = now + self.config.digest_every;
            self.pending.push_back(Message::Digest(DigestReport {
                pod: self.config.pod.clone(),
                incarnation: self.config.incarnation,
                sequence: self.next,
                digest: self.tally.digest(),
            }));
            return None;
        }
        let flush = self.waiting_since.map(|since| since + self.config.flush_every);
        Some(flush.map_or(self.digest_at, |flush| flush.min(self.digest_at)))
    }

    fn give_report(&mut self, changes: Vec<Change>) {
        self.waiting_since = None;
        for change in &changes {
            self.tally.apply(change, self.config.source);
        }
        let report = Report {
            pod: self.config.pod.clone(),
            incarnation: self.config.incarnation,
            sequence: self.take_number(),
            hashing: self.config.hashing,
            source: self.config.source,
            changes,
        };
        self.pending.push_back(Message::Report(report));
    }

    fn give_inventory(&mut self, blocks: &[HeldBlock]) {
        self.waiting_since = None;
        self.wanted = Wanted::Nothing;
        // A cache of more blocks than an inventory may have is told in part: less is known, nothing wrong.
        let blocks = &blocks[..blocks.len().min(MOST_BLOCKS * MOST_PARTS as usize)];
        self.tally = Tally::of(blocks);
        let sequence = self.take_number();
        self.last_inventory = Some(sequence);
        let parts = blocks.len().div_ceil(MOST_BLOCKS).max(1) as u32;
        for part in 0..parts {
            let from = part as usize * MOST_BLOCKS;
            self.pending.push_back(Message::Inventory(Inventory {
                pod: self.config.pod.clone(),
                incarnation: self.config.incarnation,
                sequence,
                hashing: self.config.hashing,
                part,
                parts,
                blocks: blocks[from..blocks.len().min(from + MOST_BLOCKS)].to_vec(),
            }));
        }
    }

    fn take(&mut self, now: Instant, answer: Answer) {
        let Some(message) = self.pending.pop_front() else { return };
        match (&message, answer.verdict) {
            (_, Verdict::Stale) => self.supersede(now),
            // The gateway is further than we are: another worker of this name and incarnation speaks to it.
            (Message::Digest(_), Verdict::Passed) => self.supersede(now),
            (_, Verdict::Gap) => {
                self.figures.gaps += 1;
                self.start_over();
            }
            (Message::Digest(_), Verdict::Mismatch) => self.differs(now),
            (Message::Digest(_), _) => self.figures.digests += 1,
            (Message::Report(_), _) => self.figures.reports += 1,
            (Message::Inventory(inventory), verdict) => {
                if verdict == Verdict::Duplicate {
                    // It was whole before; a retry of an earlier part learns of it first.
                    self.pending.clear();
                }
                self.figures.inventories += u64::from(inventory.part + 1 == inventory.parts || self.pending.is_empty());
            }
        }
    }

    fn differs(&mut self, now: Instant) {
        self.figures.mismatches += 1;
        if self.pause_until.is_none_or(|until| now >= until) {
            self.pause_until = Some(now + self.config.inventory_pause);
            self.start_over();
        }
    }

    /// Goes on under a higher incarnation than the one that somebody has.
    ///
    /// Of two workers that go by one name, each does so as soon as it hears of the other. So each waits, longer every
    /// time: in the end one of them has the word for minutes, and an operator has a figure that grows.
    fn supersede(&mut self, now: Instant) {
        self.figures.superseded += 1;
        let times = self.figures.superseded.min(16) as u32;
        // Further each time: a clock that went back by a week is made up for in four steps, counted in microseconds.
        let further = self.config.incarnation.saturating_add(1 << (10 * times.min(4)));
        self.config.incarnation = further.min(MOST_NUMBER);
        self.quiet_until = Some(now + self.config.retry_first.saturating_mul(1 << times).min(MOST_QUIET));
        self.next = 0;
        self.last_inventory = None;
        self.start_over();
    }

    /// What was given out is void; an inventory stands for all of it.
    fn start_over(&mut self) {
        self.pending.clear();
        self.wanted = Wanted::Inventory;
    }

    fn take_number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Doubled with each failure; the upper half is left to chance, so that workers do not come all at once.
    fn pause(&mut self) -> Duration {
        let doubled = self.config.retry_first.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let most = doubled.min(self.config.retry_most);
        let half = most / 2;
        half + Duration::from_nanos(self.rng.below(half.as_nanos() as usize + 1) as u64)
    }
}

/// The longest time that a worker leaves the word to another one of its name.
const MOST_QUIET: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests;
