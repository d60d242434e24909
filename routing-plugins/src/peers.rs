//! Load sharing between gateways: what a gateway tells its peers of what it sent, and what it makes of what they tell.
//!
//! Gateways that share a fleet know of each other by engines' reports, which come seldom, and by events, which come when blocks are
//! computed. What one decided is told here sooner: what it has in flight to each pod, by how much its decisions lengthened the pod's
//! prefill queue, and which blocks it entered ahead of their events. What a peer has in flight counts as what was sent from
//! here: a report is compared with both, so that a request counts once, whoever sent it.
//!
//! Sans-IO: a host carries [`PeerSummary`]s from one to another, over whatever it has, and passes time.
//!
//! - A **whole** summary, now and then, names every pod; so one that is lost does no harm.
//! - **Changes**, soon after decisions, name the pods that were decided for, and blocks that were entered. They may be lost as well.
//! - **Turns** ([`PeerTurns`]) say where sessions and programs went, so that the next one finds its context whichever gateway it comes to.
//! - A peer is known from its first whole summary. An older sequence number changes nothing, nor does a pod that is not known
//!   here. A peer that is silent for long is forgotten, and what it had in flight is what reports say of it.
//!
//! # Examples
//!
//! ```
//! use std::sync::Arc;
//! use std::time::{Duration, Instant};
//!
//! use kv_index::{BlockSize, Config, Index};
//! use routing_plugins::load::Work;
//! use routing_plugins::peers::{GatewayId, SummaryScope};
//! use routing_plugins::{Hashing, PluginState};
//!
//! let size = BlockSize::new(16).expect("not zero");
//! let gateway = || <PluginState>::new(Arc::new(Index::new(Config::default())), Hashing::Native(size));
//! let (one, other, now) = (gateway(), gateway(), Instant::now());
//! // Pods are told by name: ids may differ.
//! other.index.join("b")?;
//! let (here, there) = (one.index.join("a")?, other.index.join("a")?);
//!
//! let guard = one.load.begin(here, Work::of(1_000));
//! let told = one.tell_peers(GatewayId::new(1), SummaryScope::Whole, now).expect("a whole summary is never empty");
//! other.hear_peer(GatewayId::new(2), &told, now)?;
//! assert_eq!(other.load.in_flight(there.id()).uncached_tokens, 1_000);
//! assert_eq!(other.peers.in_flight(there), other.load.in_flight(there.id()), "none of it was sent from there");
//!
//! other.forget_silent_peers(now + Duration::from_secs(9), Duration::from_secs(2));
//! assert_eq!(other.load.in_flight(there.id()).requests, 0);
//! # drop(guard);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod decisions;
mod exchange;
mod outbox;
mod summary;
mod table;
mod turns;

use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use self::decisions::Decisions;
use self::table::Table;

pub(crate) use self::outbox::Outbox;
pub use self::summary::{FreshBlocks, GatewayId, PeerSummary, PodSummary, SummaryScope};
pub use self::table::{PeerIgnored, PeerStats};
pub use self::turns::{PeerTurn, PeerTurns, TurnOf};

/// What peers told, and what they are to be told; owned by the host, in a [`PluginState`](crate::PluginState).
///
/// Where nobody is told anything, it costs a decision one look.
#[derive(Debug, Default)]
pub struct Peers {
    decisions: Decisions,
    sequence: AtomicU64,
    /// Messages of turns that were told.
    turns: AtomicU64,
    table: Mutex<Table>,
}

#[cfg(test)]
mod tests;
