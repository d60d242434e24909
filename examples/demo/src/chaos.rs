//! Chaos test: fault injection under load, then invariant checks.
//!
//! Pods die, hang, restart and forget; events are lost, duplicated, reordered and partitioned, by a [`FaultSchedule`] that is a
//! function of the seed. Afterwards every request must have ended exactly once, no client may have got a truncated answer
//! without an error, the index must equal the pods' caches, nothing may be counted as in flight, and no task or socket may leak.

mod fault_schedule;
mod invariants;
mod leak_check;
mod report;
mod run;

#[cfg(doc)]
use fault_schedule::FaultSchedule;
pub(crate) use run::run;
