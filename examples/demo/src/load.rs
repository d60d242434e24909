//! Clients: conversations over real HTTP, and what they saw.
//!
//! A [`Workload`] says what is asked, as a function of a seed; [`drive`] asks it of a gateway, many conversations at
//! once, and a [`Tally`] adds up what came back. The rule that must never break: every request that began ends exactly
//! once, as a whole answer or as a failure with a name; the [`Ledger`] finds any that did not.

mod body;
mod client;
mod drive;
mod failure;
#[cfg(test)]
mod fake;
mod ledger;
mod script;
mod stream;
mod tally;
mod workload;

pub use body::{Message, chat};
pub use client::{Answer, Client};
pub use drive::{Drive, Ended, Expect, drive};
pub use failure::Failure;
pub use ledger::{Audit, Ledger, RequestId};
pub use script::{Script, Turn};
pub use stream::{Reading, Usage};
pub use tally::{Tally, percentile};
pub use workload::{Shape, Span, Workload};
