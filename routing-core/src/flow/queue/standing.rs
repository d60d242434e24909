//! Attained service: where a waiting request stands by its program, and which of a program's requests goes first.
//!
//! A request's program is known once it was decided about. What the program was served says when its turn is: a *turn* is a rank
//! that one of its requests holds. The program's turns go to its requests by the critical path: the one first that most of it waits
//! for, as its client tells. So what a client tells of its program changes nobody else's turn.
//!
//! The rule that must never break: a program has as many turns as requests that wait, a turn leaves with whoever leaves, and none is earlier
//! than when the request came that brought it. Else one whose urgent requests keep coming would go for ever by the rank of an old one.

use super::super::order::nanos;
use super::super::{FlowOrder, ProgramStanding, ServiceLevels};
use super::FlowQueue;
use crate::program::ProgramTurn;

/// Where a request stands, once that is known.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    program: Option<u64>,
    pub(super) told: ProgramStanding,
    /// Its place among its program's: when it came, and the earlier the more waits for it.
    critical: u64,
    /// When the request came that brought its turn.
    brought: u64,
}

/// A turn: its rank, and when the request came that brought it.
type Turn = (u64, u64);

impl<T> FlowQueue<T> {
    /// The program of a request is known, or that it is of none: it has a rank by what that was served.
    pub(super) fn stand(&mut self, ticket: u64, turn: Option<ProgramTurn>) {
        let Some(place) = self.places.get(&ticket).filter(|place| place.standing.is_none()) else { return };
        let FlowOrder::AttainedService(levels) = self.config.bands[place.band].order else { return };
        let Some(came) = self.bands[place.band].item(&place.key, (place.rank, ticket)).map(|item| item.came) else {
            return;
        };
        let since = nanos(came.saturating_duration_since(self.origin.unwrap_or(came)));
        let (service, remaining) = turn.map_or((0, 0), |turn| (turn.service, turn.remaining));
        let level = levels.level(service);
        let told = ProgramStanding { service, level, remaining, is_last: false };
        let before = levels.later(ServiceLevels::MOST - remaining.min(ServiceLevels::MOST));
        let program = turn.map(|turn| turn.program);
        let standing = Standing { program, told, critical: since.saturating_add(before), brought: since };
        if let Some(place) = self.places.get_mut(&ticket) {
            place.standing = Some(standing);
        }
        // One more than the level, which the last of several has less.
        self.move_to(ticket, since.saturating_add(levels.later(level + 1)));
        self.share_turns(ticket);
    }

    /// A request joins those of its program, and brings a turn: between its place among them and that of the turn they move by one.
    ///
    /// Their turns are in the order in which they go. Who comes last mostly has the last turn, so nobody moves.
    fn share_turns(&mut self, ticket: u64) {
        let Some(place) = self.places.get(&ticket) else { return };
        let Some(program) = place.standing.as_ref().and_then(|standing| standing.program) else { return };
        let (own, own_turn) = ((critical(place), ticket), turn(place));
        let of = |ticket: &u64| self.places.get(ticket);
        let siblings = self.siblings.entry((place.band, place.key.clone(), program)).or_default();
        let at = place_among(siblings, own, of);
        let of_turn = siblings.partition_point(|sibling| of(sibling).map(turn) <= Some(own_turn));
        siblings.insert(at, ticket);
        let moved = siblings[at.min(of_turn)..=at.max(of_turn)].to_vec();
        let mut turns: Vec<Turn> = moved.iter().filter_map(of).map(turn).collect();
        turns.sort_unstable();
        for (ticket, (rank, brought)) in moved.into_iter().zip(turns) {
            if let Some(standing) = self.places.get_mut(&ticket).and_then(|place| place.standing.as_mut()) {
                standing.brought = brought;
            }
            self.move_to(ticket, rank);
        }
    }

    /// A request left that stood so: if one of its program is left of several, its join waits for that one alone, and it goes a level earlier.
    pub(super) fn leave_siblings(&mut self, ticket: u64, place: &super::Place) {
        let Some(program) = place.standing.as_ref().and_then(|standing| standing.program) else { return };
        let all = (place.band, place.key.clone(), program);
        let Some(siblings) = self.siblings.get_mut(&all) else { return };
        let at = place_among(siblings, (critical(place), ticket), |sibling| self.places.get(sibling));
        if siblings.get(at) == Some(&ticket) {
            siblings.remove(at);
        }
        match siblings[..] {
            [] => drop(self.siblings.remove(&all)),
            [last] => self.hurry(last),
            _ => {}
        }
    }

    /// A level earlier, once, and no earlier than the turn may be: it goes on to others, who may be the last as well.
    fn hurry(&mut self, last: u64) {
        let Some(place) = self.places.get_mut(&last) else { return };
        let FlowOrder::AttainedService(levels) = self.config.bands[place.band].order else { return };
        let Some(standing) = place.standing.as_mut().filter(|standing| !standing.told.is_last) else { return };
        standing.told.is_last = true;
        let earlier = place.rank.saturating_sub(levels.later(1)).max(standing.brought);
        self.move_to(last, earlier);
    }

    pub(super) fn move_to(&mut self, ticket: u64, rank: u64) {
        let Some(place) = self.places.get_mut(&ticket) else { return };
        let before = std::mem::replace(&mut place.rank, rank);
        if before != rank {
            self.bands[place.band].move_item(&place.key, (before, ticket), rank);
        }
    }
}

fn critical(place: &super::Place) -> u64 {
    place.standing.as_ref().map_or(u64::MAX, |standing| standing.critical)
}

/// Where one is among others in the order in which they go, or belongs.
fn place_among<'p>(siblings: &[u64], own: (u64, u64), of: impl Fn(&u64) -> Option<&'p super::Place>) -> usize {
    // Who leaves has no place any more, and is the one itself.
    siblings.partition_point(|sibling| of(sibling).is_some_and(|place| (critical(place), *sibling) < own))
}

fn turn(place: &super::Place) -> Turn {
    (place.rank, place.standing.as_ref().map_or(0, |standing| standing.brought))
}
