//! Event ingestion: where messages of all transports meet; each is checked by sequence number and applied to the index once.
//!
//! The rule: a pod's content and its position in the pod's stream change together. Batches and inventories go through
//! [`kv_index::Feed`], which checks and applies under the index's lock of that pod. So a snapshot resumes exactly where it was
//! taken, and a search finds what an inventory keeps all the while.
//!
//! Parts of an inventory are reassembled here, under a lock for each pod. A digest is compared under it too: position and
//! content are read one after the other, and no batch over another transport may come between. So an index has one ingest;
//! one ingest may have several indexes, of several models, if no two of them have a pod of one name.

mod error;
mod reassembly;
mod unfinished;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwapOption;

use kv_index::{
    Batch, BatchOutcome, ChangeObserver, Consumer, Event, EventSemantics, Feed, FeedConfig, Index, InventoryBlock, Pod,
    PodRetired, Removed, Stored, StreamId,
};
use parking_lot::Mutex;

use crate::source_status::{SourceState, SourceStatus};
use crate::wire::bounds::{Bounded, MAX_BLOCKS, MAX_PARTS};
use crate::wire::{Ack, AckStatus, Change, DigestMessage, EventBatch, HashScheme, Inventory, InventoryEntry, Message};
use reassembly::{PartOutcome, Reassembly};
use unfinished::Unfinished;

pub use error::IngestError;

/// Applies workers' messages to an index.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use kv_index::{BlockHash, BlockSize, Config, Index, Parent, EventSemantics, Tier};
/// use pointsman_reporter::event_ingest::EventIngest;
/// use pointsman_reporter::wire::{AckStatus, Change, EventBatch, HashScheme};
///
/// let index: Arc<Index> = Arc::new(Index::new(Config::default()));
/// index.join("pod-0")?;
/// let hashing = HashScheme::native("llama", BlockSize::new(16).expect("not zero"));
/// let ingest = EventIngest::new(index, hashing);
/// let stored = Change::Stored { parent: Parent::Root, blocks: vec![BlockHash::new(1)], tier: Tier::Gpu };
/// let batch = EventBatch {
///     pod: "pod-0".into(), incarnation: 1, sequence: 0, hashing, source: EventSemantics::Copies, changes: vec![stored],
/// };
/// assert_eq!(ingest.batch(&batch)?.status, AckStatus::Applied);
/// assert_eq!(ingest.batch(&batch)?.status, AckStatus::Duplicate);
/// assert_eq!(ingest.batch(&EventBatch { sequence: 2, ..batch })?.status, AckStatus::Gap);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventIngest {
    /// The indexes; at least one.
    targets: Vec<Target>,
    /// The pods whose events are pushed; none accepts any pod of the index.
    accepted: ArcSwapOption<BTreeMap<String, PushedPod>>,
    /// Bounds the inventories that are being reassembled.
    unfinished: Arc<Unfinished>,
}

/// An index that is fed.
#[derive(Debug)]
struct Target {
    index: Arc<Index>,
    hashing: HashScheme,
    /// Locks by pod id, with the inventories being reassembled.
    shards: Vec<Mutex<Shard>>,
}

/// A pod whose events are pushed.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "what is told of a pod's messages: complete by nature")]
pub struct PushedPod {
    /// Where state and counters are published.
    pub status: Arc<SourceStatus>,
    /// Is told of every change that is applied.
    pub observer: Option<Arc<dyn ChangeObserver>>,
}

/// State kept between messages, of the pods of one lock.
#[derive(Debug, Default)]
struct Shard(Vec<(Pod, Reassembly)>);

impl EventIngest {
    /// The only ingest of this index, for pods of this hash scheme.
    #[must_use]
    pub fn new(index: Arc<Index>, hashing: HashScheme) -> Self {
        let unfinished = Unfinished::new(MAX_UNFINISHED_BLOCKS);
        Self { targets: vec![Target::new(index, hashing)], accepted: ArcSwapOption::empty(), unfinished }
    }

    /// The same with so many blocks at most in inventories that have not all of their parts, of all pods together;
    /// [`MAX_UNFINISHED_BLOCKS`] unless given.
    #[must_use]
    pub fn max_unfinished_blocks(self, blocks: usize) -> Self {
        Self { unfinished: Unfinished::new(blocks), ..self }
    }

    /// The same for the pods of another index too, of another model. Pods of both have different names.
    #[must_use]
    pub fn and(mut self, index: Arc<Index>, hashing: HashScheme) -> Self {
        self.targets.push(Target::new(index, hashing));
        self
    }

    /// Accepts messages of these pods only from now on, and updates their status. A pod with another event source must not be
    /// among them: two streams that do not know of each other would undo each other's work.
    pub fn accept_only(&self, accepted: BTreeMap<String, PushedPod>) {
        self.accepted.store(Some(Arc::new(accepted)));
    }

    /// The index that is fed; the first of them.
    #[must_use]
    pub fn index(&self) -> &Arc<Index> {
        &self.targets[0].index
    }

    /// Applies any message.
    ///
    /// # Errors
    ///
    /// When the message is malformed or cannot be of this pod; then nothing is changed.
    pub fn message(&self, message: &Message) -> Result<Ack, IngestError> {
        match message {
            Message::Batch(batch) => self.batch(batch),
            Message::Digest(digest) => self.digest(digest),
            Message::Inventory(inventory) => self.inventory(inventory),
        }
    }

    /// [`Self::message`] for async tasks: the last part of an inventory, which takes time in proportion to the pod's blocks,
    /// is applied on a blocking thread.
    ///
    /// # Errors
    ///
    /// As [`Self::message`].
    pub async fn message_async(self: &Arc<Self>, message: Message) -> Result<Ack, IngestError> {
        match message {
            Message::Inventory(last) if last.part.saturating_add(1) == last.parts => {
                let ingest = Arc::clone(self);
                match tokio::task::spawn_blocking(move || ingest.inventory(&last)).await {
                    Ok(ack) => ack,
                    Err(error) => match error.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        // The runtime is going down, and this task with it.
                        Err(_) => std::future::pending().await,
                    },
                }
            }
            message => self.message(&message),
        }
    }

    /// Applies a batch if it is next in sequence.
    ///
    /// # Errors
    ///
    /// When it is malformed, of an unknown pod or of another hash scheme; then nothing is changed.
    pub fn batch(&self, batch: &EventBatch) -> Result<Ack, IngestError> {
        batch.check()?;
        let (target, pod) = self.pod(&batch.pod)?;
        target.check_hashing(batch.hashing)?;
        let events: Vec<Event<'_>> = batch.changes.iter().map(event).collect();
        let _shard = target.shard(pod).lock();
        let numbered = Batch { incarnation: batch.incarnation, sequence: batch.sequence, events: &events };
        let outcome = target.feed(pod, batch.source).consume(&numbered)?;
        if let Some(PushedPod { status, observer }) = self.accepted_pod(&batch.pod) {
            status.count(outcome);
            observer.iter().for_each(|observer| observe(&**observer, outcome, &events));
        }
        Ok(self.acknowledge(&batch.pod, ack(outcome)))
    }

    /// Compares a digest with the index's, if both are at the same sequence number.
    ///
    /// # Errors
    ///
    /// When it is malformed or of an unknown pod; then nothing is changed.
    pub fn digest(&self, digest: &DigestMessage) -> Result<Ack, IngestError> {
        digest.check()?;
        let (target, pod) = self.pod(&digest.pod)?;
        let _shard = target.shard(pod).lock();
        let status = match target.expected(pod, digest.incarnation)? {
            Expected::Superseded => AckStatus::Stale,
            // Of an incarnation that nothing is known of yet, everything is missing.
            Expected::NewIncarnation => AckStatus::Gap,
            Expected::Sequence(next) => match digest.sequence.cmp(&next) {
                Ordering::Less => AckStatus::Passed,
                Ordering::Greater => AckStatus::Gap,
                Ordering::Equal if target.index.digest(pod)? == digest.digest => AckStatus::InSync,
                Ordering::Equal => AckStatus::Mismatch,
            },
        };
        Ok(self.acknowledge(&digest.pod, Ack::new(status)))
    }

    /// Buffers a part of an inventory; with the last one, makes the index equal to it.
    ///
    /// # Errors
    ///
    /// When it is malformed, of an unknown pod or of another hash scheme, or unfinished inventories of other pods leave no room for
    /// it; then nothing is changed.
    pub fn inventory(&self, part: &Inventory) -> Result<Ack, IngestError> {
        self.inventory_at(part, Instant::now())
    }

    fn inventory_at(&self, part: &Inventory, now: Instant) -> Result<Ack, IngestError> {
        let answer = self.take_part(part, now);
        if !matches!(answer, Err(IngestError::NoRoom { .. })) {
            return answer;
        }
        // Those that their workers left go first. Each lock is taken alone.
        for shard in self.targets.iter().flat_map(|target| &target.shards) {
            shard.lock().0.retain(|(_, reassembly)| !reassembly.is_stale(now));
        }
        self.take_part(part, now)
    }

    fn take_part(&self, part: &Inventory, now: Instant) -> Result<Ack, IngestError> {
        part.check()?;
        let (target, pod) = self.pod(&part.pod)?;
        target.check_hashing(part.hashing)?;
        let mut shard = target.shard(pod).lock();
        match target.expected(pod, part.incarnation)? {
            Expected::Superseded => return Ok(Ack::new(AckStatus::Stale)),
            Expected::Sequence(next) if part.sequence < next => return Ok(Ack::new(AckStatus::Duplicate)),
            _ => {}
        }
        match shard.reassembly(pod).push(part, &self.unfinished, now) {
            PartOutcome::NoRoom => Err(IngestError::NoRoom { limit: self.unfinished.limit() }),
            PartOutcome::Incomplete => Ok(Ack::new(AckStatus::Partial)),
            PartOutcome::OutOfOrder => Ok(Ack::new(AckStatus::Gap)),
            PartOutcome::Complete(entries) => {
                let blocks: Vec<InventoryBlock> = entries.iter().map(inventory_block).collect();
                let (incarnation, sequence) = (part.incarnation, part.sequence);
                let whole = kv_index::Inventory { incarnation, sequence, blocks: &blocks };
                let outcome = target.feed(pod, EventSemantics::Copies).reconcile(&whole)?;
                if let Some(observer) = self.accepted_pod(&part.pod).and_then(|pod| pod.observer) {
                    // What became of each block in between is not told.
                    observer.changed(&Event::Cleared);
                    observer.forgot();
                }
                Ok(self.acknowledge(&part.pod, ack(outcome)))
            }
        }
    }

    /// Updates the pod's source status by what its worker is answered.
    fn acknowledge(&self, name: &str, ack: Ack) -> Ack {
        if let Some(PushedPod { status: source, .. }) = self.accepted_pod(name) {
            match ack.status {
                AckStatus::Applied | AckStatus::InSync => source.set(SourceState::Live),
                // A superseded incarnation says nothing about the pod's current worker.
                AckStatus::Stale => {}
                status if status.needs_inventory() => {
                    source.replay();
                    source.set(SourceState::Replaying);
                }
                _ => {}
            }
        }
        ack
    }

    fn accepted_pod(&self, name: &str) -> Option<PushedPod> {
        self.accepted.load().as_ref()?.get(name).cloned()
    }

    /// A pod, and the index that has it.
    fn pod(&self, name: &str) -> Result<(&Target, Pod), IngestError> {
        let found = self.targets.iter().find_map(|target| Some((target, target.index.pod(name)?)));
        let found = found.ok_or_else(|| IngestError::UnknownPod(name.to_owned()))?;
        if self.accepted.load().as_ref().is_some_and(|accepted| !accepted.contains_key(name)) {
            return Err(IngestError::NotPushed(name.to_owned()));
        }
        Ok(found)
    }
}

impl Target {
    fn new(index: Arc<Index>, hashing: HashScheme) -> Self {
        Self { index, hashing, shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    /// The position that is expected of an incarnation.
    fn expected(&self, pod: Pod, incarnation: u64) -> Result<Expected, PodRetired> {
        Ok(match self.feed(pod, EventSemantics::Copies).cursor()? {
            Some(cursor) if incarnation < cursor.incarnation => Expected::Superseded,
            Some(cursor) if incarnation == cursor.incarnation => Expected::Sequence(cursor.next),
            // A worker that has sent nothing yet has nothing: its digest is worth comparing, as if it had begun.
            None => Expected::Sequence(0),
            Some(_) => Expected::NewIncarnation,
        })
    }

    fn feed(&self, pod: Pod, source: EventSemantics) -> Feed<'_> {
        Feed::new(&self.index, pod, FeedConfig::default().stream(STREAM).semantics(source))
    }

    fn check_hashing(&self, found: HashScheme) -> Result<(), IngestError> {
        let expected = self.hashing;
        match found {
            found if found == expected => Ok(()),
            HashScheme { block_size, .. } if block_size != expected.block_size => {
                Err(IngestError::BlockSize { found: block_size, expected: expected.block_size })
            }
            found => Err(IngestError::HashScheme { found, expected }),
        }
    }

    fn shard(&self, pod: Pod) -> &Mutex<Shard> {
        &self.shards[pod.id().index() % SHARDS]
    }
}

/// The position that is expected of an incarnation of a pod's worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// This sequence number is next.
    Sequence(u64),
    /// The incarnation is later than the known one.
    NewIncarnation,
    /// A later incarnation is known.
    Superseded,
}

impl Shard {
    /// The pod's reassembly buffer; those of earlier holders of its id are dropped.
    fn reassembly(&mut self, pod: Pod) -> &mut Reassembly {
        self.0.retain(|(other, _)| other.id() != pod.id() || *other == pod);
        let at = self.0.iter().position(|(other, _)| *other == pod).unwrap_or_else(|| {
            self.0.push((pod, Reassembly::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

fn event(change: &Change) -> Event<'_> {
    match change {
        Change::Stored { parent, blocks, tier } => Event::Stored(Stored::new(*parent, blocks).in_tier(*tier)),
        Change::Removed { blocks, tier } => Event::Removed(Removed { blocks, tier: *tier }),
        Change::Cleared => Event::Cleared,
    }
}

/// Tells an observer what a batch changed, if it was applied.
fn observe(observer: &dyn ChangeObserver, outcome: BatchOutcome, events: &[Event<'_>]) {
    match outcome {
        BatchOutcome::Applied(_) => {}
        BatchOutcome::Restarted(_) | BatchOutcome::GapSkipped(_) => observer.changed(&Event::Cleared),
        BatchOutcome::Gap { restarted: true, .. } => return observer.changed(&Event::Cleared),
        _ => return,
    }
    events.iter().for_each(|event| observer.changed(event));
}

fn inventory_block(entry: &InventoryEntry) -> InventoryBlock {
    InventoryBlock { tier: entry.tier, copies: entry.copies, ..InventoryBlock::new(entry.hash, entry.parent) }
}

fn ack(outcome: BatchOutcome) -> Ack {
    match outcome {
        BatchOutcome::Applied(applied) | BatchOutcome::GapSkipped(applied) | BatchOutcome::Restarted(applied) => {
            Ack { status: AckStatus::Applied, refused: applied.refused as u64 }
        }
        BatchOutcome::Stale => Ack::new(AckStatus::Stale),
        BatchOutcome::Gap { .. } => Ack::new(AckStatus::Gap),
        _ => Ack::new(AckStatus::Duplicate),
    }
}

/// The stream id of pushed events, apart from those that engines number themselves.
const STREAM: StreamId = StreamId(0x7075_7368);
/// Blocks of inventories that have not all of their parts, of all pods together: two of the largest, about half a gigabyte.
pub const MAX_UNFINISHED_BLOCKS: usize = 2 * MAX_BLOCKS * MAX_PARTS as usize;
/// Locks, one for each pod of an index of the usual width: an inventory blocks no other pod.
const SHARDS: usize = 256;

#[cfg(test)]
mod tests;
