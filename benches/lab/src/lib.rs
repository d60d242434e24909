//! What benchmarks and simulations share.
//!
//! | module | idea |
//! |---|---|
//! | [`trace`] | requests over time, read from a file or made up |
//! | [`latency`] | many latencies in a small table |
//! | [`rng`] | seeded chance |
//! | [`plot`] | numbers as pictures |
//! | [`html`] | text made harmless for pages and pictures |

#![forbid(unsafe_code)]

pub mod html;
pub mod latency;
pub mod plot;
pub mod rng;
pub mod trace;
