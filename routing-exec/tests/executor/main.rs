//! The executor over pods that act by virtual time, and its adapters over real sockets.

#[path = "../executor_world/mod.rs"]
mod executor_world;
mod flow;
mod http;
mod legs;
mod observe;
mod recording;
mod request_body;
mod stress;
