//! The gateway over real sockets, against pods that answer what a test wrote for them.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

mod apis;
mod cache_audit;
#[cfg(target_os = "linux")]
mod descriptors;
mod drain;
mod event_ingest;
mod fixture;
mod flow_control;
mod limits;
#[cfg(unix)]
mod logs;
mod models;
mod observability;
mod pod_keys;
mod pod_metrics;
#[cfg(feature = "tls")]
mod pod_tls;
mod prefill_decode;
#[cfg(unix)]
mod process;
mod programs;
mod reload;
mod requests;
mod slow_clients;
mod snapshots;
#[cfg(feature = "tls")]
mod tls;
#[cfg(feature = "tokenizers")]
mod tokenizers;
mod traces;
mod uploads;
