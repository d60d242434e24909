//! Published load: the two merged figures that most decisions read, side by side.
//!
//! Merging takes a report or what a fleet says, and these seldom change. So it is done once for each fleet and pod; from then
//! on whoever changes what is in flight shows the sum as well. A decision copies what is shown, a word for each pod, eight pods
//! a line, however many requests come and go meanwhile. The rule that must never break: what is shown for a fleet is what
//! merging anew would give.

use std::sync::atomic::{AtomicU64, Ordering};

use kv_index::Pod;
use routing_core::Load;

use super::{Cell, Cells, InFlight, Others, key};
use crate::load::{Figures, share};

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

impl Cell<'_> {
    /// Shows the sum of what is in flight and what is others'. Only for who has the lock.
    pub(super) fn show(self) {
        let requests = self.own.requests.load(Ordering::Relaxed);
        let requests = requests.saturating_add(self.own.others.load(Ordering::Relaxed));
        let word = u64::from(self.own.kv_used.load(Ordering::Relaxed)) << 32 | u64::from(requests);
        self.shown.0.store(word, Ordering::Relaxed);
    }

    /// Shows nothing to any fleet: what is others' has changed. Only for who has the lock.
    pub(super) fn hide(self) {
        self.shown_for.store(0, Ordering::Relaxed);
    }
}

impl Cells {
    /// What is shown of pods 0, 1 and so on to the fleet of a stamp; none where nothing is.
    #[inline]
    pub(in crate::load) fn shown(&self, stamp: u64) -> impl Iterator<Item = Option<Figures>> {
        let cells = self.shown.iter().zip(&self.shown_for);
        // Acquire: what is shown to the fleet is there. Pairs with `merge`.
        cells.map(move |(shown, shown_for)| (shown_for.load(Ordering::Acquire) == stamp).then(|| shown.get()))
    }

    /// Merges a pod's figures, and shows them from now on to the fleet of a stamp, which says this load of the pod.
    #[cold]
    pub(in crate::load) fn merge(&self, stamp: u64, pod: Pod, elsewhere: Load) -> Option<Figures> {
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
            cell.own.kv_used.store(kv_used.to_bits(), Ordering::Relaxed);
            cell.show();
            // Release: publishes what is shown. Pairs with `shown`.
            cell.shown_for.store(stamp, Ordering::Release);
        }
        Some(Figures { requests: own.requests.saturating_add(others.requests), kv_used })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use proptest::prelude::*;
    use routing_core::{Fleet, PodInfo};

    use super::*;
    use crate::load::{LoadTracker, Work, handles, start};

    const IDS: usize = 3;

    #[derive(Clone, Debug)]
    enum Op {
        Begin(usize, usize),
        Drop(prop::sample::Index),
        Report(usize, usize, u32),
        /// Figures that are not of any fleet, for one pod.
        Ask(usize, usize, u32),
        Decide(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..2usize, 0..IDS).prop_map(|(generation, id)| Op::Begin(generation, id)),
            3 => any::<prop::sample::Index>().prop_map(Op::Drop),
            2 => (0..2usize, 0..IDS, 0..5u32).prop_map(|(generation, id, running)| Op::Report(generation, id, running)),
            1 => (0..2usize, 0..IDS, 0..5u32).prop_map(|(generation, id, running)| Op::Ask(generation, id, running)),
            6 => (0..4usize).prop_map(Op::Decide),
        ]
    }

    fn load(running: u32) -> Load {
        Load { running, waiting: 1, tokens: 100, kv_used: running as f32 / 4.0 }
    }

    proptest! {
        /// Whatever happens in between, what is shown is what a tracker that merges every time tells.
        #[test]
        fn what_is_shown_is_what_merging_anew_gives(ops in prop::collection::vec(op(), 1..60)) {
            let (pods, at) = (handles(2, IDS), start());
            // The first lacks a pod, the second and third say the same, the last is of the next generation.
            let of = |generation: usize, ids: &[usize], running: u32| -> Fleet {
                Fleet::new(1, ids.iter().map(|id| PodInfo::new(pods[generation][*id], "pod").load(load(running))))
            };
            let fleets = [of(0, &[0, 2], 1), of(0, &[0, 1, 2], 3), of(0, &[0, 1, 2], 3), of(1, &[0, 1, 2], 2)];
            let [shown, anew] = [Arc::new(<LoadTracker>::default()), Arc::new(<LoadTracker>::default())];
            let mut guards = Vec::new();
            for op in ops {
                match op {
                    Op::Begin(generation, id) => {
                        guards.push([&shown, &anew].map(|tracker| tracker.begin(pods[generation][id], Work::of(10))));
                    }
                    Op::Drop(guard) if !guards.is_empty() => drop(guards.swap_remove(guard.index(guards.len()))),
                    Op::Drop(_) => {}
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
                        let (mut figures, view) = ([Figures::default(); IDS], anew.view(at, Duration::ZERO));
                        shown.figures_into(fleet, &mut figures);
                        for (at, figures) in figures.into_iter().enumerate() {
                            let id = kv_index::PodId::new(at as u16);
                            let told = fleet.handle(id).map(|pod| view.of(pod, fleet.load(id)).figures());
                            prop_assert_eq!(figures, told.unwrap_or_default());
                        }
                    }
                }
            }
        }
    }
}
