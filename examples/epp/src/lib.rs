//! An endpoint picker for Envoy: an `ext_proc` server in front of a [`Router`](pointsman::Router), with llm-d's own configuration.
//!
//! [`Picker`] is what all requests share, [`ExtProc`] the gRPC service; the program `epp` ([`Assembly`], [`Program`]) puts both together.
//!
//! | module | idea |
//! |---|---|
//! | `server`, `exchange` | Envoy's external processing: a stream for each request, and what is said to each message |
//! | `client_body`, `model_rewrites`, `answer_model` | what a client's body becomes, which models take the place of others, and the client's name in the answer |
//! | `messages`, `metadata`, `headers` | what goes to Envoy, what comes from it, the names that all agree on |
//! | `picker`, `endpoints`, `saturation`, `metrics` | the router and what is around it: pods by address, a full pool, what was counted |
//! | [`picker_config`] | llm-d's configuration, turned into a workflow of stock plugins |
//! | [`discovery`], `figures`, `kv_events` | which pods there are, what their engines tell, what their caches hold |
//! | `assembly`, `program`, `options`, `foreign_options`, `tls`, `metrics_server`, `followed`, `sidecar` | the program, and files of it that are followed |

mod answer_model;
mod assembly;
mod client_body;
pub mod discovery;
mod endpoints;
mod exchange;
mod figures;
mod followed;
mod foreign_options;
pub mod headers;
mod kv_events;
mod messages;
mod metadata;
mod metrics;
mod metrics_server;
mod model_rewrites;
mod options;
mod picker;
pub mod picker_config;
mod program;
mod saturation;
mod server;
mod sidecar;
mod tls;

pub use assembly::{Assembly, AssemblyError};
pub use endpoints::Endpoints;
pub use figures::Figures;
pub use foreign_options::without_foreign;
pub use kv_events::{EventStatuses, FollowingPods, follow_pods};
pub use metrics::Metrics;
pub use model_rewrites::{ModelRewrites, RewriteRule, RewriteRules};
pub use options::Options;
pub use picker::{Objectives, Picker, PickerOptions};
pub use program::{Addresses, Program};
pub use server::ExtProc;
pub use sidecar::SidecarHandoff;
pub use tls::TlsError;
