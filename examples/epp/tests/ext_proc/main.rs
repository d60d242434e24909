//! The picker as Envoy sees it, message by message, without an Envoy.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

mod answers;
mod destinations;
mod fixture;
mod flow_control;
mod hostile;
mod requests;
mod sessions;
