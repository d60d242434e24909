//! An endpoint picker for Envoy: an `ext_proc` server in front of a [`Router`](pointsman::Router), with llm-d's own configuration.
//!
//! [`Picker`] is what all requests share, [`ExtProc`] the gRPC service; the program `epp` puts both together.

pub mod discovery;
mod endpoints;
mod exchange;
pub mod headers;
mod kv_events;
mod messages;
mod metadata;
mod metrics;
mod picker;
pub mod picker_config;
mod scrape;
mod server;

pub use endpoints::Endpoints;
pub use kv_events::{FollowingPods, follow_pods};
pub use metrics::Metrics;
pub use picker::{Objectives, Picker, PickerOptions};
pub use scrape::{Figures, Scrape};
pub use server::ExtProc;
