//! Requests that wait before routers: who is let go, and who waited for too long.

use std::time::Duration;

use routing_plugins::program::Pause;

use super::{Simulation, Timer, decision_request};
use crate::flow_control::Passed;

impl Simulation<'_> {
    /// Lets those go that wait before routers, as far as pods have room.
    pub(super) fn let_go(&mut self) {
        (0..self.gates.len()).for_each(|gateway| self.let_go_of(gateway));
    }

    pub(super) fn let_go_of(&mut self, gateway: usize) {
        let now = self.fleet.now();
        loop {
            let router = &mut self.routers[gateway];
            router.catch_up(now, self.fleet.chains(), self.fleet.engines());
            let (load, config) = (self.load, self.config);
            let waiting = &mut self.waiting;
            let went = self.gates[gateway].dispatch(now, router, |router, place, room| {
                // Not counted against itself.
                waiting.remove(&place);
                let asked = decision_request(load, config, place);
                let decided = router.decide(now, asked, Some(room));
                if let Some(wanted) = room.wanted() {
                    waiting.insert(place, router.wait_for(wanted, asked.prompt));
                }
                decided
            });
            match went {
                None => return,
                Some(Err(place)) => self.refuse(place),
                Some(Ok(Passed { place, decision, charge })) => {
                    self.send(place, self.came[place as usize], decision, Some(charge));
                    self.tell_changes(gateway);
                }
            }
        }
    }

    pub(super) fn expire(&mut self, gateway: usize) {
        self.gates[gateway].is_watched = false;
        let shed = self.gates[gateway].expire(self.fleet.now());
        shed.into_iter().for_each(|place| self.refuse(place));
        // Some may go elsewhere by now than to the pod that they waited for.
        self.let_go_of(gateway);
        self.set_expiry(gateway);
    }

    /// Asks to be woken when the next request before a router waited for too long.
    pub(super) fn set_expiry(&mut self, gateway: usize) {
        // One timer for each queue, however many come.
        if std::mem::replace(&mut self.gates[gateway].is_watched, true) {
            return;
        }
        match self.gates[gateway].next_expiry() {
            Some(at) => {
                let soon = self.fleet.now() + LOOK_EVERY_US;
                self.fleet.set_timer(at.min(soon), Timer::Expiry(gateway as u32));
            }
            None => self.gates[gateway].is_watched = false,
        }
    }

    /// When the program of a request will be back, where routers are told.
    fn pause_after(&self, place: u32) -> Pause {
        if !self.config.foresight {
            return Pause::Unknown;
        }
        let requests = &self.load.trace.requests;
        let own = |at: u32| requests[at as usize].session == requests[place as usize].session;
        let next =
            self.load.followers.get(place).iter().filter(|(follower, _)| own(*follower)).map(|(_, think)| *think);
        next.min().map_or(Pause::Over, |think| Pause::Lasts(Duration::from_micros(think)))
    }

    /// A request is over, and took so many tokens: what it was charged is corrected.
    pub(super) fn settle(&mut self, place: u32, tokens: u64) {
        let Some(flight) = self.in_flight[place as usize].take() else { return };
        let gateway = place as usize % self.routers.len();
        if let Some(turn) = flight.turn {
            self.routers[gateway].end_turn(&turn, tokens, self.pause_after(place), self.fleet.now());
        }
        if let Some(charge) = flight.charge {
            self.gates[gateway].served(&charge, tokens);
        }
    }
}

/// µs between two looks at who may go, whatever happens in between.
const LOOK_EVERY_US: u64 = 20_000;
