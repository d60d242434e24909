//! Flow control: requests wait before the decision while no pod has room, and leave in fair order.
//!
//! ```text
//!  admit ── nothing waits, its pod has room ──────────────────────────▶ Prepared
//!     └──── Gate: FlowQueue ── pump, whenever a pod is further ──▶ decide ──▶ wakes the request
//! ```
//!
//! The rules: whoever waits is woken once, with a plan or an error; whoever leaves is out of the queue at once; a request that goes
//! counts on its pods from then on, before the next is let go: room is looked at and taken under one lock, whoever comes at the same time. While
//! nothing waits, the gate costs one atomic read, and that lock for a look at the chosen pod.

mod charge;
mod gate;
mod guard;
mod waiter;
mod waiting_count;

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use kv_index::DEFAULT_POD_WORDS;
use routing_core::flow::{FlowConfigError, FlowControl, FlowTrace};
use routing_core::{RoutingPlan, Trace};
use routing_plugins::PluginState;

use crate::execute::Prepared;
use crate::open_turn::OpenTurn;
use crate::reserved::Reserved;
use crate::router::Live;

pub(crate) use self::charge::OpenCharge;
pub(crate) use self::gate::{Gate, Patience};
pub use self::guard::AttemptGuard;
pub(crate) use self::guard::PrefillLeg;

/// Who a request is of, and how urgent it is: see [`LlmRequest::classify`](crate::LlmRequest::classify).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowClass {
    /// Which band it falls into.
    pub priority: i32,
    /// Who shares fairly with others: a tenant, a user, an adapter.
    pub key: Arc<str>,
    /// When its answer is of no use any more.
    pub deadline: Option<Instant>,
}

impl FlowClass {
    /// A request of a priority, by a key.
    pub fn new(priority: i32, key: impl Into<Arc<str>>) -> Self {
        Self { priority, key: key.into(), deadline: None }
    }

    /// The same with a deadline.
    #[must_use]
    pub fn deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }
}

/// A request that was let go.
#[derive(Debug)]
#[non_exhaustive]
pub struct Admitted<const W: usize = DEFAULT_POD_WORDS> {
    /// Its dispatch.
    pub prepared: Prepared<W>,
    /// The decision's reasons, if they were asked for.
    pub trace: Option<Trace<W>>,
    /// What flow control did to it, where there is some.
    pub flow: Option<FlowTrace>,
}

/// What waits of a band, and of the keys in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BandStatus {
    /// Its name.
    pub name: Arc<str>,
    /// Its priority.
    pub priority: i32,
    /// Requests that wait.
    pub requests: usize,
    /// Tokens that serving them takes.
    pub tokens: u64,
    /// Bytes that they keep: of their bodies and of their prompts' tokens.
    pub bytes: u64,
    /// The keys that wait, with their requests: those with the most first, as many as were asked for.
    pub keys: Vec<(Arc<str>, usize)>,
}

/// Makes flow control over what plugins share.
pub(crate) type MakeFlowControl<const W: usize> =
    Box<dyn Fn(&PluginState<W>) -> Result<FlowControl<W>, FlowConfigError> + Send + Sync>;

/// A plan, and what counts it.
pub(crate) struct Decided<const W: usize> {
    pub(crate) live: Arc<Live<W>>,
    pub(crate) plan: RoutingPlan,
    pub(crate) at: Instant,
    pub(crate) trace: Option<Trace<W>>,
    pub(crate) flow: Option<FlowTrace>,
    pub(crate) reserved: Reserved<W>,
    pub(crate) turn: Option<OpenTurn<W>>,
    /// Dropped last: who is let go instead finds the room.
    pub(crate) charge: Option<OpenCharge<W>>,
}

impl<const W: usize> fmt::Debug for Decided<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decided").field("plan", &self.plan).field("flow", &self.flow).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
