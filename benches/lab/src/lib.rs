//! What benchmarks and simulations share.
//!
//! | module | idea |
//! |---|---|
//! | [`trace`] | requests over time: recorded traces and synthetic traffic |
//! | [`latency`] | latency histogram |
//! | [`table`], [`mod@format`] | text tables and number formatting |
//! | `plot` (with the feature of that name) | charts as SVG |
//! | [`html`] | escaping of markup |

#![forbid(unsafe_code)]

pub mod format;
pub mod html;
pub mod latency;
#[cfg(feature = "plot")]
pub mod plot;
pub mod table;
pub mod trace;

pub use pointsman_test_support::SplitMix64;
