//! Concurrent systems under test: any number of threads search while writers apply events.
//!
//! [`pointsman_benches::system::System`] has one caller; here the system is shared, and what belongs to one thread (buffers of a
//! search, a writer's maps) is the thread's own. The rule: whatever a call wants in a form of its own is made before
//! the clock starts, and no two writers write for the same pod.

mod dynamo;
mod ours;
mod smg;

use std::sync::Arc;

use kv_index::BlockHash;

pub use self::dynamo::{ConcurrentDynamo, DynamoText};
pub use self::ours::ConcurrentOurs;
pub use self::smg::{ConcurrentSmg, SmgText, SmgWriter};
use pointsman_benches::fleet::{Fleet, Op};

/// A system that threads share.
pub trait ConcurrentSystem: Send + Sync {
    /// What it is called in tables.
    const NAME: &'static str;
    /// A script in the forms that its calls take.
    type Text: Send + Sync;
    /// What one event has to own.
    type Event: Send;
    /// What one writer has to own.
    type Writer: Send;
    /// What one searching thread has to own.
    type Scratch: Default + Send;

    /// An empty one for so many pods, written to by so many threads.
    fn new(pods: usize, writers: usize) -> Self;
    /// What one of the writers owns.
    fn writer(&self) -> Self::Writer;
    /// A script in its forms.
    fn text(script: &Arc<Script>) -> Self::Text;
    /// What this event has to own when it is applied.
    fn event(text: &Self::Text, change: &Change) -> Self::Event;
    /// Applies an event, or hands it to the system's own writer; false if it was refused.
    fn apply(&self, writer: &mut Self::Writer, text: &Self::Text, change: &Change, event: &mut Self::Event) -> bool;
    /// Waits until a search sees every event applied.
    fn drain(&self) {}
    /// Reads a prompt as a search does; a number that depends on all of it.
    fn touch(text: &Self::Text, prompt: Span) -> u64;
    /// Searches; a number that depends on the whole answer.
    fn search(&self, text: &Self::Text, prompt: Span, scratch: &mut Self::Scratch) -> u64;
    /// The answer by pod.
    fn depths(&self, text: &Self::Text, prompt: Span, depths: &mut [u32]);
}

/// Blocks that changes and queries point into.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Script {
    /// Prompts, each in its order.
    pub prompts: Vec<BlockHash>,
    /// Evicted blocks in the order of their eviction.
    pub removed: Vec<BlockHash>,
}

/// Some blocks of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// The first.
    pub from: u32,
    /// One past the last.
    pub to: u32,
}

impl Span {
    /// From here to before there.
    ///
    /// # Panics
    ///
    /// If a script has four billion blocks.
    #[must_use]
    pub fn new(from: usize, to: usize) -> Self {
        let short = |at: usize| u32::try_from(at).expect("a script has fewer than 2^32 blocks");
        Self { from: short(from), to: short(to) }
    }

    /// As indices.
    #[must_use]
    pub const fn range(self) -> std::ops::Range<usize> {
        self.from as usize..self.to as usize
    }

    /// How many blocks.
    #[must_use]
    pub const fn blocks(self) -> usize {
        (self.to - self.from) as usize
    }
}

/// One event of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Which pod.
    pub pod: u32,
    /// What happened.
    pub what: ChangeKind,
}

/// What an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeKind {
    /// Blocks of [`Script::prompts`] were stored.
    Stored {
        /// After this one, which the pod holds.
        parent: Option<BlockHash>,
        /// These.
        blocks: Span,
    },
    /// These blocks of [`Script::removed`] were evicted.
    Removed(Span),
}

impl Change {
    /// A pod stores blocks of a prompt that begins at `start`.
    #[must_use]
    pub fn store(script: &Script, pod: usize, start: usize, blocks: Span) -> Self {
        let from = blocks.from as usize;
        let parent = (from > start).then(|| script.prompts[from - 1]);
        Self { pod: pod as u32, what: ChangeKind::Stored { parent, blocks } }
    }

    /// A pod evicts blocks, in the order in which the script has them.
    #[must_use]
    pub const fn remove(pod: usize, blocks: Span) -> Self {
        Self { pod: pod as u32, what: ChangeKind::Removed(blocks) }
    }

    /// How many blocks it concerns.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        match self.what {
            ChangeKind::Stored { blocks, .. } | ChangeKind::Removed(blocks) => blocks.blocks(),
        }
    }
}

impl Script {
    /// A fleet's chains, each also from its end: where each is, and the fleet's steps as events.
    #[must_use]
    pub fn of(fleet: &Fleet) -> (Self, Vec<Span>, Vec<Change>) {
        let (mut script, mut spans) = (Self::default(), Vec::with_capacity(fleet.chains.len()));
        for chain in &fleet.chains {
            let start = script.prompts.len();
            script.prompts.extend_from_slice(chain);
            script.removed.extend(chain.iter().rev());
            spans.push(Span::new(start, script.prompts.len()));
        }
        let change = |step: &pointsman_benches::fleet::Step| {
            let (start, end) = (spans[step.chain].from as usize, spans[step.chain].to as usize);
            match step.op {
                Op::Store => Change::store(&script, step.pod, start, Span::new(start + step.from, start + step.to)),
                Op::Evict => Change::remove(step.pod, Span::new(end - step.to, end - step.from)),
            }
        };
        let changes = fleet.steps.iter().map(change).collect();
        (script, spans, changes)
    }
}
