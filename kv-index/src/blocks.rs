//! The words of events and prompts: block hashes, chains of them, tiers, and what happens to blocks.

pub(crate) mod chain;
mod chain_source;
mod event;
mod hash;
mod tier;

pub use chain::{ChainHasher, ChainSeed, LazyChain};
pub use chain_source::ChainSource;
pub use event::{ApplyStats, ChangeObserver, Event, EventSemantics, FeedProblem, OutOfStep, Removed, Stored};
pub use hash::{BlockHash, BlockSize, Parent};
pub use tier::{Location, Tier};
