//! The picker as Envoy sees it, message by message, without an Envoy.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

mod answers;
mod client_fields;
mod destinations;
mod fixture;
mod flow_control;
mod hostile;
mod learned;
mod metrics_page;
mod model_names;
mod requests;
mod sessions;
