//! Where the index's events come from.
//!
//! A source follows one pod's events, or takes those of many, until it is stopped. The rule that must never break: a source
//! never says that it is live while it knows that something is missing.

#[cfg(feature = "grpc")]
pub mod grpc;
#[cfg(feature = "nats")]
pub mod nats;
pub mod push;
pub mod zmq;
