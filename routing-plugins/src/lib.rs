//! Which ways of choosing a pod are ready to use?
//!
//! This crate will hold the stock plugins of Pointsman: preparers, filters, scorers and pickers, and
//! ready profiles made of them. It builds on `routing-core`, which defines what a plugin is, and on
//! `kv-index`, which answers which pods hold the start of a prompt. A host is free to bring its own
//! plugins next to these or in their place.
//!
//! **The crate has no API yet.** What follows is the contract it will be built to; nothing here can
//! be called today.
//!
//! # What it will answer
//!
//! Profiles for round robin, least load, consistent hashing with a cap on concurrency, routing to
//! the pod that holds most of the prompt, sticky sessions, and prefill then decode. Each is a plain
//! list of plugins and weights that a host can read, copy and change.
//!
//! # Promises to come
//!
//! - One plugin is one file: its docs, its type and its tests. The crate docs will list every plugin
//!   with the slots it reads and writes.
//! - Scores lie in 0..=1 and higher is better. Each scorer says what its 0 and its 1 mean.
//! - A plugin sees all candidates in one call, and its state is its configuration.
//! - Load is counted, not guessed: a guard per dispatched request adds to its pod's load and lets go
//!   at the first token, at the end, or when it is dropped.

#![forbid(unsafe_code)]
