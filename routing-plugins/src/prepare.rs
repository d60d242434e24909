//! Preparers: what is computed once for a request and shared by all plugins.

mod block_hash;
mod given_chain;
mod given_tokens;
mod handoff_costs;
mod hash_key;
mod key;
mod loads;
mod prefix_match;
mod prompt_finder;
mod session_key;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod text_block;
pub(crate) mod text_chain;

pub use block_hash::{BlockHashParameters, BlockHashPreparer};
pub use given_tokens::{GivenTokensPreparer, OnTokenizeFailure, TokensParameters};
pub use handoff_costs::{
    HandoffCost, HandoffCostParameters, HandoffCostPreparer, HandoffCostTable, HandoffCosts, Network, NetworkLevel,
};
pub use hash_key::{HashKey, HashKeyParameters, HashKeyPreparer};
pub use key::KeySource;
pub use loads::{LoadParameters, LoadPreparer, LoadTable, Loads};
pub use prefix_match::PrefixMatchPreparer;
pub use prompt_finder::PromptFinder;
pub use session_key::{Session, SessionKeyParameters, SessionKeyPreparer};
pub use text_block::{TextBlockParameters, TextBlockPreparer};

pub(crate) use block_hash::{PromptChain, PromptHasher};
#[cfg(feature = "serde")]
pub(crate) use key::{read_any_sources, read_number_sources};
pub(crate) use prefix_match::HashedPrefix;
