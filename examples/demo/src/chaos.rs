//! Chaos test: fault injection under load, then invariant checks.
//!
//! Pods die, hang, restart, forget, move and answer errors; events are lost, duplicated, reordered, corrupted and partitioned;
//! clients leave or read slowly, and the configuration changes, by a [`FaultSchedule`] that is a function of the seed.
//!
//! The run fails if too few requests were answered while a pod could ([`availability`]), or a pod took too long to serve again
//! ([`healing`]). Every request must have ended exactly once, at the pods as well ([`executions`]), no client may have got a truncated
//! answer without an error, the index must equal the pods' caches, nothing may be counted as in flight, and no task or socket may leak.
//!
//! | module | content |
//! |---|---|
//! | `fault_kind`, `fault_schedule` | kinds of faults; when which occurs |
//! | `inject`, `starved`, `sabotage` | doing it; a gateway without descriptors; what is broken on purpose |
//! | `harness`, `run` | the system under test; the run |
//! | `timeline`, `history` | what happened when, on one clock |
//! | `availability`, `healing`, `executions`, `invariants`, `leak_check` | the checks |

mod availability;
mod executions;
mod fault_kind;
mod fault_schedule;
mod harness;
mod healing;
mod history;
mod inject;
mod invariants;
mod leak_check;
mod report;
mod run;
mod sabotage;
mod starved;
mod timeline;

#[cfg(doc)]
use fault_schedule::FaultSchedule;
pub(crate) use run::run;
pub(crate) use sabotage::Sabotage;
pub(crate) use starved::run_gateway;
