//! Published load: the merged figures that most decisions read, side by side.
//!
//! Merging takes a report or what a fleet says, and these seldom change. So it is done once for each fleet and pod; from then
//! on whoever changes what is in flight shows the sums as well. A decision copies what is shown, a word or five for each pod,
//! however many requests come and go meanwhile. The rule that must never break: what is shown for a fleet is what merging
//! anew would give.

use std::sync::atomic::{AtomicU64, Ordering};

use kv_index::Pod;
use routing_core::Load;

use super::{Cell, Cells, InFlight, Others, ShownBlock, key};
use crate::load::{Backlog, BacklogBlock, Figures, LANES, Queue, share};

/// A pod's figures in one word, so that they are read and written in one go.
#[derive(Debug, Default)]
pub(super) struct Shown(AtomicU64);

impl Shown {
    #[inline]
    fn get(&self) -> Figures {
        let word = self.0.load(Ordering::Relaxed);
        Figures { requests: word as u32, kv_used: f32::from_bits((word >> 32) as u32) }
    }
}

/// A pod's backlog: the bits of its numbers. They are read one by one, as all that is in flight is.
#[derive(Debug, Default)]
pub(super) struct ShownBacklog {
    /// What is read of every pod, as [`Backlog::dense`] has it.
    dense: [AtomicU64; 3],
    /// What is read where somebody waits: as in a [`Queue`].
    queue: [AtomicU64; 3],
}

impl ShownBacklog {
    #[inline]
    fn dense(&self) -> [f64; 3] {
        self.dense.each_ref().map(number)
    }

    #[inline]
    fn queue(&self) -> Queue {
        let [queued, before, elsewhere] = self.queue.each_ref().map(number);
        Queue { queued, before, elsewhere }
    }

    fn get(&self) -> Backlog {
        Backlog::new(self.dense(), self.queue())
    }

    fn set(&self, backlog: Backlog) {
        let Queue { queued, before, elsewhere } = backlog.queue();
        let numbers = backlog.dense().into_iter().chain([queued, before, elsewhere]);
        self.dense.iter().chain(&self.queue).zip(numbers).for_each(|(place, number)| {
            place.store(number.to_bits(), Ordering::Relaxed);
        });
    }
}

/// Whether a pod is shown to the fleet of a stamp.
#[inline]
fn is_shown(shown_for: &AtomicU64, stamp: u64) -> bool {
    // Acquire: what is shown to the fleet is there. Pairs with `Cell::show_to`.
    shown_for.load(Ordering::Acquire) == stamp
}

#[inline]
fn number(bits: &AtomicU64) -> f64 {
    f64::from_bits(bits.load(Ordering::Relaxed))
}

/// What of a load is shown.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::load) struct Summary {
    pub(in crate::load) figures: Figures,
    pub(in crate::load) backlog: Backlog,
}

impl Summary {
    fn new(own: &InFlight, others: Others, kv_used: f32) -> Self {
        let requests = own.requests.saturating_add(others.requests);
        let backlog = Backlog::of(own, requests, own.tokens().saturating_add(others.tokens), others.waiting);
        Self { figures: Figures { requests, kv_used }, backlog }
    }
}

impl Cell<'_> {
    /// Shows the sums of what is in flight and what is others'. Only for who has the lock.
    pub(super) fn show(self) {
        let others = Others {
            requests: self.own.others.load(Ordering::Relaxed),
            waiting: self.own.others_waiting.load(Ordering::Relaxed),
            tokens: self.own.other_tokens.load(Ordering::Relaxed),
        };
        let kv_used = f32::from_bits(self.own.kv_used.load(Ordering::Relaxed));
        let Summary { figures, backlog } = Summary::new(&self.in_flight(), others, kv_used);
        let word = u64::from(figures.kv_used.to_bits()) << 32 | u64::from(figures.requests);
        self.shown.0.store(word, Ordering::Relaxed);
        self.backlog.set(backlog);
        self.block.set_waiting(self.lane, backlog.all_waiting() > 0.0);
    }

    /// Shows nothing to any fleet: what is others' has changed. Only for who has the lock.
    pub(super) fn hide(self) {
        self.show_to(0);
    }

    /// Shows what is shown to the fleet of a stamp, and to no other. Only for who has the lock.
    fn show_to(self, stamp: u64) {
        // Release: publishes what is shown. Pairs with `copy` and `ShownBlock::look`.
        self.shown_for.store(stamp, Ordering::Release);
        // Relaxed: only that it is another number each time matters.
        self.block.unmark(self.turns.fetch_add(1, Ordering::Relaxed));
    }
}

impl Cells {
    /// The figures of pods 0, 1 and so on, as shown to the fleet of a stamp; `merge` for those that are not.
    pub(in crate::load) fn figures_into(&self, stamp: u64, figures: &mut [Figures], merge: impl Fn(usize) -> Figures) {
        for (start, places) in (0..).step_by(LANES).zip(figures.chunks_mut(LANES)) {
            let Some((shown, shown_for, block)) = self.block(&self.shown, start) else { return };
            // Asked before any is copied, so that copying is nothing but loads and stores.
            let places = match <&mut [_; LANES]>::try_from(&mut *places) {
                Ok(places) if block.is_shown(stamp, shown_for) => {
                    places.iter_mut().zip(shown).for_each(|(place, shown)| *place = shown.get());
                    continue;
                }
                _ => places,
            };
            for (at, ((shown, shown_for), place)) in shown.iter().zip(shown_for).zip(places).enumerate() {
                *place = if is_shown(shown_for, stamp) { shown.get() } else { merge(start + at) };
            }
        }
    }

    /// The same of backlogs, of so many pods; the others of the blocks have none.
    pub(in crate::load) fn backlogs_into(
        &self,
        stamp: u64,
        pods: usize,
        blocks: &mut [BacklogBlock],
        merge: impl Fn(usize) -> Backlog,
    ) {
        for (start, places) in (0..).step_by(LANES).zip(blocks) {
            let Some((shown, shown_for, block)) = self.block(&self.backlogs, start) else { return };
            if block.is_shown(stamp, shown_for) {
                places.write(block.waiting(), |lane| shown[lane].dense(), |lane| shown[lane].queue());
                continue;
            }
            for (lane, (shown, shown_for)) in shown.iter().zip(shown_for).enumerate() {
                let backlog = match () {
                    () if is_shown(shown_for, stamp) => shown.get(),
                    () if start + lane < pods => merge(start + lane),
                    () => Backlog::default(),
                };
                places.set(lane, &backlog);
            }
        }
    }

    /// What is shown of a block's pods, to whom, and to whom of all of them.
    #[inline]
    fn block<'c, S>(
        &'c self,
        shown: &'c [S],
        start: usize,
    ) -> Option<(&'c [S; LANES], &'c [AtomicU64; LANES], &'c ShownBlock)> {
        let block = self.blocks.get(start / LANES)?;
        Some((shown.get(start..)?.first_chunk()?, self.shown_for.get(start..)?.first_chunk()?, block))
    }

    /// Merges a pod's figures, and shows them from now on to the fleet of a stamp, which says this load of the pod.
    #[cold]
    pub(in crate::load) fn merge(&self, stamp: u64, pod: Pod, elsewhere: Load) -> Option<Summary> {
        let (cell, seen) = (self.get(pod.id())?, self.seen.get(pod.id().index())?);
        // If somebody else writes, a later decision shows them: no reader waits.
        let alone = cell.own.writer.try_lock();
        let generation = cell.own.generation.load(Ordering::Acquire);
        let is_known = generation == pod.generation();
        let own = if is_known { cell.in_flight() } else { InFlight::default() };
        let (others, kv_used) = match cell.report().filter(|_| is_known) {
            Some(report) => (report.others, report.kv_used),
            None if seen.is(key(pod, elsewhere)) => (seen.others(), elsewhere.kv_used),
            None => {
                let others = Others::of(elsewhere, own);
                if alone.is_some() {
                    seen.enter(key(pod, elsewhere), others);
                    cell.hide();
                }
                (others, elsewhere.kv_used)
            }
        };
        let kv_used = share(kv_used);
        // If the cell is another pod's, nothing of it is shown; if it is nobody's, nothing is in flight. Of two fleets that are
        // in use at once the newer is shown it, so that they do not take it from each other.
        let is_newest = cell.shown_for.load(Ordering::Relaxed) < stamp;
        if alone.is_some() && is_newest && (is_known || generation == 0) {
            cell.own.others.store(others.requests, Ordering::Relaxed);
            cell.own.others_waiting.store(others.waiting, Ordering::Relaxed);
            cell.own.other_tokens.store(others.tokens, Ordering::Relaxed);
            cell.own.kv_used.store(kv_used.to_bits(), Ordering::Relaxed);
            cell.show();
            cell.show_to(stamp);
        }
        Some(Summary::new(&own, others, kv_used))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;
    use routing_core::{Fleet, PodInfo};

    use super::*;
    use crate::load::{LoadGuard, LoadTracker, Work, handles, start};

    /// More than are looked at together.
    const IDS: usize = 10;

    #[derive(Clone, Debug)]
    enum Op {
        Begin(usize, usize),
        Drop(prop::sample::Index),
        FirstToken(prop::sample::Index),
        Report(usize, usize, u32),
        /// Figures that are not of any fleet, for one pod.
        Ask(usize, usize, u32),
        Decide(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..2usize, 0..IDS).prop_map(|(generation, id)| Op::Begin(generation, id)),
            3 => any::<prop::sample::Index>().prop_map(Op::Drop),
            2 => any::<prop::sample::Index>().prop_map(Op::FirstToken),
            2 => (0..2usize, 0..IDS, 0..5u32).prop_map(|(generation, id, running)| Op::Report(generation, id, running)),
            1 => (0..2usize, 0..IDS, 0..5u32).prop_map(|(generation, id, running)| Op::Ask(generation, id, running)),
            6 => (0..4usize).prop_map(Op::Decide),
        ]
    }

    fn load(running: u32) -> Load {
        Load { running, waiting: 1 + running % 3, tokens: 100, kv_used: running as f32 / 4.0 }
    }

    proptest! {
        /// Whatever happens in between, what is shown is what a tracker that merges every time tells.
        #[test]
        fn what_is_shown_is_what_merging_anew_gives(ops in prop::collection::vec(op(), 1..60)) {
            let (pods, at) = (handles(2, IDS), start());
            // The first lacks some pods, the second and third say the same, the last is of the next generation.
            let of = |generation: usize, ids: &[usize], running: u32| -> Fleet {
                Fleet::new(1, ids.iter().map(|id| PodInfo::new(pods[generation][*id], "pod").load(load(running))))
            };
            let (some, all) = ([0, 2, 3, 9], std::array::from_fn::<_, IDS, _>(|id| id));
            let fleets = [of(0, &some, 1), of(0, &all, 3), of(0, &all, 3), of(1, &all, 2)];
            let [shown, anew] = [Arc::new(<LoadTracker>::default()), Arc::new(<LoadTracker>::default())];
            let mut guards = Vec::new();
            for op in ops {
                match op {
                    Op::Begin(generation, id) => {
                        guards.push([&shown, &anew].map(|tracker| tracker.begin(pods[generation][id], Work::of(10).held(3).output(5))));
                    }
                    Op::Drop(guard) if !guards.is_empty() => drop(guards.swap_remove(guard.index(guards.len()))),
                    Op::FirstToken(guard) if !guards.is_empty() => {
                        let at = guard.index(guards.len());
                        guards[at].iter_mut().for_each(LoadGuard::first_token);
                    }
                    Op::Drop(_) | Op::FirstToken(_) => {}
                    Op::Report(generation, id, running) => {
                        let taken = [&shown, &anew].map(|tracker| tracker.report(pods[generation][id], load(running), at));
                        prop_assert_eq!(taken[0], taken[1]);
                    }
                    Op::Ask(generation, id, running) => {
                        let pod = pods[generation][id];
                        let told = [&shown, &anew].map(|tracker| tracker.view(at, Duration::ZERO).of(pod, load(running)));
                        prop_assert_eq!(told[0], told[1]);
                    }
                    Op::Decide(fleet) => {
                        let fleet = &fleets[fleet];
                        let (mut figures, mut block) = ([Figures::default(); IDS], [BacklogBlock::default()]);
                        shown.figures_into(fleet, &mut figures);
                        shown.backlogs_into(fleet, IDS, &mut block);
                        let view = anew.view(at, Duration::ZERO);
                        let backlogs = (0..).map(|lane| block[0].get(lane));
                        for (at, copied) in figures.into_iter().zip(backlogs).enumerate() {
                            let id = kv_index::PodId::new(at as u16);
                            let told = fleet.handle(id).map(|pod| view.of(pod, fleet.load(id))).unwrap_or_default();
                            prop_assert_eq!(copied, (told.figures(), told.backlog()));
                        }
                    }
                }
            }
        }
    }
}
