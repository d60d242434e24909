//! The gateway over real sockets, against pods that answer what a test wrote for them.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

mod cache_audit;
mod drain;
mod event_ingest;
mod fixture;
mod limits;
mod observability;
mod prefill_decode;
#[cfg(unix)]
mod process;
mod reload;
mod requests;
mod slow_clients;
mod snapshots;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tokenizers")]
mod tokenizers;
