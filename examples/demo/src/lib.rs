//! The demonstration: simulated pods behind the gateway, profiles compared under load, and chaos.
//!
//! | module | idea |
//! |---|---|
//! | [`fleet`] | simulated pods as one fleet, and the gateway's configuration for it |
//! | [`load`] | load generator: conversations over real HTTP, and what they saw |
//! | [`demo`] | the first command: three profiles, one workload, a table |
//! | [`chaos`] | load while everything breaks, and whether it all healed |

#![forbid(unsafe_code)]

pub mod chaos;
pub mod demo;
pub mod fleet;
pub mod load;
