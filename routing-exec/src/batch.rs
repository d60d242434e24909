//! Batch execution: sends the requests of a batch plan, within each pod's concurrency limit.
//!
//! A [`BatchRunner`] takes a [`BatchPlan`](routing_core::batch::BatchPlan) and executes its requests through an
//! [`Executor`](crate::Executor), each pod's in the order of the plan. It is a stream that the caller polls: it spawns nothing, and
//! dropping it cancels what is in flight.
//!
//! The rule that must never break: every request of the batch has exactly one result, whatever pods and processes do in between.
//! A [`Journal`](journal::Journal) keeps that across a killed process.
//!
//! # Guarantees
//!
//! Each is shown by the test of that name, in `tests/batch/living.rs`, `admit.rs`, `pods.rs`, `resume.rs`
//! and `sizes.rs` beside it.
//!
//! - No pod has more requests, or more tokens, in flight than its limit (`no_pod_has_more_than_its_bound`).
//! - A request that the source does not admit waits, and admission is consulted again
//!   (`what_the_host_does_not_admit_waits_and_is_asked_again`).
//! - A pod's requests start in the plan's order (`requests_are_begun_in_the_order_of_the_plan`); with leaders first, a cohort waits
//!   for its leader's response (`a_cohort_waits_for_its_first_answer_and_others_pass_it`).
//! - A request that fails for good is a result with its error (`what_fails_for_good_is_a_result`).
//! - Requests of a pod that goes down are replanned, and have one result (`a_dead_pods_remainder_is_done_by_the_others_once`).
//! - Requests that only a pod that is down can hold wait for it (`what_only_a_pod_that_is_away_has_room_for_waits_for_it`), up to
//!   a timeout (`patience_ends_for_a_pod_that_stays_away`).
//! - After an error nothing is sent, and no guard is held (`after_an_error_nothing_is_held_and_nobody_is_asked`).
//! - Backpressure: a consumer that takes no results stops new sends (`a_consumer_that_stops_stops_the_sends`); results by index
//!   need no more memory than results as completed (`in_order_holds_no_more_than_its_window`).
//! - A pod that has begun all its requests takes over others' that are not begun (`who_runs_dry_takes_over_what_is_not_begun`), by
//!   [`BatchQueues`](routing_core::batch::BatchQueues), as simulations do. More urgent ones go first, wherever they are
//!   (`what_is_more_urgent_comes_first_on_every_pod`).
//! - How long answers are is learned (`answers_that_are_shorter_than_expected_let_more_in`), and a pod that says it is overloaded is
//!   given less at a time (`a_pod_that_pushes_back_is_given_less`).
//! - Requests may be added while a batch runs, and after (`requests_that_come_later_are_planned_and_done`).
//! - A killed run is resumed, and all results together are those of a run that was not killed
//!   (`killed_anywhere_and_resumed_it_is_as_if_it_had_not_been`).

mod backoff;
mod config;
mod error;
mod in_flight;
pub mod journal;
mod pod_state;
mod progress;
mod request_states;
mod result;
mod result_queue;
mod runner;
mod source;
mod wakers;

pub use config::{Backoff, BatchRunnerConfig, ResultOrder};
pub use error::BatchError;
pub use progress::{BatchProgress, PodProgress};
pub use result::{BatchFailure, BatchResponse, BatchResult, BatchUsage};
pub use routing_core::batch::{CohortStart, ConcurrencyLimit, RequestSize};
pub use runner::BatchRunner;
pub use source::{BatchGuard, BatchSource};
