//! Where reports of all transports come together: each is judged by its number and applied to the index once.
//!
//! The rule: a pod's content and its position in the pod's stream change together. Reports and inventories go through
//! [`kv_index::Feed`], which judges and applies under the index's lock of that pod. So whoever takes a snapshot gets one
//! that goes on exactly where it was taken, and a search finds what an inventory keeps all the while.
//!
//! Parts of an inventory are put together here, under a lock for each pod. A digest is compared under it too: position and
//! content are read one after the other, and no report over another transport may come between. So there is one inbox to
//! an index.

mod assembly;
mod refusal;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;

use kv_index::{
    Batch, Consumer, Event, EventSemantics, Feed, FeedConfig, Index, InventoryBlock, Pod, PodRetired, Removed, Stored,
    StreamId,
};
use parking_lot::Mutex;

use crate::source_status::{SourceState, SourceStatus};
use crate::wire::bounds::Bounded;
use crate::wire::{Answer, Change, DigestReport, Hashing, HeldBlock, Inventory, Message, Report, Verdict};
use assembly::{Assembly, Put};

pub use refusal::Refusal;

/// Applies what workers report.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use kv_index::{BlockHash, BlockSize, Config, Index, Parent, EventSemantics, Tier};
/// use pointsman_reporter::event_ingest::EventIngest;
/// use pointsman_reporter::wire::{Change, Hashing, Report, Verdict};
///
/// let index: Arc<Index> = Arc::new(Index::new(Config::default()));
/// index.join("pod-0")?;
/// let hashing = Hashing::native("llama", BlockSize::new(16).expect("not zero"));
/// let inbox = EventIngest::new(index, hashing);
/// let stored = Change::Stored { parent: Parent::Root, blocks: vec![BlockHash::new(1)], tier: Tier::Gpu };
/// let report = Report {
///     pod: "pod-0".into(), incarnation: 1, sequence: 0, hashing, source: EventSemantics::Copies, changes: vec![stored],
/// };
/// assert_eq!(inbox.report(&report)?.verdict, Verdict::Applied);
/// assert_eq!(inbox.report(&report)?.verdict, Verdict::Duplicate);
/// assert_eq!(inbox.report(&Report { sequence: 2, ..report })?.verdict, Verdict::Gap);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventIngest {
    index: Arc<Index>,
    hashing: Hashing,
    /// The pods that are reported on, and how that fares; none takes any that the index knows.
    reported: ArcSwapOption<BTreeMap<String, Arc<SourceStatus>>>,
    /// By pod id, several pods to a lock; with it the inventory that is being put together.
    desks: Vec<Mutex<Desk>>,
}

/// What is kept between messages about the pods of one lock.
#[derive(Debug, Default)]
struct Desk(Vec<(Pod, Assembly)>);

impl EventIngest {
    /// The only inbox of this index, for pods whose blocks come to be this way.
    #[must_use]
    pub fn new(index: Arc<Index>, hashing: Hashing) -> Self {
        let desks = (0..DESKS).map(|_| Mutex::default()).collect();
        Self { index, hashing, reported: ArcSwapOption::empty(), desks }
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

    /// The same for tasks that must not be held up: where a whole inventory takes effect, in time in proportion to the pod's blocks,
    /// that happens on a thread for such things.
    ///
    /// # Errors
    ///
    /// As [`Self::message`].
    pub async fn take(self: &Arc<Self>, message: Message) -> Result<Answer, Refusal> {
        match message {
            Message::Inventory(last) if last.part.saturating_add(1) == last.parts => {
                let inbox = Arc::clone(self);
                match tokio::task::spawn_blocking(move || inbox.inventory(&last)).await {
                    Ok(answer) => answer,
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

    /// Applies a report if it is the next one.
    ///
    /// # Errors
    ///
    /// When it is malformed, of an unknown pod or hashed otherwise; then nothing is changed.
    pub fn report(&self, report: &Report) -> Result<Answer, Refusal> {
        report.check()?;
        let pod = self.pod(&report.pod)?;
        self.check_hashing(report.hashing)?;
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
        let verdict = match self.next(pod, digest.incarnation)? {
            Next::PassedBy => Verdict::Stale,
            // Of a life that nothing is known of yet, everything is missing.
            Next::Unheard => Verdict::Gap,
            Next::At(next) => match digest.sequence.cmp(&next) {
                Ordering::Less => Verdict::Passed,
                Ordering::Greater => Verdict::Gap,
                Ordering::Equal if self.index.digest(pod)? == digest.digest => Verdict::InSync,
                Ordering::Equal => Verdict::Mismatch,
            },
        };
        Ok(self.told(&digest.pod, Answer::new(verdict)))
    }

    /// Puts a part of an inventory to the others; with the last one, makes the index equal to it.
    ///
    /// # Errors
    ///
    /// When it is malformed, of an unknown pod or hashed otherwise; then nothing is changed.
    pub fn inventory(&self, part: &Inventory) -> Result<Answer, Refusal> {
        part.check()?;
        let pod = self.pod(&part.pod)?;
        self.check_hashing(part.hashing)?;
        let mut desk = self.desk(pod).lock();
        match self.next(pod, part.incarnation)? {
            Next::PassedBy => return Ok(Answer::new(Verdict::Stale)),
            Next::At(next) if part.sequence < next => return Ok(Answer::new(Verdict::Duplicate)),
            _ => {}
        }
        match desk.assembly(pod).put(part) {
            Put::Wanting => Ok(Answer::new(Verdict::Partial)),
            Put::Torn => Ok(Answer::new(Verdict::Gap)),
            Put::Whole(blocks) => {
                let blocks: Vec<InventoryBlock> = blocks.iter().map(listed).collect();
                let (incarnation, sequence) = (part.incarnation, part.sequence);
                let whole = kv_index::Inventory { incarnation, sequence, blocks: &blocks };
                let verdict = self.feed(pod, EventSemantics::Copies).reconcile(&whole)?;
                Ok(self.told(&part.pod, answer(verdict)))
            }
        }
    }

    /// Notes what a pod's worker is told: whether all is there, or an inventory is wanted.
    fn told(&self, name: &str, answer: Answer) -> Answer {
        if let Some(status) = self.status(name) {
            match answer.verdict {
                Verdict::Applied | Verdict::InSync => status.set(SourceState::Live),
                // One that was passed by is not this pod's worker any more.
                Verdict::Stale => {}
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

    /// Where this life of the pod's worker stands.
    fn next(&self, pod: Pod, incarnation: u64) -> Result<Next, PodRetired> {
        Ok(match self.feed(pod, EventSemantics::Copies).cursor()? {
            Some(cursor) if incarnation < cursor.incarnation => Next::PassedBy,
            Some(cursor) if incarnation == cursor.incarnation => Next::At(cursor.next),
            // A worker that has told nothing yet has nothing: its digest is worth comparing, as if it had begun.
            None => Next::At(0),
            Some(_) => Next::Unheard,
        })
    }

    fn feed(&self, pod: Pod, source: EventSemantics) -> Feed<'_> {
        Feed::new(&self.index, pod, FeedConfig { stream: STREAM, semantics: source, first_sequence: 0 })
    }

    fn pod(&self, name: &str) -> Result<Pod, Refusal> {
        let pod = self.index.pod(name).ok_or_else(|| Refusal::UnknownPod(name.to_owned()))?;
        if self.reported.load().as_ref().is_some_and(|reported| !reported.contains_key(name)) {
            return Err(Refusal::NotReported(name.to_owned()));
        }
        Ok(pod)
    }

    fn check_hashing(&self, found: Hashing) -> Result<(), Refusal> {
        let expected = self.hashing;
        match found {
            found if found == expected => Ok(()),
            Hashing { block_size, .. } if block_size != expected.block_size => {
                Err(Refusal::BlockSize { found: block_size, expected: expected.block_size })
            }
            found => Err(Refusal::Hashing { found, expected }),
        }
    }

    fn desk(&self, pod: Pod) -> &Mutex<Desk> {
        &self.desks[pod.id().index() % DESKS]
    }
}

/// Where one life of a pod's worker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// This number is expected.
    At(u64),
    /// It is later than the life that is known.
    Unheard,
    /// A later life is known.
    PassedBy,
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

fn answer(verdict: kv_index::BatchOutcome) -> Answer {
    use kv_index::BatchOutcome as Judged;
    match verdict {
        Judged::Applied(applied) | Judged::GapSkipped(applied) | Judged::Restarted(applied) => {
            Answer { verdict: Verdict::Applied, refused: applied.refused as u64 }
        }
        Judged::Stale => Answer::new(Verdict::Stale),
        Judged::Gap { .. } => Answer::new(Verdict::Gap),
        _ => Answer::new(Verdict::Duplicate),
    }
}

/// The stream of pushed reports, apart from those that engines number themselves.
const STREAM: StreamId = StreamId(0x7075_7368);
/// Locks, one for each pod of an index of the usual width: an inventory holds up nobody else.
const DESKS: usize = 256;

#[cfg(test)]
mod tests;
