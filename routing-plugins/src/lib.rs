//! Which ways of choosing a pod are ready to use?
//!
//! The stock plugins of Pointsman, and ready profiles made of them. It builds on `routing-core`, which defines what a
//! plugin is, and on `kv-index`, which answers which pods hold the start of a prompt. A host is free to bring its own
//! plugins next to these or in their place.

#![forbid(unsafe_code)]

pub mod condition;
#[cfg(any(feature = "vllm", feature = "sglang", feature = "trtllm"))]
mod engine_hashing;
pub mod filter;
pub mod load;
mod parameters;
pub mod pick;
pub mod prepare;
pub mod profiles;
pub mod record;
#[cfg(feature = "serde")]
mod registry;
pub mod score;
mod stock;
pub mod tokenize;
mod tokens;

#[cfg(any(feature = "vllm", feature = "sglang", feature = "trtllm"))]
pub use engine_hashing::EngineHashing;
pub use parameters::{Amount, Fraction, OutOfRange, Positive};
#[cfg(feature = "serde")]
pub use registry::register;
pub use stock::{Hashing, SessionTables, Stock, Tokens};
pub use tokens::{PromptTokens, TokenList};
