//! Configuration of a simulated pod, and the faults that can be injected.

use std::net::SocketAddr;
use std::time::Duration;

use kv_index::BlockSize;
use routing_core::Role;

use super::ledger::RequestLedger;

/// How a simulated pod is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PodConfig {
    /// What the fleet calls it.
    pub name: String,
    /// The model it serves, by the name that requests use.
    pub model: String,
    /// What it is asked to do by whoever routes; it does anything.
    pub role: Role,
    /// Where it listens for HTTP. ReservedPort 0 takes a free one.
    pub listen: SocketAddr,
    /// Tokens in a block.
    pub block_size: BlockSize,
    /// Blocks its memory holds.
    pub blocks: u32,
    /// How many times faster than the measured machine it is.
    pub speed: f64,
    /// `PYTHONHASHSEED`: what its block hashes begin with.
    pub hash_seed: String,
    /// How long prefilled blocks wait for the pod that decodes.
    pub lease: Duration,
    /// Batches it keeps for replay.
    pub replay_batches: usize,
    /// Where it notes what it ran; nowhere if unset.
    pub ledger: Option<RequestLedger>,
}

impl PodConfig {
    /// A pod of that name on a free loopback port.
    #[must_use]
    pub fn new(name: &str, model: &str) -> Self {
        Self {
            name: name.to_owned(),
            model: model.to_owned(),
            role: Role::Both,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            block_size: BlockSize::new(16).expect("not zero"),
            blocks: 4096,
            speed: 1.0,
            hash_seed: "0".to_owned(),
            lease: Duration::from_secs(30),
            replay_batches: 10_000,
            ledger: None,
        }
    }
}

/// What can go wrong with a pod, on demand.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fault {
    /// Its sockets close at once, answers under way are cut, its cache is gone. Until [`Fault::Restart`].
    Die,
    /// The same, and back after so many seconds as by [`Fault::Restart`].
    DieFor(f64),
    /// Connections are taken and nothing is answered, streams under way stall. Until [`Fault::Recover`].
    Hang,
    /// Everything takes so many times longer. Until [`Fault::Recover`].
    Slow(f64),
    /// Completions are answered at once with this status, an error, while health is well. Until [`Fault::Recover`].
    Respond(u16),
    /// Every stream under way is cut in the middle of an event, once.
    CutStreams,
    /// The next batches of events, so many, are not published live; a replay has them.
    DropEvents(u32),
    /// The next batches, so many, are published twice.
    DuplicateEvents(u32),
    /// The next two batches are published in the other order.
    ReorderEvents,
    /// The next batches, so many, are published with a payload that is not to be read; a replay has them as they are.
    CorruptEvents(u32),
    /// The next batches, so many, are published in messages larger than any subscriber takes; a replay has them as they are.
    OversizeEvents(u32),
    /// Nothing is published and no replay is answered, until [`Fault::Recover`].
    PartitionEvents,
    /// Back at once with an empty cache, under the same addresses; event numbers begin anew.
    Restart,
    /// As a restart, with another hash seed.
    ChangeHashSeed,
    /// An end to hanging, slowness, errors and partition.
    Recover,
}

impl Fault {
    /// Whether its figure, if it has one, is one that can be done.
    pub(super) fn is_possible(self) -> bool {
        match self {
            Self::Slow(times) => times > 0.0 && times <= MOST,
            Self::Respond(status) => (400..=599).contains(&status),
            Self::DieFor(seconds) => (0.0..=MOST).contains(&seconds),
            _ => true,
        }
    }
}

/// Of times longer, and of seconds.
const MOST: f64 = 1e6;

/// What simulated pods serve.
pub const MODEL: &str = "sim";
