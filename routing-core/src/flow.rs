//! Flow control: a sans-IO queue of requests before the decision, with priority bands and fair queueing.
//!
//! Engines queue what they are given in the order in which it comes. Whoever sends them more than they can begin gives the order
//! out of hand, and binds each request to a pod long before it is begun. So when the fleet is saturated, requests wait in a
//! [`FlowQueue`] instead. [`SaturationDetector`]s say which pods have room, and [`FlowQueue::dispatch`] lets requests go to them in
//! order: the pod is chosen when a request leaves, with the index as it is then.
//!
//! | what | rule |
//! |---|---|
//! | bands | the highest [`priority`](BandConfig::priority) first, but for bands that are owed their [`min_share`](BandConfig::min_share) of the tokens |
//! | keys within a band | start-time fair queueing by tokens served: who had the fewest, by [weight](FlowConfig::weights), is next |
//! | requests of a key | by [arrival, deadline, size or attained service](FlowOrder), with aging |
//! | room | a band fills pods up to its [`ceiling`](BandConfig::ceiling), a key with more than its share in flight up to what the [`headroom`](BandConfig::headroom) leaves |
//! | bounds | requests, tokens and bytes, of a band and of all; when they are reached, whoever waits with the most loses its last |
//!
//! Nobody starves: in a band, a key that waits is charged nothing and comes first sooner or later; a band with a share is owed ever
//! more. A band without one waits as long as those above it keep coming, and its time to live ends that.
//!
//! The rule that must never break: what is in the queue is taken, shed or removed, once
//! (`tests/flow`, against a literal model).

mod band;
mod config;
mod dispatch;
mod in_service;
mod order;
mod owed;
mod queue;
mod rate;
mod request;
mod saturation;
mod shed;

pub use config::{BandConfig, FlowConfig, FlowConfigError, FlowFault, QueueLimits};
pub use dispatch::{Dispatched, Room, Wanted};
pub use order::{FlowOrder, ServiceLevels};
pub use queue::{FlowQueue, Pushed};
pub use request::{Charge, FlowRequest, FlowTrace, ProgramStanding, Taken, Ticket, Waited, Waiting};
pub use saturation::{FlowControl, SaturationDetector};
pub use shed::{Shed, ShedReason};
