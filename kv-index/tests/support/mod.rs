//! Test support for engine streams: a simulated engine, its publisher, and a reference state.
#![allow(dead_code, unreachable_pub, reason = "each test takes what it needs")]

#[cfg(feature = "vllm")]
pub mod engine;
pub mod observer;
pub mod pack;
pub mod pool;
pub mod publisher;
pub mod traffic;
pub mod truth;
