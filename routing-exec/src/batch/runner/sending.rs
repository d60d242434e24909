//! What is sent next, and to whom.

use routing_core::{PlanStep, Role, RoutingPlan};

use super::{BatchRunner, Tried};
use crate::batch::flight::{Flight, Stage, Teller, Ticket, Told};
use crate::batch::lane::{Life, Turn};
use crate::batch::work::{BatchHold, BatchWork};
use crate::driver::{Timer, Transport};
use crate::run::Run;

impl<T: Transport, C: Timer, S: BatchWork, const W: usize> BatchRunner<T, C, S, W> {
    /// Sends all that may be sent now.
    pub(super) fn send_more(&mut self) {
        if !std::mem::take(&mut self.is_stirred) {
            return;
        }
        self.look_after_the_dead();
        self.refused = None;
        let lanes = self.board.lanes.len();
        for nth in 0..lanes {
            let lane = (self.turn + nth) % lanes;
            while self.has_room() {
                let work = &self.work;
                let Some(turn) = self.board.turn(lane, |place| work.size(place).tokens()) else { break };
                let Some(hold) = self.admit(lane, turn.place) else { break };
                self.send(lane, turn, Some(hold));
            }
        }
        self.turn = self.turn.wrapping_add(1);
        self.send_awaited();
    }

    /// Whether the window has room. The last place of it is for the request whose result all the others wait for.
    pub(super) fn has_room(&mut self) -> bool {
        let board = &self.board;
        let kept = usize::from(self.ready.awaited(|place| board.is_past(place)).is_some());
        self.flying + self.ready.len() + kept < self.config.window.max(1)
    }

    /// Whether the window has room for the request whose result all the others wait for. It has if nothing is under way, however
    /// many results there are: they may all wait for that one, and those of requests that no pod is asked for come unbidden.
    fn has_room_for_awaited(&self) -> bool {
        self.flying == 0 || self.flying + self.ready.len() < self.config.window.max(1)
    }

    /// Sends the request whose result all the others wait for, if nothing else may be sent.
    fn send_awaited(&mut self) {
        let board = &self.board;
        let Some(place) = self.ready.awaited(|place| board.is_past(place)) else { return };
        if self.has_room() || !self.has_room_for_awaited() {
            return;
        }
        let in_batch = (place as usize) < self.board.requests();
        let tokens = if in_batch { self.work.size(place).tokens() } else { return };
        if let Some(lane) = self.board.pod_with_room(place, tokens) {
            if let Some(hold) = self.admit(lane, place) {
                self.send(lane, Turn { place, leads: None }, Some(hold));
            }
        }
    }

    /// Asks the host whether a pod may begin a request now; if not, it is asked again in a while.
    fn admit(&mut self, lane: usize, place: u32) -> Option<BatchHold> {
        let hold = self.work.admit(self.board.lanes[lane].pod, place);
        if hold.is_none() && self.refused.is_none() {
            self.refused = self.now().checked_add(self.config.ask_again);
        }
        hold
    }

    /// Sends a request to a pod.
    pub(super) fn send(&mut self, lane: usize, Turn { place, leads }: Turn, hold: Option<BatchHold>) {
        let tokens = self.work.size(place).tokens();
        self.board.take_off(place, lane, tokens);
        if let Some(cohort) = leads {
            self.board.lanes[lane].led(cohort);
        }
        let now = self.now();
        let before = self.tried.remove(&place).unwrap_or(Tried { sent: 0, failures: 0, since: now });
        self.counts.retries += usize::from(before.sent > 0);
        let Tried { sent, failures, since } = before;
        let ticket = Ticket { place, lane, tokens, leads, sent: sent + 1, since, failures };
        let stage = self.ask(ticket, hold);
        let slot = self.free.pop().unwrap_or(self.flights.len());
        let flight = Some(Flight { ticket, stage });
        match self.flights.get_mut(slot) {
            Some(free) => *free = flight,
            None => self.flights.push(flight),
        }
        self.flying += 1;
        self.bells.ring(slot);
    }

    /// Sends a request again to the pod that has it.
    pub(super) fn send_again(&mut self, slot: usize) {
        let Some(Some(flight)) = self.flights.get_mut(slot) else { return };
        flight.ticket.sent += 1;
        let ticket = flight.ticket;
        self.counts.retries += 1;
        let hold = self.work.admit(self.board.lanes[ticket.lane].pod, ticket.place);
        let stage = self.ask(ticket, hold);
        if let Some(Some(flight)) = self.flights.get_mut(slot) {
            flight.stage = stage;
        }
        self.bells.ring(slot);
    }

    /// One request to one pod, as a run of its own: what a batch decides anew is more than a run knows.
    fn ask(&mut self, ticket: Ticket, hold: Option<BatchHold>) -> Stage<T, C, W> {
        let pod = self.board.lanes[ticket.lane].pod;
        let plan = RoutingPlan::new(0, [PlanStep::new("batch", Role::Both, &[pod])]);
        let run = Run::new(self.settings.clone(), self.work.request(ticket.place), plan, Vec::new());
        let told = Told::default();
        Stage::Asking(self.driver.execute(run, Teller { told: told.clone(), hold }), told)
    }

    /// Sends one request each to pods that were dead for long enough, to see. A small one: it has room with most pods, and a pod
    /// that has none for it would fail it for good.
    fn look_after_the_dead(&mut self) {
        let now = self.now();
        self.give_up_outsized(now);
        for lane in 0..self.board.lanes.len() {
            let is_due = matches!(self.board.lanes[lane].life, Life::Dead(Some(at)) if at <= now);
            if !is_due {
                continue;
            }
            let spare = if self.has_room() {
                let work = &self.work;
                self.board.take_smallest(|place| work.size(place).tokens())
            } else {
                self.forsaken_awaited()
            };
            let Some(place) = spare else { continue };
            self.board.lanes[lane].life = Life::Probing;
            let hold = self.work.admit(self.board.lanes[lane].pod, place);
            self.send(lane, Turn { place, leads: None }, hold);
        }
    }

    /// Whether there is a request to look after a dead pod with.
    pub(super) fn can_probe(&mut self) -> bool {
        if self.has_room() { self.board.waiting() > 0 } else { self.forsaken_awaited().is_some() }
    }

    /// The request whose result all the others wait for, if no pod has it and the window has room for it.
    fn forsaken_awaited(&mut self) -> Option<u32> {
        let board = &self.board;
        let place = self.ready.awaited(|place| board.is_past(place))?;
        (self.has_room_for_awaited() && self.board.is_loose(place)).then_some(place)
    }
}
