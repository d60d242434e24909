//! The picker as Envoy sees it, message by message, without an Envoy.

mod answers;
mod destinations;
mod fixture;
mod flow_control;
mod hostile;
mod requests;
