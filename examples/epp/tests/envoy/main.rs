//! The picker behind a real Envoy, in front of pods that echo and of simulated engines. Left out where there is no `envoy`.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

mod clients;
mod data_plane;
mod echo_pod;
mod endings;
mod engines;
mod envoy;
mod faults;
mod flow_control;
mod passing;
mod picker_server;
mod raw_pod;
mod scene;
mod tls;
