//! Where every request of a batch is: with which pod, under way, done.
//!
//! The rule that must never break: a request is in one place, and one that is done stays done.

use std::collections::VecDeque;

use routing_core::Pod;
use routing_core::batch::{BatchPlan, InfeasibleReason};

use super::config::{Bound, Lead};
use super::lane::{Lane, Life, Turn};

/// Where every request of a batch is.
#[derive(Debug)]
pub(super) struct Board {
    places: Vec<Place>,
    pub(super) lanes: Vec<Lane>,
    /// Requests that no pod has: none lived when they were to be planned, or none that lived had room for them.
    loose: Vec<u32>,
    /// Requests that are neither done nor past.
    left: usize,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Loose,
    /// With a pod, by its lane's number, and the tokens that it counts for there.
    Waiting(u16, u64),
    InFlight,
    Done,
    /// Its result was there before.
    Past,
}

impl Board {
    pub(super) fn new(requests: u32) -> Self {
        let places = vec![Place::Loose; requests as usize];
        Self { left: places.len(), places, lanes: Vec::new(), loose: Vec::new() }
    }

    /// A request's result was there before; none that is not of this batch.
    pub(super) fn set_past(&mut self, place: u32) {
        if let Some(state @ Place::Loose) = self.places.get_mut(place as usize) {
            *state = Place::Past;
            self.left -= 1;
        }
    }

    /// A pod takes part; its lane's number, also if it took part before. None if there are too many.
    pub(super) fn join(&mut self, pod: Pod, bound: Bound) -> Option<usize> {
        if let Some(known) = self.lanes.iter().position(|lane| lane.pod == pod) {
            return Some(known);
        }
        let number = self.lanes.len();
        if number > usize::from(u16::MAX) {
            return None;
        }
        self.lanes.push(Lane::new(pod, bound));
        Some(number)
    }

    /// Gives requests to the pods of a plan that live, and says which of `rest` are in none of its cohorts, and why.
    ///
    /// Whatever a plan says, no request is given out twice, and none that is not loose.
    pub(super) fn assign(
        &mut self,
        plan: &BatchPlan,
        rest: &[u32],
        lead: Lead,
        tokens: impl Fn(u32) -> u64,
    ) -> Vec<(u32, Unplanned)> {
        for part in &plan.pods {
            let lane = self.lanes.iter().position(|lane| lane.pod == part.pod && lane.life == Life::Living);
            let Some(number) = lane else { continue };
            for cohort in &part.cohorts {
                let mut given = VecDeque::with_capacity(cohort.requests.len());
                for &place in &cohort.requests {
                    if let Some(state @ Place::Loose) = self.places.get_mut(place as usize) {
                        let tokens = tokens(place);
                        *state = Place::Waiting(number as u16, tokens);
                        self.lanes[number].left += tokens;
                        given.push_back(place);
                    }
                }
                if !given.is_empty() {
                    self.lanes[number].push(given, lead);
                }
            }
        }
        let mut too_long: Vec<u32> = plan
            .infeasible
            .iter()
            .filter(|infeasible| infeasible.why == InfeasibleReason::TooLong)
            .map(|infeasible| infeasible.request)
            .collect();
        too_long.sort_unstable();
        let unplanned = rest.iter().filter(|place| self.places.get(**place as usize) == Some(&Place::Loose));
        unplanned
            .map(|&place| {
                (place, if too_long.binary_search(&place).is_ok() { Unplanned::TooLong } else { Unplanned::Left })
            })
            .collect()
    }

    /// The request whose turn it is with a pod that has room for it.
    pub(super) fn turn(&mut self, lane: usize, tokens: impl Fn(u32) -> u64) -> Option<Turn> {
        let (places, lane) = (&self.places, &mut self.lanes[lane]);
        if lane.life != Life::Living {
            return None;
        }
        let turn = lane.turn(|place| matches!(places[place as usize], Place::Waiting(..)))?;
        lane.has_room(tokens(turn.place)).then_some(turn)
    }

    /// The pod that a request waits for, if it lives and has room: for requests that go ahead of their turn.
    pub(super) fn pod_with_room(&self, place: u32, tokens: u64) -> Option<usize> {
        let Some(Place::Waiting(lane, _)) = self.places.get(place as usize) else { return None };
        let number = usize::from(*lane);
        let lane = &self.lanes[number];
        (lane.life == Life::Living && lane.has_room(tokens)).then_some(number)
    }

    /// A request is sent to a pod, which may be another than it waited for.
    pub(super) fn take_off(&mut self, place: u32, lane: usize, tokens: u64) {
        match std::mem::replace(&mut self.places[place as usize], Place::InFlight) {
            Place::Waiting(waited, counted) => {
                let waited = &mut self.lanes[usize::from(waited)];
                waited.waiting -= 1;
                waited.left -= counted;
            }
            Place::Loose => self.loose.retain(|loose| *loose != place),
            Place::InFlight | Place::Done | Place::Past => debug_assert!(false, "sent twice: {place}"),
        }
        let lane = &mut self.lanes[lane];
        lane.in_flight += 1;
        lane.tokens += tokens;
        lane.left += tokens;
    }

    /// A request is no longer under way: it has its result, or it is nobody's now. The tokens are those it took off with.
    pub(super) fn land(&mut self, place: u32, lane: usize, tokens: u64, is_done: bool) {
        let lane = &mut self.lanes[lane];
        lane.in_flight -= 1;
        lane.tokens -= tokens;
        lane.left -= tokens;
        self.places[place as usize] = Place::Loose;
        if is_done {
            self.set_done(place);
        }
    }

    /// A request that no pod has is done with.
    pub(super) fn set_done(&mut self, place: u32) {
        if std::mem::replace(&mut self.places[place as usize], Place::Done) == Place::Loose {
            self.left -= 1;
        }
    }

    /// Takes from a pod what it has not begun.
    pub(super) fn strand(&mut self, lane: usize, rest: &mut Vec<u32>) {
        let (places, lane) = (&mut self.places, &mut self.lanes[lane]);
        for place in lane.take_all() {
            let state = &mut places[place as usize];
            if let Place::Waiting(_, counted) = *state {
                *state = Place::Loose;
                lane.waiting -= 1;
                lane.left -= counted;
                rest.push(place);
            }
        }
    }

    /// Keeps requests until a pod lives that they can be given to.
    pub(super) fn keep(&mut self, rest: Vec<u32>) {
        self.loose.extend(rest);
    }

    /// Whether some are kept.
    pub(super) fn has_kept(&self) -> bool {
        !self.loose.is_empty()
    }

    /// Takes the requests that were kept.
    pub(super) fn take_kept(&mut self, rest: &mut Vec<u32>) {
        rest.append(&mut self.loose);
    }

    /// A request to try a pod with, out of its turn: the smallest that is not begun. Of those of a size the first that no pod has,
    /// or the last.
    pub(super) fn take_smallest(&mut self, tokens: impl Fn(u32) -> u64) -> Option<u32> {
        let waiting = self.places.iter().zip(0_u32..).filter_map(|(state, place)| match state {
            Place::Loose => Some((tokens(place), false, place, place)),
            Place::Waiting(_, counted) => Some((*counted, true, u32::MAX - place, place)),
            Place::InFlight | Place::Done | Place::Past => None,
        });
        let (.., place) = waiting.min()?;
        if let Place::Waiting(lane, _) = self.places[place as usize] {
            self.lanes[usize::from(lane)].take(place);
        }
        Some(place)
    }

    /// Whether a pod is away that may come back by itself: it is looked after, or will be.
    pub(super) fn is_one_expected(&self) -> bool {
        self.lanes.iter().any(|lane| matches!(lane.life, Life::Dead(Some(_)) | Life::Probing))
    }

    /// Whether a request's result was there before.
    pub(super) fn is_past(&self, place: u32) -> bool {
        self.places.get(place as usize) == Some(&Place::Past)
    }

    /// Whether no pod has a request.
    pub(super) fn is_loose(&self, place: u32) -> bool {
        self.places.get(place as usize) == Some(&Place::Loose)
    }

    /// Requests that have no result.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Requests of the batch.
    pub(super) fn requests(&self) -> usize {
        self.places.len()
    }

    /// Requests that are neither under way nor done.
    pub(super) fn waiting(&self) -> usize {
        self.loose.len() + self.lanes.iter().map(|lane| lane.waiting).sum::<usize>()
    }

    /// The pods that live.
    pub(super) fn living(&self) -> Vec<Pod> {
        self.lanes.iter().filter(|lane| lane.life == Life::Living).map(|lane| lane.pod).collect()
    }

    /// All requests that nobody has, in order: what a first plan is for.
    pub(super) fn all_loose(&self) -> Vec<u32> {
        let loose = self.places.iter().enumerate().filter(|(_, state)| **state == Place::Loose);
        loose.map(|(place, _)| place as u32).collect()
    }
}

/// Why a plan has no pod for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unplanned {
    /// The plan says that none holds it.
    TooLong,
    /// The plan does not say.
    Left,
}
