//! Concurrent prefix index of KV-cache blocks: prompt prefix → pods that hold it.
//!
//! An [`Index`] is fed the cache events of a fleet of LLM pods. Given a prompt as block hashes it says, for each
//! pod, how many leading blocks that pod holds: exactly, in well under a microsecond, while the events go on.
//!
//! # Example
//!
//! ```
//! use kv_index::{BlockSize, ChainHasher, ChainSeed, Config, Event, Index, Matches, EventSemantics, Stored};
//!
//! let index: Index = Index::new(Config::default());
//! let hasher = ChainHasher::new(ChainSeed::new("llama-8b"), BlockSize::new(16).expect("not zero"));
//! let (a, b) = (index.join("pod-a")?, index.join("pod-b")?);
//!
//! // The engines report what they cached.
//! let system: Vec<u32> = (0..64).collect();
//! let blocks = hasher.hash(&system);
//! index.apply(a, EventSemantics::Copies, &Event::Stored(Stored::prompt(&blocks)))?;
//! index.apply(b, EventSemantics::Copies, &Event::Stored(Stored::prompt(&blocks[..2])))?;
//!
//! // A request comes that starts the same. It is hashed only as deep as it matches.
//! let prompt: Vec<u32> = (0..64).chain(900..50_000).collect();
//! let (mut buffer, mut matches) = (Vec::new(), Matches::default());
//! index.search_lazy(&mut hasher.lazy(&prompt, &mut buffer), &mut matches);
//! assert_eq!(matches.depth(a.id()), 4);
//! assert_eq!(matches.depth(b.id()), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it fits together
//!
//! - Prompts become hashes by a [`ChainHasher`], by an engine's own rules (module `engine`, with a feature for each
//!   engine), or come ready-made ([`BlockHash::new`]). A hash is cumulative: it must determine everything before its
//!   block. That is the one thing the index takes on trust. Whom a block follows helps it to be found, and
//!   changes no answer, whatever a pod says about it.
//! - Pods [join](Index::join) and get a [`Pod`] handle. Their engines' events go through a sequenced [`Feed`], or
//!   straight into [`Index::apply`].
//! - [`Index::search`] fills a reusable [`Matches`] with groups of pods, deepest first. [`Index::locate`] then says
//!   where on the winner the blocks are.
//! - A pod that dies is [retired](Index::retire) at once and [swept](Index::sweep) in steps (two-phase removal). Lost
//!   events are repaired by [`Index::reconcile`], or in sequence by [`Feed::reconcile`]; a [`Digest`] detects them
//!   (anti-entropy).
//! - Speculative updates are entered by [`Index::speculate`] or a [`Predictor`]; [`Index::restore`] brings back the state
//!   of before a restart.
//!
//! # Guarantees
//!
//! - Searches are exact for every pod that does not change meanwhile, holes in its blocks or not. For one that
//!   does, no block counts that it did not hold at some moment of the search, a prefix that it held all the while counts, and
//!   consecutive blocks that are stored together are seen at one moment. A search that sees something change begins anew,
//!   three times at most: so only for a pod that changes on and on may two such stretches be of two moments
//!   (`model::tests::the_index_agrees_with_the_model`, `tests/stress.rs`, `loom_tests`).
//! - A search waits for no writer, takes no lock and writes no shared memory (`directory`, `segments`: the loom tests). The
//!   exception are pods that did not say what some block follows ([`Stats::slow_path_pods`]), and segments that pods contradict each
//!   other about: where a pod stops there, the block is looked up, and a segment with detached spans locked for a moment. A
//!   warm search allocates nothing (`tests/allocations.rs`).
//! - Whatever one pod says, answers about every other are right; contradictions are counted by pod
//!   ([`PodStats::parent_conflicts`], `model::tests`, whose traces lie). What two honest pods or more hold takes as few look-ups as
//!   without it (`tests/bad_days`); where one pod alone holds a chain, a liar that comes later may split it while it is there. The depth of a liar that
//!   names, for each block, another parent which it holds as well takes one for each while it is there; so does that of a pod that sends each block
//!   in an event of its own and never a parent, until another pod says.
//! - Membership sources may repeat themselves per block, numbered ones per batch: nothing is counted twice
//!   (`feeds::feed::tests`).
//! - A retired pod is in no later search; its id is used again only when nothing of it is left, under a new
//!   generation, and its old handle changes nothing (`index::sweep::tests`).
//! - What does not fit the bounds of [`Config`] is refused and counted; no input is worth a panic
//!   (`model::tests::and_in_narrow_bounds`, `index::snapshot::tests`).
//! - The same calls in the same order give the same answers: no clock, no chance, no threads, no I/O.
//!
//! # Features
//!
//! None is on by default.
//!
//! - `engine`: events of engines as they publish them, and a follower of their sockets (sans-IO), indexed by our own hash of
//!   their tokens.
//! - `vllm`, `sglang`, `trtllm`: `engine`, and prompts and events by that engine's own hashes.

// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

// From the bottom up: each imports from those above it here alone (`tests/layers.rs`).
mod map;
mod prefetch;
mod sync;

mod blocks;
mod reclamation;

mod pods;
mod writers;

mod directory;

mod segments;

mod index;

mod feeds;

#[cfg(feature = "engine")]
pub mod engine;

#[cfg(all(test, routing_loom))]
mod loom_tests;
#[cfg(all(test, not(routing_loom)))]
mod miri_tests;
#[cfg(any(test, fuzzing))]
pub mod model;

pub use blocks::{
    ApplyStats, BlockHash, BlockSize, ChainHasher, ChainSeed, ChainSource, ChangeObserver, Event, EventSemantics,
    FeedProblem, LazyChain, Location, OutOfStep, Parent, Removed, Stored, Tier,
};
pub use feeds::{Batch, BatchOutcome, Consumer, Feed, Predictor};
pub use index::Index;
pub use index::config::Config;
pub use index::digest::Digest;
pub use index::locate::TierSpan;
pub use index::matches::{DepthGroup, Matches};
pub use index::reconcile::{Inventory, InventoryBlock};
pub use index::stats::{PodStats, Stats};
pub use index::streams::{Cursor, FeedConfig, StreamId};
pub use index::sweep::Swept;
pub use index::updates::{Expired, collect_garbage};
pub use pods::{DEFAULT_POD_WORDS, JoinError, Pod, PodId, PodRetired, PodSet, PodSetIter, SnapshotError};

// Shared between threads by every gateway that embeds it.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Index>();
    shared::<Matches>();
    shared::<Feed<'_>>();
};
