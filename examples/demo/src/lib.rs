//! The demo: simulated pods behind the gateway, profiles compared under load, and chaos testing.
//!
//! | module | content |
//! |---|---|
//! | `cli` | command line |
//! | `compare` | one workload under several profiles |
//! | `serve` | pods and gateway that stay up |
//! | `chaos` | fault injection under load, then invariant checks |
//! | `load_generator` | closed-loop load over HTTP |
//! | [`fleet`] | simulated pods, and the gateway configuration for them |
//! | `startup` | fleet and gateway started together |

#![forbid(unsafe_code)]

mod chaos;
mod cli;
mod compare;
mod compare_table;
pub mod fleet;
mod load_generator;
mod serve;
mod startup;

pub use cli::main;
