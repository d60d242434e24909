//! Events over real sockets on the loopback interface, from a publisher to an index: whatever goes wrong on the way, the index
//! holds in the end what the engine does.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

mod copies;
#[path = "../zmq_engine/mod.rs"]
mod engine;
mod faults;
mod fixture;
mod hostile;
mod random_faults;
mod restarts;
mod salts;
mod shutdown;
