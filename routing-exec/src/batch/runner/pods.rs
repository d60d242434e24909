//! Pods that die and come to life, and the plans made anew for that.

use std::time::Instant;

use routing_core::Pod;
use routing_core::batch::BatchPlan;

use super::BatchRunner;
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
        let work = &self.work;
        self.board.strand(lane, |place| work.size(place).tokens(), &mut rest);
        self.hand_out(rest);
    }

    /// A pod has come or lives again: all that is not under way is planned anew.
    pub(super) fn revived(&mut self, pod: Pod) {
        let Some(lane) = self.board.join(pod, self.config.bound) else { return };
        (self.board.lanes[lane].life, self.board.lanes[lane].misses) = (Life::Living, 0);
        self.forsaken = None;
        // Before the first poll there is a plan, which may not know it yet.
        if self.plan.is_some() {
            return;
        }
        let mut rest = Vec::new();
        self.board.take_kept(&mut rest);
        let work = &self.work;
        for lane in 0..self.board.lanes.len() {
            self.board.strand(lane, |place| work.size(place).tokens(), &mut rest);
        }
        self.hand_out(rest);
    }

    /// Has requests that no pod has planned anew; if no pod lives, they are kept until one does.
    pub(super) fn hand_out(&mut self, mut rest: Vec<u32>) {
        self.is_stirred = true;
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
            None => self.fail(BatchError::NoPlan { left: self.board.left() }),
        }
    }

    /// Follows a plan for some requests. Those that it leaves out are done with.
    pub(super) fn follow(&mut self, plan: &BatchPlan, rest: &[u32]) {
        let work = &self.work;
        let unplanned = self.board.assign(plan, rest, self.config.lead, |place| work.size(place).tokens());
        for (place, why) in unplanned {
            let failure = match why {
                Unplanned::TooLong => BatchFailure::new("too_long", "no pod has room for its prompt and answer"),
                Unplanned::Left => BatchFailure::new("unplanned", "the plan has it in no cohort"),
            };
            self.give_up(place, failure);
        }
        self.is_stirred = true;
    }

    /// When something is to be done without anybody's word: a dead pod looked after, a refused one asked, or patience at its end. Ends the batch if
    /// that is now.
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
        due.chain(out_of_patience.filter(|_| !self.is_probing())).chain(self.refused).min()
    }

    fn is_probing(&self) -> bool {
        self.board.lanes.iter().any(|lane| lane.life == Life::Probing)
    }
}
