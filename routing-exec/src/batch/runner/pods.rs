//! Pods that die and come to life, and the plans made anew for that.

use std::time::Instant;

use routing_core::Pod;
use routing_core::batch::BatchPlan;

use super::{BatchRunner, State};
use crate::batch::board::Unplanned;
use crate::batch::error::BatchError;
use crate::batch::lane::Life;
use crate::batch::result::BatchFailure;
use crate::batch::work::BatchWork;
use crate::driver::{Timer, Transport};

impl<T: Transport, C: Timer, S: BatchWork, const W: usize> BatchRunner<T, C, S, W> {
    /// A pod is dead: all that it had and was to have is planned anew.
    pub(super) fn bury(&mut self, lane: usize) {
        let again = self.config.revive.and_then(|revive| self.now().checked_add(revive));
        self.board.lanes[lane].life = Life::Dead(again);
        let mut rest = Vec::new();
        for slot in 0..self.flights.len() {
            let is_here = self.flights[slot].as_ref().is_some_and(|flight| flight.ticket.lane == lane);
            if is_here {
                rest.extend(self.lift(slot, false).map(|ticket| ticket.place));
            }
        }
        self.board.strand(lane, &mut rest);
        self.hand_out(rest);
    }

    /// A pod has come or lives again: all that is not under way is planned anew.
    pub(super) fn revived(&mut self, pod: Pod) {
        let Some(lane) = self.board.join(pod, self.config.bound) else { return };
        (self.board.lanes[lane].life, self.board.lanes[lane].misses) = (Life::Living, 0);
        self.forsaken = None;
        // The first poll sees whether the plan knows it.
        if self.plan.is_some() {
            return;
        }
        let mut rest = Vec::new();
        self.board.take_kept(&mut rest);
        for lane in 0..self.board.lanes.len() {
            self.board.strand(lane, &mut rest);
        }
        self.hand_out(rest);
    }

    /// Has requests that no pod has planned anew; if no pod lives, they are kept until one does.
    pub(super) fn hand_out(&mut self, mut rest: Vec<u32>) {
        self.is_stirred = true;
        if self.state != State::Running {
            return self.board.keep(rest);
        }
        let living = self.board.living();
        if living.is_empty() {
            let now = self.now();
            self.forsaken.get_or_insert(now);
            return self.board.keep(rest);
        }
        if rest.is_empty() {
            return;
        }
        rest.sort_unstable();
        self.counts.replans += 1;
        match self.work.replan(&rest, &living) {
            Some(plan) => self.follow(&plan, &rest),
            None => {
                self.board.keep(rest);
                self.fail(BatchError::NoPlan { left: self.board.left() });
            }
        }
    }

    /// Follows a plan for some requests. Those that it leaves out are done with, unless a pod may come back that has room.
    pub(super) fn follow(&mut self, plan: &BatchPlan, rest: &[u32]) {
        let work = &self.work;
        let unplanned = self.board.assign(plan, rest, self.config.lead, |place| work.size(place).tokens());
        let is_one_expected = self.board.is_one_expected();
        for (place, why) in unplanned {
            match why {
                _ if self.state != State::Running => self.board.keep(vec![place]),
                Unplanned::TooLong if is_one_expected => self.board.keep(vec![place]),
                Unplanned::TooLong => self.give_up(place, too_long()),
                Unplanned::Left => self.give_up(place, BatchFailure::new("unplanned", "the plan has it in no cohort")),
            }
        }
        let since = self.outsized.unwrap_or_else(|| self.now());
        self.outsized = self.board.has_kept().then_some(since);
        self.is_stirred = true;
    }

    /// Gives up what no living pod has room for, once there was patience enough for one that has.
    pub(super) fn give_up_outsized(&mut self, now: Instant) {
        if self.outsized_until().is_none_or(|end| now < end) {
            return;
        }
        self.outsized = None;
        let mut kept = Vec::new();
        self.board.take_kept(&mut kept);
        kept.sort_unstable();
        kept.into_iter().for_each(|place| self.give_up(place, too_long()));
    }

    /// When there is no more patience for what no living pod has room for; none as long as something else is to be seen first.
    fn outsized_until(&self) -> Option<Instant> {
        let end = self.outsized?.checked_add(self.config.patience);
        end.filter(|_| !self.is_probing() && !self.board.living().is_empty())
    }

    /// When something is to be done without anybody's word: a dead pod looked after, a refused one asked, or patience at its
    /// end. Ends the batch if that is now and no pod lives.
    pub(super) fn next_moment(&mut self) -> Option<Instant> {
        if self.board.left() == 0 {
            return None;
        }
        let out_of_patience = self.forsaken.and_then(|since| since.checked_add(self.config.patience));
        if out_of_patience.is_some_and(|end| end <= self.now()) && !self.is_probing() {
            self.fail(BatchError::NoPods { left: self.board.left() });
            return None;
        }
        let has_some = self.can_probe();
        let due = self.board.lanes.iter().filter(|_| has_some).filter_map(|lane| match lane.life {
            Life::Dead(at) => at,
            _ => None,
        });
        let patience = out_of_patience.filter(|_| !self.is_probing()).into_iter().chain(self.outsized_until());
        due.chain(patience).chain(self.refused).min()
    }

    fn is_probing(&self) -> bool {
        self.board.lanes.iter().any(|lane| lane.life == Life::Probing)
    }
}

fn too_long() -> BatchFailure {
    BatchFailure::new("too_long", "no pod has room for its prompt and answer")
}
