//! How is a whole batch carried out?
//!
//! A [`BatchRunner`] takes a [`BatchPlan`](routing_core::batch::BatchPlan) and sends its requests, each pod's in the order of
//! the plan and no more at once than the pod is to have. It is a stream that the host polls: it starts nothing of its own, and
//! dropping it cancels what is under way.
//!
//! The rule that must never break: every request of the batch has one result, neither none nor two, whatever pods and
//! processes do in between. A [`Journal`](journal::Journal) keeps that across a killed process.
//!
//! # Guarantees
//!
//! Each is shown by the test of that name, in `tests/batch.rs`, `tests/batch_admit.rs`, `tests/batch_pods.rs`,
//! `tests/batch_resume.rs` and `tests/batch_sizes.rs`.
//!
//! - No pod has more requests, or more tokens of them, under way than its bound (`no_pod_has_more_than_its_bound`).
//! - A pod is begun nothing on that the host does not admit, and asked again later
//!   (`what_the_host_does_not_admit_waits_and_is_asked_again`).
//! - A pod's requests are begun in the plan's order (`requests_are_begun_in_the_order_of_the_plan`); a cohort's others wait
//!   for its first one's answer if they are told to (`a_cohort_waits_for_its_first_answer_and_others_pass_it`).
//! - A request that fails for good is a result with its error (`what_fails_for_good_is_a_result`).
//! - What a dead pod had left is planned anew and done once (`a_dead_pods_remainder_is_done_by_the_others_once`).
//! - What only a pod has room for that is dead and looked after waits for it
//!   (`what_only_a_pod_that_is_away_has_room_for_waits_for_it`), as long as there is patience
//!   (`patience_ends_for_a_pod_that_stays_away`).
//! - After an error nothing is sent, and no share of a pod's load is held (`after_an_error_nothing_is_held_and_nobody_is_asked`).
//! - A consumer that takes no results stops new sends (`a_consumer_that_stops_stops_the_sends`); results in order hold no more
//!   memory than results as they come (`in_order_holds_no_more_than_its_window`).
//! - A killed run goes on where it was, and all results together are those of a run that was not
//!   (`killed_anywhere_and_resumed_it_is_as_if_it_had_not_been`).
//!
//! # What it does not do yet
//!
//! Work does not move between pods that live: one that has done its part early is idle until the others are done.
//! [`BatchQueues`](routing_core::batch::BatchQueues) moves it, in simulations so far; here lists are this crate's own, since
//! cohorts may wait for their first answer.

mod backoff;
mod bells;
mod board;
mod config;
mod error;
mod flight;
pub mod journal;
mod lane;
mod progress;
mod ready;
mod result;
mod runner;
mod work;

pub use config::{BackOff, BatchRunConfig, Bound, Lead, Order};
pub use error::BatchError;
pub use progress::{BatchProgress, PodProgress};
pub use result::{BatchAnswer, BatchFailure, BatchResult, BatchUsage};
pub use runner::BatchRunner;
pub use work::{BatchHold, BatchWork, Size};
