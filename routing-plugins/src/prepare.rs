//! Preparers: what is worked out once for a request, for all plugins.

mod block_hash;
mod given_tokens;
mod loads;
mod prefix_match;

pub use block_hash::{BlockHashParameters, BlockHashPreparer, ChainRecipe, HashedBlocks, PromptChain};
pub use given_tokens::GivenTokensPreparer;
pub use loads::{LoadParameters, LoadPreparer, LoadTable, Loads};
pub use prefix_match::{HashedPrefix, PrefixMatchPreparer};
