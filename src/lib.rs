//! Front door of Pointsman: routes LLM requests to the GPU pods that hold their KV cache.
//!
//! ```
//! use std::time::Instant;
//!
//! use pointsman::prelude::*;
//!
//! let router = Router::builder("llama-8b").block_size(16).pod(PodSpec::new("a", "10.0.0.5:8000")).tokens_given().build()?;
//! let prompt: Vec<u32> = (0..512).collect();
//! let mut routed = router.route(&router.request(Instant::now()).tokens(&prompt))?;
//! let (pod, address) = routed.candidates(0).next().expect("a plan has pods");
//! let attempt = routed.begin(0, pod)?;
//! assert_eq!(address, "10.0.0.5:8000");
//! attempt.succeeded();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Overview
//!
//! - A [`Router`] is one model: index, plugin state, fleet, workflow, circuit breakers, retry budget, load tracking. Model name,
//!   block size and hashing are said once, in its [`RouterBuilder`].
//! - [`Router::route`] gives a plan with guards that count loads, for hosts that dispatch by themselves; [`Router::execute`] the
//!   streamed answer over any [`Executor`](exec::Executor); `RouterService` is a tower service for one model or several.
//! - Pods join, change and leave by [`Router::apply`], [`Router::join`] and [`Router::leave`] while requests are served; profiles and
//!   execution settings are replaced with them, all at once or not at all.
//! - `Router::feed` takes an engine's events; `zmq` follows its sockets.
//! - [`RouterBuilder::flow_control`] has requests wait in fair order while no pod has room; [`Router::admit`] waits for that.
//! - [`Router::tell_peers`] and [`Router::hear_peer`] let gateways of one fleet know at once what each of them sent where.
//! - [`Router::tick`] is the housekeeping; [`Router::diagnosis`] says what is probably wrong, after about 30 s of traffic.
//!
//! The four crates are re-exported by short paths: [`index`], [`core`], [`plugins`], [`exec`].
//!
//! # Features
//!
//! None is on by default, and without any there is no runtime, no socket, no serde.
//!
//! - `hyper-util`: the stock stack over hyper-util's client, and HTTP health checks; `reqwest`: a transport over it.
//! - `discovery`: pods from a file or from DNS, as they change.
//! - `tokio`: housekeeping as a task; `tower`: the service in front; `zmq`: engines' events over ZeroMQ, bounded.
//! - `engine`, `vllm`, `sglang`, `trtllm`: engines' events, and prompts hashed as they do.
//! - `tokenizers` (needs Rust 1.89), `chat`: prompts as tokens, from the bodies of requests.
//! - `serde`: profiles as documents; `metrics`, `tracing`: observers.

#![forbid(unsafe_code)]
// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer_learning;
mod api_error;
mod cache_audit;
mod diagnosis;
#[cfg(feature = "discovery")]
mod discovery;
mod engine_metrics;
mod execute;
mod flow_control;
#[cfg(feature = "hyper-util")]
mod health;
mod host;
#[cfg(feature = "tokio")]
mod housekeeping;
#[cfg(feature = "hyper-util")]
mod hyper_service;
mod llm_request;
mod log;
mod model;
#[cfg(all(feature = "chat", feature = "tokenizers"))]
mod model_files;
mod model_list;
mod observations;
mod open_turn;
mod pace_samples;
mod peer_message;
mod pod_key;
mod pod_registry;
mod pod_spec;
mod profile;
mod prompt_size;
mod request_encoding;
mod reserved;
mod routed;
mod router;
#[cfg(feature = "tower")]
mod service;
#[cfg(feature = "tower")]
mod uploads;
mod version_cell;
mod watched_answer;
#[cfg(feature = "zmq")]
pub mod zmq;

use std::sync::Arc;
use std::time::Instant;

pub use kv_index as index;
pub use routing_core as core;
pub use routing_exec as exec;
pub use routing_plugins as plugins;

pub use api_error::ApiError;
pub use cache_audit::{Audited, AuditedPrompt, CacheAccuracy, CacheAudit, Cause, ChangeLog, Expectation, Observation};
pub use diagnosis::{Finding, FindingKind};
#[cfg(feature = "discovery")]
pub use discovery::{Discovering, Discovery, DnsPods, FileError, FilePods, StaticPods};
pub use engine_metrics::{EngineAdapters, engine_adapters, engine_cache, engine_load};
pub use execute::{AnswerBody, Prepared, ensure_request_id};
pub use flow_control::{Admitted, AttemptGuard, BandStatus, FlowClass};
#[cfg(feature = "hyper-util")]
pub use health::{Health, HealthCheck, HealthChecks, HttpHealth};
pub use host::RouterHost;
#[cfg(feature = "tokio")]
pub use housekeeping::Housekeeping;
#[cfg(feature = "hyper-util")]
pub use hyper_service::HyperExecutor;
pub use llm_request::{LlmRequest, RequestFields};
pub use model::NamedModel;
#[cfg(all(feature = "chat", feature = "tokenizers"))]
pub use model_files::{ModelFileError, tokenizer_files};
pub use model_list::{model_list, model_object, model_of_path};
pub use peer_message::PeerMessageError;
pub use pod_key::{InvalidPodKey, PodKey};
pub use pod_registry::{PodChanges, PodError, RegisteredPod};
pub use pod_spec::PodSpec;
#[cfg(feature = "serde")]
pub use profile::document;
pub use profile::{IntoWorkflow, Profile, ProfileError, named};
pub use request_encoding::check_encoding;
pub use routed::{Attempt, BeginError, Routed};
#[cfg(feature = "engine")]
pub use router::FeedError;
pub use router::{PeerError, RouteError, Router, RouterBuilder, RouterError, RouterFault, RouterUpdate};
#[cfg(feature = "tower")]
pub use service::{BodyLimits, ForeignExecutor, NameTaken, RouterService, requested_model};
#[cfg(feature = "tower")]
pub use uploads::{Upload, UploadLimits, Uploads};
pub use watched_answer::WatchedAnswer;

/// What most embedders name.
pub mod prelude {
    #[cfg(feature = "tower")]
    pub use crate::RouterService;
    pub use crate::core::{Load, Role, Trace};
    pub use crate::exec::{Executor, Transport};
    pub use crate::plugins::{PluginState, profiles};
    pub use crate::{ApiError, Attempt, LlmRequest, PodSpec, Routed, Router, RouterBuilder, RouterUpdate};
}

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;
