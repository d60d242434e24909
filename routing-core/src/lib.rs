//! Where should this request go?
//!
//! This is the decision layer of Pointsman. It will turn a request and a set of candidate pods into
//! a plan: which pods to try, in which order, and what to do when one fails. It sits between
//! `kv-index`, which knows which pod holds which blocks, and `routing-exec`, which carries a plan
//! out. The plugins that fill it come from `routing-plugins` or from the host.
//!
//! **The crate has no API yet.** What follows is the contract it will be built to; nothing here can
//! be called today.
//!
//! # How a request becomes a plan
//!
//! A selector is one pass over four stages: prepare, filter, score, pick. A profile is a validated
//! set of plugins for these stages. A workflow composes selectors over one shared context, so that
//! single dispatch is one selector, and prefill then decode is two. Of the other layers, this crate
//! will know only the vocabulary of `kv-index`: pods, sets of pods, block hashes.
//!
//! # Promises to come
//!
//! - The same inputs give the same plan. The crate does no I/O, reads no clock and no environment,
//!   starts no threads and logs nothing. Time is an argument and chance is a seeded generator.
//! - A plugin touches only the slots it declared, and a slot it declared to read is there.
//! - A profile is checked as a whole when it is built, and every fault is reported at once. A service
//!   with a bad profile does not start.
//! - After warm-up, a decision allocates nothing, locks nothing and awaits nothing.
//! - On request, a decision comes with its reasons as data. When not asked for, they cost nothing.

#![forbid(unsafe_code)]
