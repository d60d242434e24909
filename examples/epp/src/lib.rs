//! An endpoint picker for Envoy: an `ext_proc` server in front of a [`Router`](pointsman::Router), with llm-d's own configuration.

pub mod discovery;
pub mod picker_config;
