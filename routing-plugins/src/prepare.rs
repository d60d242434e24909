//! Preparers: what is worked out once for a request, for all plugins.

mod block_hash;
mod given_chain;
mod given_tokens;
mod hash_key;
mod hash_key_slot;
mod key;
mod loads;
mod prefix_match;
mod session_key;
mod session_slot;
#[cfg(test)]
pub(crate) mod tests;
mod text_block;
mod text_chain;
mod throughput;
mod tier_match;

pub use block_hash::{BlockHashParameters, BlockHashPreparer, ChainRecipe, HashedBlocks, PromptChain};
pub use given_tokens::{GivenTokensPreparer, OnTokenizeFailure, TokensParameters};
pub use hash_key::{HashKeyParameters, HashKeyPreparer};
pub use hash_key_slot::HashKey;
pub use key::KeySource;
pub use loads::{LoadParameters, LoadPreparer, LoadTable, Loads};
pub use prefix_match::{HashedPrefix, PrefixMatchPreparer};
pub use session_key::{SessionKeyParameters, SessionKeyPreparer};
pub use session_slot::Session;
pub use text_block::{TextBlockParameters, TextBlockPreparer};
pub use throughput::{ThroughputParameters, ThroughputPredictor};
pub use tier_match::{HeldTiers, TierCounts, TierMatchParameters, TierMatchPreparer, TierTable};
