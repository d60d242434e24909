//! Test support: a seeded pseudorandom generator ([`SplitMix64`]), a counting global allocator ([`alloc`]), external
//! programs ([`programs`]), well-formedness of markup ([`markup`]).
//!
//! Depends on no other crate, so that the tests of every crate can use it.

pub mod alloc;
pub mod markup;
pub mod programs;
mod rng;

pub use rng::{SplitMix64, splitmix64};
