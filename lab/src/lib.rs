//! What benchmarks and simulations share.
//!
//! | module | idea |
//! |---|---|
//! | [`trace`] | requests over time, read from a file or made up |
//! | [`latency`] | many latencies in a small table |
//! | [`rng`] | seeded chance |

#![forbid(unsafe_code)]

pub mod latency;
pub mod rng;
pub mod trace;
