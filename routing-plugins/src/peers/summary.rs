//! What a gateway tells its peers.

use std::fmt;
use std::time::Duration;

use kv_index::{BlockHash, Parent};

use crate::load::InFlight;

/// Who tells. Two gateways of one fleet have different ones, and so has one that was started again: a number drawn at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GatewayId(u64);

impl GatewayId {
    /// A gateway of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for GatewayId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Which pods a summary names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "complete by nature: all of them, or some")]
pub enum SummaryScope {
    /// All; to one that is not named nothing is in flight.
    Whole,
    /// Those that were decided for since the last summary; of others nothing is said.
    Changes,
}

/// What a gateway has in flight, and what it decided since its last summary.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a message, which hosts encode and decode field by field")]
pub struct PeerSummary {
    /// Who tells.
    pub gateway: GatewayId,
    /// Grows from one to the next.
    pub sequence: u64,
    /// Which pods are named.
    pub scope: SummaryScope,
    /// The pods.
    pub pods: Vec<PodSummary>,
    /// Blocks that were entered at pods ahead of their events.
    pub blocks: Vec<FreshBlocks>,
}

/// What a gateway sent to a pod.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a message, which hosts encode and decode field by field")]
pub struct PodSummary {
    /// The pod's name.
    pub name: Box<str>,
    /// What is in flight to it from the gateway.
    pub in_flight: InFlight,
    /// Microseconds by which the gateway lengthened its prefill queue, in all: what is lost is made up for by the next summary.
    pub queued_micros: u64,
}

/// Blocks that a gateway takes a pod to have soon.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "a message, which hosts encode and decode field by field")]
pub struct FreshBlocks {
    /// The pod, by its place in [`PeerSummary::pods`].
    pub pod: u16,
    /// What the first of them follows: a block that the gateway knows the pod to hold, or nothing.
    pub parent: Parent,
    /// The blocks, in the prompt's order.
    pub blocks: Vec<BlockHash>,
    /// How long they are taken to come.
    pub expires_in: Duration,
}
