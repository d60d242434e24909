//! Execution layer of Pointsman: dispatches a routing plan over the caller's HTTP client.
//!
//! An [`Executor`] takes a [`RoutingPlan`](routing_core::RoutingPlan) and a request and returns the streamed response: from
//! one pod, from a prefill pod and then a decode pod, or over more steps. The crate opens no sockets and has no runtime.
//!
//! # Example
//!
//! A dispatch by hand: it says what to send, and is told what came. [`TransportExecutor`] does the same over an HTTP client.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Instant;
//!
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use routing_core::{PlanStep, Role, RoutingPlan};
//! use routing_exec::handoff::Plain;
//! use routing_exec::{Action, ClientRequest, Dispatch, DispatchConfig, DispatchOutcome, Input};
//!
//! let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
//! let plan = RoutingPlan::new(1, [PlanStep::new("serve", Role::Both, &[index.join("pod-a")?])]);
//! let (parts, body) = Request::post("/v1/completions").body(Bytes::from(r#"{"prompt": "Hi"}"#))?.into_parts();
//! let config = DispatchConfig::new(Arc::new(Plain::default()), Arc::new(()));
//! let mut dispatch = Dispatch::new(config, ClientRequest::new(&parts, body, 7), plan, Vec::new());
//!
//! let now = Instant::now();
//! dispatch.start(now);
//! while let Some(action) = dispatch.next_action() {
//!     match action {
//!         // The pod answers at once.
//!         Action::Send { attempt, .. } => {
//!             dispatch.handle(now, Input::Head(attempt, Response::new(()).into_parts().0));
//!             dispatch.handle(now, Input::Chunk(attempt, Bytes::from("Hello")));
//!             dispatch.handle(now, Input::End(attempt, None));
//!         }
//!         Action::Forward(chunk) => assert_eq!(chunk, "Hello"),
//!         Action::Finish(report) => assert_eq!(report.outcome, DispatchOutcome::Completed(200)),
//!         _ => {} // Timers, load, breakers.
//!     }
//! }
//! assert!(dispatch.is_over());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
//! - An [`AnswerReader`] reads a response as it passes: its tokens, its errors, whether it is whole. Hosts that send requests
//!   themselves judge pods by it as dispatches do.
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
//! - Nothing is retried after the client got a byte (`nothing_is_tried_again_after_the_first_byte`), and it gets none before the first
//!   event of a stream is whole (`half_a_first_event_is_tried_again_and_the_client_sees_none_of_it`).
//! - A request ends by its total timeout, through no fault of a pod (`tests/dispatch/bounds.rs`). What this process lacks is charged to
//!   nobody (`tests/dispatch/local.rs`).
//! - When one leg fails the other is cancelled at once (`a_failed_prefill_answers_without_waiting_for_decode`,
//!   `a_failed_decode_answers_without_waiting_for_prefill`).
//! - A client that disconnects is no pod's failure (`a_client_that_leaves_cancels_what_is_under_way_and_charges_nobody`), and a
//!   breaker gets one sample a request (`a_pod_of_two_steps_is_judged_once_and_by_its_worst`).
//! - Only pods of the plan are contacted: a request has a path and no authority, and hosts that a client names, in headers or
//!   in its body, are removed. A body that only engines can parse is rejected
//!   (`a_body_that_only_engines_can_read_is_refused_before_anything_is_sent`).
//! - What was handed off to a pod that may have used it is not handed to another, unless its dialect allows that
//!   (`a_handoff_that_may_have_been_used_is_not_used_again`).
//! - A pod that is to prefill for itself gets one plain request
//!   (`a_pod_that_is_first_for_both_steps_gets_one_plain_request_in_every_dialect`).
//! - Ten thousand dispatches with random faults each end once, and release everything (`tests/executor/stress.rs`).
//!
//! # Features
//!
//! None is on by default: the crate opens no socket and has no runtime.
//!
//! - `hyper-util`, `reqwest`, `tower`: these clients as a [`Transport`]; TLS of `reqwest` is the caller's to switch on.
//! - `tokio`: its timer as a [`Timer`].
//! - `metrics`, `tracing`: reports of dispatches as metrics and spans.

#![forbid(unsafe_code)]
// On docs.rs each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod action;
#[cfg(any(feature = "hyper-util", feature = "reqwest", feature = "tokio", feature = "tower"))]
pub mod adapter;
mod answer;
pub mod batch;
mod breaker;
mod byte_search;
mod client_fields;
mod dispatch;
mod error;
mod error_body;
mod executor;
mod failure;
mod gathered;
pub mod handoff;
mod hook;
#[cfg(any(feature = "metrics", feature = "tracing"))]
pub mod observe;
mod policy;
mod read_body;
mod report;
pub mod request_body;
mod retry_budget;
mod setters;
mod splitmix64;
mod sse;
mod usage;

pub use action::{Action, AttemptId, BreakerSample, Input, TimerId};
pub use answer::AnswerReader;
pub use breaker::{
    Admission, BreakerCause, BreakerChange, BreakerConfig, BreakerState, BreakerStatus, Breakers, BreakersId, Permit,
};
pub use client_fields::{ClientFields, Effect, RestrictedField, UnrestrictedField};
pub use dispatch::{ClientRequest, Dispatch, DispatchConfig};
pub use error::{DispatchError, anthropic_error};
pub use error_body::error_body;
pub use executor::{
    Deadlines, DispatchBody, DispatchFuture, DispatchHost, Executor, ResponseTruncated, Timer, Transport,
    TransportError, TransportExecutor,
};
pub use failure::{Failure, RetryOn};
pub use gathered::GatheredBody;
pub use hook::{Hook, HookError, Target};
pub use policy::DispatchPolicy;
pub use read_body::ReadBody;
pub use report::{AttemptOutcome, AttemptRecord, DispatchOutcome, DispatchReport};
pub use retry_budget::RetryBudget;
pub use usage::TokenUsage;
