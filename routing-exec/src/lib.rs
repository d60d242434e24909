//! Execution layer of Pointsman: dispatches a routing plan over the caller's HTTP client.
//!
//! An [`Executor`] takes a [`RoutingPlan`](routing_core::RoutingPlan) and a request and returns the streamed response: from
//! one pod, from a prefill pod and then a decode pod, or over more steps. The crate opens no sockets and has no runtime.
//!
//! # Overview
//!
//! - A [`Dispatch`] is one request as a sans-IO state machine: it takes [`Input`]s and returns [`Action`]s. No clock, no I/O,
//!   no futures.
//! - [`Executor`] is the trait that executes dispatches. [`TransportExecutor`] is its stock implementation, over the caller's
//!   [`Transport`] and [`Timer`]: a future, then a body; reading the body drives the dispatch, and dropping either cancels what
//!   is in flight. [`adapter`] has transports for common clients, each behind a feature.
//! - A [`handoff::Handoff`] is a dialect of prefill/decode disaggregation: what an engine's prefill and decode pods are sent.
//! - [`Breakers`] are circuit breakers, published for decisions to leave pods out; a [`RetryBudget`] bounds the retries of all
//!   dispatches together.
//! - [`Hook`]s change requests and responses; a [`DispatchReport`] lists the outcome of every attempt; [`observe`] exports it
//!   to `tracing` and `metrics`.
//! - [`batch::BatchRunner`] executes a batch plan through any [`Executor`].
//!
//! # Guarantees
//!
//! Each is shown by the test of that name, in `tests/`.
//!
//! - A dispatch ends once, releases once what it holds, and retries on no pod that failed it
//!   (`whatever_happens_the_rules_hold_and_the_dispatch_ends`, `whatever_the_order_and_the_policy_the_rules_hold`); two legs'
//!   events may come in any order (`two_legs_at_once_end_as_they_must_in_every_order`).
//! - A complete stream is byte-identical (`a_completed_stream_is_byte_identical`). A truncated one ends with an error event on
//!   its own frame (`a_stream_cut_inside_an_event_ends_with_the_error_on_its_own_frame`); a truncated response of any other kind
//!   never looks complete (`a_whole_answer_cut_short_breaks_off_and_is_never_a_short_success`).
//! - Nothing is retried after the client got a byte (`nothing_is_tried_again_after_the_first_byte`).
//! - When one leg fails the other is cancelled at once (`a_failed_prefill_answers_without_waiting_for_decode`,
//!   `a_failed_decode_answers_without_waiting_for_prefill`).
//! - A client that disconnects is no pod's failure (`a_client_that_leaves_cancels_what_is_under_way_and_charges_nobody`), and a
//!   breaker gets one sample a request (`a_pod_of_two_steps_is_judged_once_and_by_its_worst`).
//! - Only pods of the plan are contacted: a request has a path and no authority, and hosts that a client names, in headers or
//!   in its body, are removed. A body that only engines can parse is rejected
//!   (`a_body_that_only_engines_can_read_is_refused_before_anything_is_sent`).
//! - What was handed off to a pod that may have used it is not handed to another, unless its dialect allows that
//!   (`a_handoff_that_may_have_been_used_is_not_used_again`).
//! - Ten thousand dispatches with random faults each end once, and release everything (`tests/executor_stress.rs`).

#![forbid(unsafe_code)]

mod action;
#[cfg(any(feature = "hyper-util", feature = "reqwest", feature = "tokio", feature = "tower"))]
pub mod adapter;
pub mod batch;
mod breaker;
mod client_fields;
mod dispatch;
mod error;
mod executor;
mod failure;
pub mod handoff;
mod hook;
#[cfg(any(feature = "metrics", feature = "tracing"))]
pub mod observe;
mod policy;
mod report;
pub mod request_body;
mod retry_budget;
mod splitmix64;
mod sse;
mod usage;

pub use action::{Action, AttemptId, BreakerSample, Input, TimerId};
pub use breaker::{Admission, BreakerConfig, Breakers, Permit};
pub use client_fields::{ClientFields, Effect, RestrictedField, UnrestrictedField};
pub use dispatch::{ClientRequest, Dispatch, DispatchConfig};
pub use error::DispatchError;
pub use executor::{
    DispatchBody, DispatchFuture, DispatchHost, Executor, ResponseTruncated, Timer, Transport, TransportError,
    TransportExecutor,
};
pub use failure::{Failure, RetryOn};
pub use hook::{Hook, HookError, Target};
pub use policy::DispatchPolicy;
pub use report::{AttemptOutcome, AttemptRecord, DispatchOutcome, DispatchReport};
pub use retry_budget::RetryBudget;
pub use usage::TokenUsage;
