//! Test support: a seeded pseudorandom generator ([`SplitMix64`]) and a counting global allocator ([`alloc`]).
//!
//! Depends on no other crate, so that the tests of every crate can use it.

pub mod alloc;
mod rng;

pub use rng::{SplitMix64, splitmix64};
