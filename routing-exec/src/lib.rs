//! How is a plan carried out?
//!
//! This is the execution layer of Pointsman: it takes a [`RoutingPlan`](routing_core::RoutingPlan) and carries it out, on
//! one pod or on a prefill pod and then a decode pod, and loses neither a byte nor a share of load when one of them dies.
//! It opens no sockets and has no runtime: it says what to do, and the host's own client does it.

#![forbid(unsafe_code)]

mod action;
#[cfg(any(feature = "hyper-util", feature = "reqwest", feature = "tokio", feature = "tower"))]
pub mod adapter;
mod breaker;
mod budget;
mod config;
mod driver;
mod error;
mod failure;
pub mod handoff;
mod hook;
#[cfg(any(feature = "metrics", feature = "tracing"))]
pub mod observe;
mod record;
mod run;
mod sse;
pub mod upload;

pub use action::{Action, AttemptId, Input, TimerId, Verdict};
pub use breaker::{BreakerConfig, Breakers, Permit};
pub use budget::RetryBudget;
pub use config::RunConfig;
pub use driver::{BrokenOff, Driver, Execute, Host, RunBody, Timer, Transport, TransportError};
pub use error::RunError;
pub use failure::{Failure, RetryOn};
pub use hook::{Hook, HookError, Target};
pub use record::{AttemptRecord, Fate, Outcome, Report};
pub use run::{ClientRequest, Run, Settings};
