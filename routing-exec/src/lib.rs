//! How is a plan carried out?
//!
//! This is the execution layer of Pointsman: it takes a [`RoutingPlan`](routing_core::RoutingPlan) and carries it out, on
//! one pod or on a prefill pod and then a decode pod, and loses neither a byte nor a share of load when one of them dies.
//! It opens no sockets and has no runtime: it says what to do, and the host's own client does it.
//!
//! # How it fits together
//!
//! - A [`Run`] is one request, as a state machine: told what happened ([`Input`]), it says what to do ([`Action`]). No clock,
//!   no I/O, no futures; a host without futures drives it by hand.
//! - A [`Driver`] does what a run says, over the host's [`Transport`] and [`Timer`]. It is a future and then a body: reading the
//!   body carries the run on, and dropping either cancels all that is under way. [`adapter`] has transports for common
//!   clients, each behind a feature.
//! - A [`handoff::Handoff`] is a dialect: what an engine's prefill pod and decode pod are sent, and how they meet.
//! - [`Breakers`] keep requests away from pods that fail, and publish that for decisions; a [`RetryBudget`] bounds what all
//!   runs together try again.
//! - [`Hook`]s look into a run; a [`Report`] says what became of it, attempt by attempt; [`observe`] hands that to `tracing`
//!   and `metrics`.
//!
//! # Guarantees
//!
//! Each is shown by the test of that name, in `tests/`.
//!
//! - A run ends once, releases once what it holds, and asks no pod again that failed it
//!   (`whatever_happens_the_rules_hold_and_the_run_ends`, `whatever_the_order_and_the_policy_the_rules_hold`); two legs' events
//!   may come in any order (`two_legs_at_once_end_as_they_must_in_every_order`).
//! - A complete stream is byte-identical (`a_completed_stream_is_byte_identical`). One that was cut ends with an error event on
//!   its own frame (`a_stream_cut_inside_an_event_ends_with_the_error_on_its_own_frame`); a whole answer that was cut is never
//!   a short success (`a_whole_answer_cut_short_breaks_off_and_is_never_a_short_success`).
//! - Nothing is tried again after the client had a byte (`nothing_is_tried_again_after_the_first_byte`).
//! - When one leg fails the other is given up at once (`a_failed_prefill_answers_without_waiting_for_decode`,
//!   `a_failed_decode_answers_without_waiting_for_prefill`).
//! - A client that leaves charges nobody (`a_client_that_leaves_cancels_what_is_under_way_and_charges_nobody`), and a pod is
//!   judged once a request (`a_pod_of_two_steps_is_judged_once_and_by_its_worst`).
//! - Only pods of the plan are contacted: a request that is sent has a path and no authority, and what a client says of other
//!   hosts, in headers or in its body, is removed. A body that cannot be read here, but may be by an engine, is refused
//!   (`a_body_that_only_engines_can_read_is_refused_before_anything_is_sent`).
//! - What was handed out for a pod that may have begun with it is not handed to another, unless its dialect says that it may be
//!   (`a_handoff_that_may_have_been_used_is_not_used_again`).
//! - Ten thousand runs with random faults each end once, and everything comes to rest (`tests/driver_stress.rs`).

#![forbid(unsafe_code)]

mod action;
#[cfg(any(feature = "hyper-util", feature = "reqwest", feature = "tokio", feature = "tower"))]
pub mod adapter;
pub mod batch;
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
pub use breaker::{Admitted, BreakerConfig, Breakers, Permit};
pub use budget::RetryBudget;
pub use config::RunConfig;
pub use driver::{BrokenOff, Driver, Execute, Host, RunBody, Timer, Transport, TransportError};
pub use error::RunError;
pub use failure::{Failure, RetryOn};
pub use hook::{Hook, HookError, Target};
pub use record::{AttemptRecord, Fate, Outcome, Report};
pub use run::{ClientRequest, Run, Settings};
