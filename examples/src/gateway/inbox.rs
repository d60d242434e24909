//! Where reports of all transports come together: each is judged by its number and applied to the index once.
//!
//! The rule: a pod's content and its position in the pod's stream change together. Reports go through
//! [`kv_index::Feed`], which judges and applies under the index's lock of that pod. An inventory is the exception, and
//! needs an argument:
//!
//! - Nothing is missing before it (the usual case: an overflow, a mismatch). The index is reconciled, which touches only what
//!   differs, and then the number is passed. Between the two the content is *ahead* of the position: whoever takes a
//!   snapshot there gets one that still expects the inventory's number, and is mended by the same inventory
//!   replayed, or by a gap. The other order would give a snapshot that believes old content to be complete.
//! - Something is missing, or the worker started anew. Then what the index has may be untrue, and the inventory goes in as a
//!   batch of its own that gives the gap up: forgotten, filled and numbered under one lock, each block with one copy. Further
//!   copies are counted right after. A snapshot between has every block, and may lose one too early; a digest tells.
//!
//! Between the look at the position and the change of it nothing else of that pod may come in, over whatever transport:
//! each pod has a lock here that is held over all of it, and the stream is this inbox's alone. So there is one inbox
//! to an index.

mod assembly;
mod refusal;

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use kv_index::{
    Batch, BlockHash, BlockSize, Consumer, Event, Feed, FeedConfig, Index, InventoryBlock, Pod, Removed, Source,
    Stored, StreamId,
};
use parking_lot::Mutex;

use crate::gateway::source::{SourceState, SourceStatus};
use crate::wire::bounds::Bounded;
use crate::wire::{Answer, Change, DigestReport, HeldBlock, Inventory, Message, Report, Verdict};
use assembly::{Assembly, Put};

pub use refusal::Refusal;

/// Applies what workers report.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use kv_index::{BlockHash, BlockSize, Config, Index, Parent, Source, Tier};
/// use pointsman_examples::gateway::inbox::Inbox;
/// use pointsman_examples::wire::{Change, Report, Verdict};
///
/// let index: Arc<Index> = Arc::new(Index::new(Config::default()));
/// index.join("pod-0")?;
/// let inbox = Inbox::new(index, BlockSize::new(16).expect("not zero"));
/// let stored = Change::Stored { parent: Parent::Root, blocks: vec![BlockHash::new(1)], tier: Tier::Gpu };
/// let report = Report {
///     pod: "pod-0".into(), incarnation: 1, sequence: 0, block_size: 16, source: Source::Copies, changes: vec![stored],
/// };
/// assert_eq!(inbox.report(&report)?.verdict, Verdict::Applied);
/// assert_eq!(inbox.report(&report)?.verdict, Verdict::Duplicate);
/// assert_eq!(inbox.report(&Report { sequence: 2, ..report })?.verdict, Verdict::Gap);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Inbox {
    index: Arc<Index>,
    block_size: BlockSize,
    /// The pods that are reported on, and how that fares; none takes any that the index knows.
    reported: ArcSwapOption<BTreeMap<String, Arc<SourceStatus>>>,
    /// By pod id, several pods to a lock; with it the inventory that is being put together.
    desks: Vec<Mutex<Desk>>,
}

/// What is kept between messages about the pods of one lock.
#[derive(Debug, Default)]
struct Desk(Vec<(Pod, Assembly)>);

impl Inbox {
    /// The only inbox of this index, for pods whose blocks have this many tokens.
    #[must_use]
    pub fn new(index: Arc<Index>, block_size: BlockSize) -> Self {
        let desks = (0..DESKS).map(|_| Mutex::default()).collect();
        Self { index, block_size, reported: ArcSwapOption::empty(), desks }
    }

    /// Takes reports on these pods only from now on, and tells how each fares. A pod that is followed otherwise must not be
    /// among them: two streams that do not know of each other would undo each other's work.
    pub fn only(&self, reported: BTreeMap<String, Arc<SourceStatus>>) {
        self.reported.store(Some(Arc::new(reported)));
    }

    /// The index that is fed.
    #[must_use]
    pub fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Takes whatever a worker sent.
    ///
    /// # Errors
    ///
    /// When the message cannot be this pod's; then nothing is changed.
    pub fn message(&self, message: &Message) -> Result<Answer, Refusal> {
        match message {
            Message::Report(report) => self.report(report),
            Message::Digest(digest) => self.digest(digest),
            Message::Inventory(inventory) => self.inventory(inventory),
        }
    }

    /// Applies a report if it is the next one.
    ///
    /// # Errors
    ///
    /// When it is malformed, of an unknown pod or of another block size; then nothing is changed.
    pub fn report(&self, report: &Report) -> Result<Answer, Refusal> {
        report.check()?;
        let pod = self.pod(&report.pod)?;
        self.check_block_size(report.block_size)?;
        let events: Vec<Event<'_>> = report.changes.iter().map(event).collect();
        let _desk = self.desk(pod).lock();
        let batch = Batch { incarnation: report.incarnation, sequence: report.sequence, events: &events };
        let verdict = self.feed(pod, report.source).consume(&batch)?;
        if let Some(status) = self.status(&report.pod) {
            status.count(verdict);
        }
        Ok(self.told(&report.pod, answer(verdict)))
    }

    /// Compares a digest with what the index has, if that is of the same number.
    ///
    /// # Errors
    ///
    /// When it is malformed or of an unknown pod; then nothing is changed.
    pub fn digest(&self, digest: &DigestReport) -> Result<Answer, Refusal> {
        digest.check()?;
        let pod = self.pod(&digest.pod)?;
        let _desk = self.desk(pod).lock();
        let Some(next) = self.position(pod, digest.incarnation)? else { return Ok(Answer::new(Verdict::Stale)) };
        let verdict = match digest.sequence.cmp(&next) {
            std::cmp::Ordering::Less => Verdict::Passed,
            std::cmp::Ordering::Greater => Verdict::Gap,
            std::cmp::Ordering::Equal if self.index.digest(pod)? == digest.digest => Verdict::InSync,
            std::cmp::Ordering::Equal => Verdict::Mismatch,
        };
        Ok(self.told(&digest.pod, Answer::new(verdict)))
    }

    /// Puts a part of an inventory to the others; with the last one, makes the index equal to it.
    ///
    /// # Errors
    ///
    /// When it is malformed, of an unknown pod or of another block size; then nothing is changed.
    pub fn inventory(&self, part: &Inventory) -> Result<Answer, Refusal> {
        part.check()?;
        let pod = self.pod(&part.pod)?;
        self.check_block_size(part.block_size)?;
        let mut desk = self.desk(pod).lock();
        let Some(next) = self.position(pod, part.incarnation)? else { return Ok(Answer::new(Verdict::Stale)) };
        if part.sequence < next {
            return Ok(Answer::new(Verdict::Duplicate));
        }
        match desk.assembly(pod).put(part) {
            Put::Wanting => Ok(Answer::new(Verdict::Partial)),
            Put::Torn => Ok(Answer::new(Verdict::Gap)),
            Put::Whole(blocks) => self.replace(pod, part, next, &blocks),
        }
    }

    /// Makes the pod's blocks these, and passes the inventory's number.
    fn replace(&self, pod: Pod, last: &Inventory, next: u64, blocks: &[HeldBlock]) -> Result<Answer, Refusal> {
        let listed: Vec<InventoryBlock> = blocks.iter().map(listed).collect();
        let batch = Batch { incarnation: last.incarnation, sequence: last.sequence, events: &[] };
        let feed = self.feed(pod, Source::Membership);
        let refused = if last.sequence == next {
            let refused = self.index.reconcile(pod, &listed)?.refused;
            feed.consume(&batch)?;
            refused
        } else {
            let runs: Vec<(HeldBlock, Vec<BlockHash>)> =
                blocks.chunk_by(follows).map(|run| (run[0], run.iter().map(|block| block.hash).collect())).collect();
            let store = |first: &HeldBlock, run| Event::Stored(Stored::new(first.parent, run).in_tier(first.tier));
            let events: Vec<Event<'_>> = runs.iter().map(|(first, run)| store(first, &run[..])).collect();
            feed.give_up(&Batch { events: &events, ..batch })?;
            self.index.reconcile(pod, &listed)?.refused
        };
        Ok(self.told(&last.pod, Answer { verdict: Verdict::Applied, refused: refused as u64 }))
    }

    /// Notes what a pod's worker is told: whether all is there, or an inventory is wanted.
    fn told(&self, name: &str, answer: Answer) -> Answer {
        if let Some(status) = self.status(name) {
            match answer.verdict {
                Verdict::Applied | Verdict::InSync => status.set(SourceState::Live),
                verdict if verdict.wants_inventory() => {
                    status.replay();
                    status.set(SourceState::Replaying);
                }
                _ => {}
            }
        }
        answer
    }

    fn status(&self, name: &str) -> Option<Arc<SourceStatus>> {
        self.reported.load().as_ref()?.get(name).cloned()
    }

    /// The number expected next from this life of the pod's worker; none if a later life is known.
    ///
    /// A batch beyond every number is never applied, and its gap says where the stream stands. If the life is a
    /// new one, this is the news of it, and the pod's blocks are forgotten.
    fn position(&self, pod: Pod, incarnation: u64) -> Result<Option<u64>, Refusal> {
        let beyond = Batch { incarnation, sequence: u64::MAX, events: &[] };
        match self.feed(pod, Source::Copies).consume(&beyond)? {
            kv_index::Verdict::Gap { from, .. } => Ok(Some(from)),
            _ => Ok(None),
        }
    }

    fn feed(&self, pod: Pod, source: Source) -> Feed<'_> {
        Feed::new(&self.index, pod, FeedConfig { stream: STREAM, source, first: 0 })
    }

    fn pod(&self, name: &str) -> Result<Pod, Refusal> {
        let unknown = || Refusal::UnknownPod(name.to_owned());
        if self.reported.load().as_ref().is_some_and(|reported| !reported.contains_key(name)) {
            return Err(unknown());
        }
        self.index.pod(name).ok_or_else(unknown)
    }

    fn check_block_size(&self, found: u32) -> Result<(), Refusal> {
        let expected = self.block_size.tokens() as u32;
        if found == expected { Ok(()) } else { Err(Refusal::BlockSize { found, expected }) }
    }

    fn desk(&self, pod: Pod) -> &Mutex<Desk> {
        &self.desks[pod.id().index() % DESKS]
    }
}

impl Desk {
    /// The pod's assembly; those of earlier holders of its id are dropped.
    fn assembly(&mut self, pod: Pod) -> &mut Assembly {
        self.0.retain(|(other, _)| other.id() != pod.id() || *other == pod);
        let at = self.0.iter().position(|(other, _)| *other == pod).unwrap_or_else(|| {
            self.0.push((pod, Assembly::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

/// Whether `b` can be stored in one event with `a`, right after it.
fn follows(a: &HeldBlock, b: &HeldBlock) -> bool {
    b.parent == kv_index::Parent::Block(a.hash) && a.tier == b.tier
}

fn event(change: &Change) -> Event<'_> {
    match change {
        Change::Stored { parent, blocks, tier } => Event::Stored(Stored::new(*parent, blocks).in_tier(*tier)),
        Change::Removed { blocks, tier } => Event::Removed(Removed { blocks, tier: *tier }),
        Change::Cleared => Event::Cleared,
    }
}

fn listed(block: &HeldBlock) -> InventoryBlock {
    InventoryBlock { tier: block.tier, copies: block.copies, ..InventoryBlock::new(block.hash, block.parent) }
}

fn answer(verdict: kv_index::Verdict) -> Answer {
    use kv_index::Verdict as Judged;
    match verdict {
        Judged::Applied(applied) | Judged::GapGivenUp(applied) | Judged::Restarted(applied) => {
            Answer { verdict: Verdict::Applied, refused: applied.refused as u64 }
        }
        Judged::Stale => Answer::new(Verdict::Stale),
        Judged::Gap { .. } => Answer::new(Verdict::Gap),
        _ => Answer::new(Verdict::Duplicate),
    }
}

/// The stream of pushed reports, apart from those that engines number themselves.
const STREAM: StreamId = StreamId(0x7075_7368);
/// Locks; pods whose ids are this far apart share one.
const DESKS: usize = 64;

#[cfg(test)]
mod tests;
