//! Moves: when a pod that has begun all it has takes over what is not begun, and of whom.

use super::BatchQueues;
use super::entry::{Entry, Place};
use super::lengths::AnswerLengths;
use super::list::List;
use crate::batch::work_stealing::{Movable, Side, Tail, tail, worth};

/// What is known when pods are compared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) now: f64,
    pub(super) entries: &'a [Entry],
    pub(super) lengths: &'a AnswerLengths,
    /// Planned seconds that pods of speed 1 do in a second.
    pub(super) pace: f64,
}

impl BatchQueues {
    /// Moves the tail of the list that ends last and has one worth moving to a pod that has nothing waiting as urgent.
    pub(super) fn move_to(&mut self, to: usize, now: f64) -> Option<()> {
        let own = self.lists[to].waiting.most_urgent();
        let has_work = |at: usize| {
            let most_urgent = self.lists[at].waiting.most_urgent();
            at != to && most_urgent.is_some_and(|tier| own.is_none_or(|own| tier < own))
        };
        // The usual case: it has work of its own, and nobody has more urgent work.
        if !self.lists[to].is_described || !(0..self.lists.len()).any(has_work) {
            return None;
        }
        let known = self.known(now);
        let side = |at: usize| self.lists[at].side(own, &known);
        let mine = side(to);
        let mut others: Vec<(Side, usize)> =
            (0..self.lists.len()).filter(|&at| has_work(at)).map(|at| (side(at), at)).collect();
        others.sort_by(|(a, at), (b, bt)| b.with(0.0).total_cmp(&a.with(0.0)).then(at.cmp(bt)));
        let (from, found) = others
            .into_iter()
            .find_map(|(theirs, from)| Some((from, self.worth_moving((from, theirs), (to, mine), own, &known)?)))?;
        self.take(from, to, own, found);
        Some(())
    }

    /// What `to` should have of `from`'s list.
    fn worth_moving(
        &self,
        (from, theirs): (usize, Side),
        (to, mine): (usize, Side),
        own: Option<u32>,
        known: &Known<'_>,
    ) -> Option<Tail> {
        let (list, thief) = (&self.lists[from], &self.lists[to]);
        let movable = |request: &u32| {
            let entry = &self.entries[*request as usize];
            let residence = entry.expected_output(&self.lengths) * thief.pace.planned;
            let (work, again) = (entry.expected_work(&self.lengths), entry.again(&self.config.costs));
            entry.fits(thief.pod.kv_tokens, &self.lengths).then_some(Movable { work, again, residence })
        };
        // Where nothing would be begun, any other pod is better.
        let worth = if list.is_held_up { f64::NEG_INFINITY } else { worth(theirs, list.pace.busy(known.now)) };
        let cohorts = list.tail(own, from, &self.entries);
        tail(worth, theirs, mine, cohorts.map(|cohort| cohort.live(from, &self.entries).rev().map(movable)))
    }

    /// Whether a pod has nothing that waits, and room, while others have: it may be worth moving something later.
    #[must_use]
    pub fn may_move_later(&self) -> bool {
        let is_dry = |list: &List| list.waiting.requests() == 0 && !list.is_lost && list.bound.has_room(0);
        self.moving
            && self.lists.iter().any(|list| is_dry(list) && list.is_described)
            && self.lists.iter().any(|list| list.waiting.requests() > 0)
    }

    pub(super) fn known(&self, now: f64) -> Known<'_> {
        // Half of what is under way is done, in the mean.
        let done =
            self.lists.iter().map(|list| list.pace.done + list.running.expected(&self.lengths) / 2.0).sum::<f64>();
        let busy = self.lists.iter().map(|list| list.pace.busy(now) * list.pod.speed).sum::<f64>();
        let pace = if done > 0.0 && busy > 0.0 { done / busy } else { 1.0 };
        Known { now, entries: &self.entries, lengths: &self.lengths, pace }
    }

    /// Carries a move out.
    fn take(&mut self, from: usize, to: usize, own: Option<u32>, found: Tail) {
        let taken = self.lists[from].split_off(own, from, found, &self.entries);
        for (nth, cohort) in taken.into_iter().enumerate() {
            for (at, &request) in cohort.requests.iter().enumerate() {
                let entry = &mut self.entries[request as usize];
                self.lists[from].waiting.remove(entry);
                entry.place = Place::Listed(to as u16);
                if (nth, at) == (0, 0) {
                    entry.moved(&self.config.costs);
                }
            }
            self.moved += cohort.requests.len();
            self.lists[to].push(cohort.tier, cohort.requests, self.start, &mut self.entries);
        }
    }
}
