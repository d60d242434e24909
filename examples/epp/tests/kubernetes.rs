//! Discovery by the Kubernetes API against an API server of ours that plays answers from files (`recorded.rs` says where they come from), and the manifests of `deploy/`.

#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

#[cfg(feature = "kube")]
#[path = "kubernetes/api_server.rs"]
mod api_server;
#[cfg(feature = "kube")]
#[path = "kubernetes/failures.rs"]
mod failures;
#[path = "kubernetes/manifests.rs"]
mod manifests;
#[cfg(feature = "kube")]
#[path = "kubernetes/model.rs"]
mod model;
#[cfg(feature = "kube")]
#[path = "kubernetes/model_rewrites.rs"]
mod model_rewrites;
#[cfg(feature = "kube")]
#[path = "kubernetes/objectives.rs"]
mod objectives;
#[cfg(feature = "kube")]
#[path = "kubernetes/recorded.rs"]
mod recorded;
