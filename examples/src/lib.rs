//! Parts that the example programs are made of.
//!
//! | module | idea |
//! |---|---|
//! | [`gateway`] | a gateway: HTTP in front, pods behind, profiles and fleet from a file, events from several sources |
//! | [`sim`] | simulated pods: HTTP servers with a paged cache, costs and events like vLLM's, and faults on demand |
//! | [`reporter`] | a worker's end of event sources that are pushed to: evictions never lost in silence |
//! | [`wire`] | what reporters and gateways say to each other |
//! | [`text`] | words to tokens, for models that exist only here |
//! | [`load`] | clients: conversations over real HTTP, and what they saw |
//! | [`demo`] | the first command: three profiles, one workload, a table |
//! | [`batch`] | a file of requests, planned as a whole and carried out |
//! | [`chaos`] | load while everything breaks, and whether it all healed |
//! | [`simulate`] | routing on real traffic, in virtual time |
//! | [`replay`] | a whole fleet in one thread, seeded, index against engines |
//! | [`paged`], [`progress`] | a pod's memory; a progress bar |

#![forbid(unsafe_code)]

pub mod batch;
pub mod chaos;
pub mod demo;
pub mod gateway;
pub mod load;
pub mod paged;
pub mod progress;
pub mod replay;
pub mod reporter;
pub mod sim;
pub mod simulate;
mod sockets;
pub mod text;
pub mod wire;

/// The README's example is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[derive(Debug)]
pub struct Readme;
