//! Stock routing plugins and profiles for LLM serving.
//!
//! The stock plugins of Pointsman, and ready [`profiles`] made of them. The crate builds on `routing-core`, which defines
//! what a plugin is, and on `kv-index`, which answers which pods hold the start of a prompt. A host is free to bring its own
//! plugins next to these or in their place.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Instant;
//!
//! use kv_index::{BlockSize, Config, Index};
//! use routing_core::{Fleet, PodInfo, Request, RoutingInput, RoutingPlan};
//! use routing_plugins::load::Work;
//! use routing_plugins::{Hashing, PluginState, profiles};
//!
//! let index: Arc<Index> = Arc::new(Index::new(Config::default()));
//! let state = PluginState::new(Arc::clone(&index), Hashing::Native(BlockSize::new(16).expect("not zero")));
//! let workflow = profiles::sticky_least_loaded(&state).build()?;
//!
//! let pods = ["a", "b"].map(|name| index.join(name).map(|pod| PodInfo::new(pod, name)));
//! let fleet = Fleet::new(1, pods.into_iter().collect::<Result<Vec<_>, _>>()?);
//! let tokens: Vec<u32> = (0..512).collect();
//! let (mut workspace, mut plan) = (workflow.workspace(), RoutingPlan::default());
//! let request = Request::new("llama-8b", Instant::now()).tokens(&tokens);
//! workflow.decide(&mut workspace, RoutingInput::new(&request, &fleet), &mut plan)?;
//! let first = plan.steps()[0].candidates[0].pod;
//!
//! // Counted on its pod until the guard is dropped; and the next one like it follows.
//! let guard = state.load.begin(first, Work::of(512).output(100));
//! workflow.decide(&mut workspace, RoutingInput::new(&request.seed(1), &fleet), &mut plan)?;
//! assert_eq!(plan.steps()[0].candidates[0].pod, first);
//! drop(guard);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it fits together
//!
//! A [`PluginState`] is what a host owns and plugins read: the index and how prompts are hashed for it, what is under way on each
//! pod ([`load`]), open circuit breakers, sessions. Plugins are made over it and have no state of their own but their
//! parameters. What is remembered from one request for the next is in it, and written by [`record`]ers or by the
//! picker that says so.
//!
//! | stage | what is there |
//! |---|---|
//! | [`prepare`] | tokens, block hashes, prefix matches, loads, session keys, hash keys |
//! | [`filter`] | health, drain, circuit breakers, role, concurrency, prefix affinity, longest match, imbalance |
//! | [`score`] | cache, load, KV utilization, cost, wait, time to first token, recent work, locality |
//! | [`pick`] | by score, in turn, by session, by consistent hash, by chance |
//! | [`record`] | speculation, prefill queues, recent work |
//! | [`condition`] | whether a separate prefill is worth it |
//!
//! These are what the profiles and published policies are made of; the others are in [`extra`]. Costs in seconds are those of a
//! [`CostModel`], fitted from a table of measurements.
//!
//! Every plugin is a file: what it is for, its formula, what its 0 and 1 mean, its parameters with their defaults. With the
//! feature `serde` each is also a type of documents (`register`), named as the plugin is, in small letters:
//! `cache_affinity_scorer`. Parameters are of types that cannot hold what makes no sense.
//!
//! # Features
//!
//! - `serde`: profiles as documents.
//! - `engine`: prompts hashed by an engine's rules; `vllm`, `sglang`, `trtllm`: those of these engines.
//! - `tokenizers`: vocabularies in the form of Hugging Face (needs Rust 1.89); `chat`: chat templates and bodies.

#![forbid(unsafe_code)]
// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer_lengths;
pub mod condition;
mod cost_model;
#[cfg(feature = "serde")]
pub mod duration;
#[cfg(feature = "engine")]
mod engine_hashing;
pub mod extra;
pub mod filter;
pub mod flow;
pub mod load;
mod memories;
mod pace;
mod parameters;
pub mod peers;
pub mod pick;
mod plugin_state;
pub mod prepare;
pub mod profiles;
pub mod program;
pub mod record;
#[cfg(feature = "serde")]
mod registry;
pub mod score;
pub mod tokenize;
mod tokens;

pub use answer_lengths::{AnswerKey, AnswerLengths};
pub use cost_model::{
    CostModel, DecodeRow, Fit, FitError, Measurements, MixedRow, PrefillRow, Products, RelativeError,
};
#[cfg(feature = "engine")]
pub use engine_hashing::EngineHashing;
pub use pace::{DecodeSample, ExpectedPrefill, PaceSample, PodPaces};
pub use parameters::{Amount, Fraction, OutOfRange, Positive};
pub use plugin_state::{Hashing, NamedTables, PluginState, SessionTables, Tokens};
#[cfg(feature = "serde")]
pub use registry::register;
pub use tokens::{PromptTokens, TokenList};
