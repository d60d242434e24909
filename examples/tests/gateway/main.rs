//! The gateway over real sockets, against pods that answer what a test wrote for them.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

mod drain;
mod limits;
mod operators;
mod reload;
mod requests;
mod split;
#[cfg(feature = "tls")]
mod tls;
mod world;
