//! Flow control in a simulation: who requests are of, and the queue before the router.

use std::sync::Arc;
use std::time::{Duration, Instant};

use routing_core::DecideError;
use routing_core::flow::{Charge, Dispatched, FlowQueue, FlowRequest, Room, Shed};
use routing_plugins::flow::FlowDocument;

use crate::SimulateError;
use crate::router::{RouteDecision, Router};

/// Who requests are of: so many classes, each with a share of all conversations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Classes {
    pub(crate) classes: Vec<Class>,
}

#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) key: Arc<str>,
    pub(crate) priority: i32,
    /// Of all conversations.
    pub(crate) share: f64,
}

impl Classes {
    /// The class of a conversation: always the same, and by shares in the long run.
    pub(crate) fn of(&self, session: u32) -> usize {
        let mixed = u64::from(session).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut left =
            (mixed >> 11) as f64 / (1_u64 << 53) as f64 * self.classes.iter().map(|class| class.share).sum::<f64>();
        let below = |class: &Class| {
            left -= class.share;
            left < 0.0
        };
        self.classes.iter().position(below).unwrap_or(self.classes.len().saturating_sub(1))
    }
}

/// The queue before one router.
#[derive(Debug)]
pub(crate) struct Gate {
    queue: FlowQueue<u32>,
    origin: Instant,
    /// Whether somebody is to be woken for it.
    pub(crate) is_watched: bool,
}

/// A request that goes.
#[derive(Debug)]
pub(crate) struct Passed {
    pub(crate) place: u32,
    pub(crate) decision: RouteDecision,
    pub(crate) charge: Charge,
}

impl Gate {
    pub(crate) fn new(document: &FlowDocument, origin: Instant) -> Result<Self, SimulateError> {
        let queue =
            FlowQueue::new(document.config()).map_err(|error| SimulateError::flag("flow", error.to_string()))?;
        Ok(Self { queue, origin, is_watched: false })
    }

    /// A request comes; returns those that are shed for it, or itself.
    pub(crate) fn push(&mut self, now: u64, place: u32, class: Option<&Class>, prompt: u32, answer: u64) -> Vec<u32> {
        let band = self.queue.band_of(class.map_or(i32::MAX, |class| class.priority));
        let key = class.map_or_else(|| "".into(), |class| Arc::clone(&class.key));
        let request = FlowRequest::new(band, key, u64::from(prompt) + answer).prompt_tokens(prompt.into());
        let pushed = self.queue.push(request, place, self.at(now));
        pushed.displaced.into_iter().chain(pushed.ticket.err()).map(|shed| shed.item).collect()
    }

    /// Those whose time is over.
    pub(crate) fn expire(&mut self, now: u64) -> Vec<u32> {
        let now = self.at(now);
        std::iter::from_fn(|| self.queue.expire(now)).map(|Shed { item, .. }| item).collect()
    }

    /// When the next time is over, in virtual µs.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        let expiry = self.queue.next_expiry()?.saturating_duration_since(self.origin);
        // One more: what is due is due.
        Some(expiry.as_micros() as u64 + 1)
    }

    /// Lets one go, if one can.
    pub(crate) fn dispatch(
        &mut self,
        now: u64,
        router: &mut Router,
        mut decide: impl FnMut(&mut Router, u32, &Room<'_>) -> Result<RouteDecision, DecideError>,
    ) -> Option<Result<Passed, u32>> {
        let control = router.flow_control()?;
        let (fleet, now) = (router.fleet(), self.at(now));
        let went = self.queue.dispatch(&control, &fleet, now, |place, room| decide(router, *place, room))?;
        Some(match went {
            Dispatched::Goes { taken, decided, .. } => {
                Ok(Passed { place: taken.item, decision: decided, charge: taken.charge })
            }
            Dispatched::Fails { item, .. } => Err(item),
            _ => return None,
        })
    }

    /// A request was answered, and took so many tokens.
    pub(crate) fn served(&mut self, charge: &Charge, tokens: u64) {
        self.queue.served(charge, tokens);
    }

    fn at(&self, now: u64) -> Instant {
        self.origin + Duration::from_micros(now)
    }
}
