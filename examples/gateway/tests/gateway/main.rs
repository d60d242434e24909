//! The gateway over real sockets, against pods that answer what a test wrote for them.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

mod client_side;
mod drain;
mod internal;
mod limits;
mod operators;
#[cfg(unix)]
mod process;
mod reload;
mod requests;
mod snapshots;
mod split;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tokenizers")]
mod tokenizers;
mod world;
