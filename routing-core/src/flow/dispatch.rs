//! Late binding: requests leave the queue when the pod that they are decided for has room.
//!
//! A request is decided over the whole fleet, and goes if the plan's pods have room. If they have none, it waits for them, since most of
//! its prompt may be cached there, and others go meanwhile (delay scheduling). After [`affinity_wait`](FlowConfig::affinity_wait) it
//! is decided among the pods that have room.

use std::time::Instant;

use kv_index::{Pod, PodId, PodSet};

use super::{FlowControl, FlowQueue, FlowTrace, Taken, Ticket, Waited};
use crate::error::DecideError;
use crate::fleet::Fleet;

/// The pods that a request may go to, for [`RoutingInput`](crate::RoutingInput).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Room<const W: usize> {
    /// Pods that are not to be considered: those without room, once the request waited long enough for its own.
    pub excluded: PodSet<W>,
    /// Pods that have room: a plan for others is none.
    pub pods: PodSet<W>,
}

impl<const W: usize> Room<W> {
    /// Whether a pod has room.
    #[must_use]
    pub fn has(&self, pod: Pod) -> bool {
        self.pods.contains(pod.id())
    }
}

/// What became of a request that could leave.
#[derive(Debug)]
#[non_exhaustive]
pub enum Dispatched<T, D> {
    /// It goes.
    Goes {
        /// The request.
        taken: Taken<T>,
        /// What was decided.
        decided: D,
        /// Why it waited.
        trace: FlowTrace,
    },
    /// No pod can ever have it as the fleet is, or a plugin failed.
    Fails {
        /// What was put into the queue.
        item: T,
        /// Why.
        error: DecideError,
    },
}

impl<T> FlowQueue<T> {
    /// Lets one request go, if one can: call it until none does, whenever pods may have room.
    ///
    /// `decide` makes a plan for a request, by [`RoutingInput::excluding`](crate::RoutingInput::excluding) and
    /// [`RoutingInput::with_room`](crate::RoutingInput::with_room), and counts it towards the pods' load before the next is asked for.
    pub fn dispatch<D, const W: usize>(
        &mut self,
        control: &FlowControl<W>,
        fleet: &Fleet<W>,
        now: Instant,
        mut decide: impl FnMut(&T, Room<W>) -> Result<D, DecideError>,
    ) -> Option<Dispatched<T, D>> {
        if self.is_empty() {
            return None;
        }
        let mut rooms = Rooms { control, fleet, now, known: Vec::new() };
        let round = self.begin_round();
        for _ in 0..self.config().lookahead {
            let (ticket, room) = self.next_to_try(round, &mut rooms)?;
            match decide(self.item(ticket)?, room) {
                Ok(decided) => {
                    let trace = self.trace(ticket, now, !room.excluded.is_empty())?;
                    let taken = self.take(ticket, now)?;
                    return Some(Dispatched::Goes { taken, decided, trace });
                }
                Err(DecideError::NoRoom { pod, .. }) => self.keep(ticket, round, Some(pod), Waited::Affinity),
                // Perhaps one of those without room would do.
                Err(error) if error.is_for_want_of_pods() && room.pods != fleet.pods() => {
                    self.keep(ticket, round, None, Waited::Saturated);
                }
                Err(error) => return self.remove(ticket).map(|item| Dispatched::Fails { item, error }),
            }
        }
        None
    }

    /// The next request of a round that could go, and where to.
    fn next_to_try<const W: usize>(&self, round: u64, rooms: &mut Rooms<'_, W>) -> Option<(Ticket, Room<W>)> {
        let (now, patience) = (rooms.now, self.config().affinity_wait);
        self.in_order().find_map(|waiting| {
            let state = self.state(waiting.ticket)?;
            let room = (state.tried != round).then(|| rooms.at(waiting.ceiling)).filter(|room| !room.is_empty())?;
            let is_patient = now.saturating_duration_since(waiting.came) < patience;
            let none = PodSet::EMPTY;
            match state.wants {
                _ if !is_patient => Some(Room { excluded: rooms.fleet.pods() - room, pods: room }),
                Some(pod) if !room.contains(pod) => None,
                _ => Some(Room { excluded: none, pods: room }),
            }
            .map(|room| (waiting.ticket, room))
        })
    }
}

/// Which pods have room, by ceiling; worked out once a round.
struct Rooms<'f, const W: usize> {
    control: &'f FlowControl<W>,
    fleet: &'f Fleet<W>,
    now: Instant,
    known: Vec<(f32, PodSet<W>)>,
}

impl<const W: usize> Rooms<'_, W> {
    fn at(&mut self, ceiling: f32) -> PodSet<W> {
        if let Some((_, room)) = self.known.iter().find(|(known, _)| *known == ceiling) {
            return *room;
        }
        let room = self.control.with_room(self.fleet, ceiling, self.now);
        self.known.push((ceiling, room));
        room
    }
}

/// What is known of a request that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitState {
    /// The pod that it was decided for last.
    pub(super) wants: Option<PodId>,
    pub(super) why: Waited,
    /// The round in which it was tried last.
    pub(super) tried: u64,
    /// Requests that waited when it came.
    pub(super) ahead: usize,
}
