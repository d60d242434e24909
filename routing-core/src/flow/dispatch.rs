//! Late binding: requests leave the queue when the pod that they are decided for has room.
//!
//! A request is decided over the whole fleet, and goes if the plan's pods have room. If they have none it waits for them, and others go
//! meanwhile (delay scheduling): to compute again what is cached elsewhere would take from everybody when all are waiting. The host
//! counts it towards that pod's load, so that those who come later see the queue and go elsewhere. It is decided again, with the index
//! and the loads as they are then, when that pod has room, and now and then while others have.

use std::cell::Cell;
use std::time::{Duration, Instant};

use kv_index::{DEFAULT_POD_WORDS, Pod, PodSet};

use super::{FlowControl, FlowQueue, FlowTrace, Taken, Ticket, Waited};
use crate::error::DecideError;
use crate::fleet::{Fleet, Role};
use crate::plan::PlanStep;
use crate::program::ProgramTurn;

/// The pods that have room for a request, for [`RoutingInput::with_room`](crate::RoutingInput::with_room).
#[derive(Debug)]
pub struct Room<'f, const W: usize = DEFAULT_POD_WORDS> {
    control: &'f FlowControl<W>,
    fleet: &'f Fleet<W>,
    now: Instant,
    waited: Duration,
    pods: PodSet<W>,
    wanted: Cell<Option<Wanted>>,
}

/// The pod that a request was decided for, which has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wanted {
    /// The pod.
    pub pod: Pod,
    /// What it was to do.
    pub role: Role,
    /// Leading blocks of the prompt that it holds.
    pub held: usize,
    /// Blocks of the prompt; 0 where nobody looked.
    pub blocks: usize,
    /// The program that the request is a turn of.
    pub program: Option<ProgramTurn>,
    /// How long the request has waited.
    pub waited: Duration,
}

impl Wanted {
    /// A step's first candidate, if it has one.
    #[must_use]
    pub fn of(step: &PlanStep) -> Option<Self> {
        let (pod, program) = (step.candidates.first()?.pod, step.program);
        let (held, blocks) = step.cache.map_or((0, 0), |cache| (cache.held, cache.blocks));
        Some(Self { pod, role: step.role, held, blocks, program, waited: Duration::ZERO })
    }

    /// What it computes of a prompt of so many tokens; all of it where nobody looked.
    pub(super) fn new_tokens(&self, prompt: u64) -> u64 {
        let (held, blocks) = (self.held.min(self.blocks) as u128, self.blocks.max(1) as u128);
        prompt - (u128::from(prompt) * held / blocks) as u64
    }
}

impl<'f, const W: usize> Room<'f, W> {
    /// These pods of a fleet have room, as flow control has it.
    #[must_use]
    pub fn new(control: &'f FlowControl<W>, fleet: &'f Fleet<W>, pods: PodSet<W>, now: Instant) -> Self {
        Self { control, fleet, now, waited: Duration::ZERO, pods, wanted: Cell::new(None) }
    }

    /// The same for a request that has waited for so long.
    #[must_use]
    pub fn waited(self, waited: Duration) -> Self {
        Self { waited, ..self }
    }

    /// Whether a step's first candidate has room for the request. If not, it is [wanted](Self::wanted).
    #[must_use]
    pub fn admits(&self, step: &PlanStep) -> bool {
        let Some(wanted) = Wanted::of(step) else { return true };
        let wanted = Wanted { waited: self.waited, ..wanted };
        let has_room = self.pods.contains(wanted.pod.id()) && self.control.admits(self.fleet, &wanted, self.now);
        if !has_room {
            self.wanted.set(Some(wanted));
        }
        has_room
    }

    /// The pod that had none.
    #[must_use]
    pub fn wanted(&self) -> Option<Wanted> {
        self.wanted.get()
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
    /// No pod can have it as the fleet is, or a plugin failed.
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
    /// `decide` makes a plan for a request, by [`RoutingInput::with_room`](crate::RoutingInput::with_room) of what the room
    /// [admits](Room::admits), and counts the request towards the load of the plan's pods. Where that fails for want of room, it counts
    /// it towards the pod that is [wanted](Room::wanted), until it is asked again; detectors leave that out.
    pub fn dispatch<D, const W: usize>(
        &mut self,
        control: &FlowControl<W>,
        fleet: &Fleet<W>,
        now: Instant,
        mut decide: impl FnMut(&T, &Room<'_, W>) -> Result<D, DecideError>,
    ) -> Option<Dispatched<T, D>> {
        let mut rooms = Rooms { control, fleet, now, known: Vec::new() };
        for (ticket, pods, waited) in self.to_try(&mut rooms) {
            let room = Room::new(control, fleet, pods, now).waited(waited);
            match decide(self.item(ticket)?, &room) {
                Ok(decided) => {
                    let trace = self.trace(ticket, now)?;
                    let taken = self.take(ticket, now)?;
                    return Some(Dispatched::Goes { taken, decided, trace });
                }
                Err(DecideError::NoRoom { .. }) => {
                    let had_room = room.wanted().is_some_and(|wanted| pods.contains(wanted.pod.id()));
                    let why = match pods.is_empty() {
                        true => Waited::Saturated,
                        false if had_room => Waited::Program,
                        false => Waited::Affinity,
                    };
                    let decided = Some((now, fleet.version()));
                    self.keep(ticket, room.wanted(), why, decided);
                }
                Err(error) => return self.remove(ticket).map(|item| Dispatched::Fails { item, error }),
            }
        }
        None
    }

    /// The requests that could go, and the pods that have room for each: those first that were not decided about, or whose pod has room;
    /// then those that waited long enough to be decided about again. No more than the lookahead.
    fn to_try<const W: usize>(&self, rooms: &mut Rooms<'_, W>) -> Vec<(Ticket, PodSet<W>, Duration)> {
        let (now, version) = (rooms.now, rooms.fleet.version());
        let (patience, most) = (self.config().affinity_wait, self.config().lookahead);
        let (mut ready, mut due) = (Vec::new(), Vec::new());
        for waiting in self.in_order() {
            if ready.len() >= most {
                break;
            }
            let Some(state) = self.state(waiting.ticket) else { continue };
            let (room, waited) = (rooms.at(waiting.ceiling), now.saturating_duration_since(waiting.came));
            let is_ready = match state.decided {
                // The fleet is another one: perhaps no pod is left for it.
                Some((_, of)) if of != version => true,
                Some(_) => state.wants.is_some_and(|wanted| {
                    let wanted = Wanted { waited, ..wanted };
                    room.contains(wanted.pod.id()) && rooms.control.admits(rooms.fleet, &wanted, now)
                }),
                None => true,
            };
            // Later than that, lest it is asked for ever.
            let is_due = state.decided.is_some_and(|(at, _)| now > at && now.saturating_duration_since(at) >= patience);
            if is_ready {
                ready.push((waiting.ticket, room, waited));
            } else if is_due && !room.is_empty() && due.len() < most {
                due.push((waiting.ticket, room, waited));
            }
        }
        ready.extend(due);
        ready.truncate(most);
        ready
    }
}

/// Which pods have room, by ceiling; worked out once.
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
    pub(super) wants: Option<Wanted>,
    /// When, and over which version of the fleet.
    pub(super) decided: Option<(Instant, u64)>,
    pub(super) why: Waited,
    /// Requests that waited when it came.
    pub(super) ahead: usize,
}
