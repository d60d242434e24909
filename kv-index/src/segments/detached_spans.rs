//! Detached spans: what pods hold of a segment behind a block that they lack.
//!
//! Where there are any, every block's holders are counted, those that hold all before it included: so a span comes, goes
//! and joins what a pod holds from the front at a cost of its own length, whatever the segment's.

use std::collections::BTreeMap;

use crate::pods::PodId;
use crate::segments::holders::Ranges;

/// Stretches of a segment by pod, none touching another of the same pod, and how many pods hold each block.
#[derive(Clone, Debug, Default)]
pub(crate) struct DetachedSpans {
    /// Where each begins and ends.
    spans: BTreeMap<(PodId, u32), u32>,
    /// How many pods hold each block of the segment.
    holders: Vec<u16>,
    /// Blocks that somebody holds.
    live: u32,
    /// How often the segment was locked since there were any spans.
    idle: u32,
}

impl DetachedSpans {
    /// Counts of a segment without spans: so many pods hold each block.
    pub(super) fn of(holders: Vec<u16>) -> Self {
        let live = holders.iter().filter(|&&holders| holders > 0).count() as u32;
        Self { live, holders, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether nothing is to be known here that the segment does not say, and has not been for a while: to count anew takes
    /// as long as the segment.
    pub(super) fn is_past(&mut self) -> bool {
        self.idle = if self.spans.is_empty() { self.idle + 1 } else { 0 };
        self.idle as usize * PATIENCE > self.holders.len()
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn live(&self) -> u32 {
        self.live
    }

    /// Whether somebody holds the block.
    pub(super) fn is_live(&self, offset: u32) -> bool {
        self.holders.get(offset as usize).is_some_and(|&holders| holders > 0)
    }

    /// The segment grew by blocks that nobody holds yet.
    pub(super) fn grow(&mut self, count: u32) {
        self.holders.resize(self.holders.len() + count as usize, 0);
    }

    /// Lets go of the last blocks that nobody holds; how many are left.
    pub(super) fn trim(&mut self) -> u32 {
        let len = self.holders.iter().rposition(|&holders| holders > 0).map_or(0, |at| at + 1);
        self.holders.truncate(len);
        len as u32
    }

    /// A pod came to hold what it lacks of `from..to`, where it has nothing but spans; how many nobody held before.
    pub(super) fn hold(&mut self, pod: PodId, from: u32, to: u32) -> u32 {
        let (before, mut at) = (self.live, from);
        while at < to {
            if let Some((_, stop)) = self.last_until(pod, at).filter(|(_, stop)| *stop > at) {
                at = stop;
                continue;
            }
            let next = self.spans.range((pod, at)..(pod, to)).next().map_or(to, |((_, from), _)| *from);
            for holders in &mut self.holders[at as usize..next as usize] {
                self.live += u32::from(*holders == 0);
                *holders += 1;
            }
            at = next;
        }
        self.live - before
    }

    /// A pod lost `from..to`, all of which it held; how many nobody holds any more.
    fn release(&mut self, from: u32, to: u32) -> u32 {
        let before = self.live;
        for holders in &mut self.holders[from as usize..to as usize] {
            *holders -= 1;
            self.live -= u32::from(*holders == 0);
        }
        before - self.live
    }

    /// A pod holds `from..to`, which is counted and touches nothing that it has here.
    pub(super) fn insert(&mut self, pod: PodId, from: u32, to: u32) {
        self.spans.insert((pod, from), to);
    }

    /// Takes out what a pod has here that overlaps or touches `from..to`; from where to where it goes with that.
    pub(super) fn absorb(&mut self, pod: PodId, from: u32, to: u32) -> (u32, u32) {
        let (mut first, mut end) = (from, to);
        while let Some((start, stop)) = self.last_until(pod, end).filter(|(_, stop)| *stop >= first) {
            self.spans.remove(&(pod, start));
            (first, end) = (first.min(start), end.max(stop));
        }
        (first, end)
    }

    /// A pod lost what it has of `from..to`, here and in the first `reach` blocks; how many nobody holds any more.
    pub(super) fn remove(&mut self, pod: PodId, from: u32, to: u32, reach: u32) -> u32 {
        let mut gone = if from < reach { self.release(from, to.min(reach)) } else { 0 };
        while let Some((start, stop)) = self.last_until(pod, to - 1).filter(|(_, stop)| *stop > from) {
            self.spans.remove(&(pod, start));
            gone += self.release(start.max(from), stop.min(to));
            if stop > to {
                self.insert(pod, to, stop);
            }
            if start < from {
                self.insert(pod, start, from);
            }
        }
        gone
    }

    /// Whether a pod has the block here.
    pub(super) fn holds(&self, pod: PodId, offset: u32) -> bool {
        self.end(pod, offset).is_some()
    }

    /// Where what a pod has here from the block on ends, if it has the block.
    pub(super) fn end(&self, pod: PodId, offset: u32) -> Option<u32> {
        self.last_until(pod, offset).map(|(_, to)| to).filter(|to| offset < *to)
    }

    /// Adds what a pod has here of `from..to`, in order.
    pub(super) fn held(&self, pod: PodId, from: u32, to: u32, held: &mut Ranges) {
        let first = self.last_until(pod, from).map_or(from, |(start, _)| start);
        for (&(_, start), &stop) in self.spans.range((pod, first)..(pod, to)) {
            let (start, stop) = (start.max(from), stop.min(to));
            if start < stop {
                held.push((start, stop));
            }
        }
    }

    /// Pods that have the block here.
    pub(super) fn pods_at(&self, offset: u32) -> impl Iterator<Item = PodId> + '_ {
        self.spans.iter().filter(move |&(&(_, from), &to)| (from..to).contains(&offset)).map(|(&(pod, _), _)| pod)
    }

    /// Whether a pod has anything here.
    pub(super) fn has(&self, pod: PodId) -> bool {
        self.last(pod).is_some()
    }

    /// The last stretch that a pod has here.
    pub(super) fn last(&self, pod: PodId) -> Option<(u32, u32)> {
        self.last_until(pod, u32::MAX)
    }

    /// The pod's last one that begins at `until` or before.
    fn last_until(&self, pod: PodId, until: u32) -> Option<(u32, u32)> {
        self.spans.range((pod, 0)..=(pod, until)).next_back().map(|((_, from), to)| (*from, *to))
    }

    pub(super) fn bytes(&self) -> usize {
        self.holders.capacity() * 2 + self.spans.len() * size_of::<(PodId, u32, u32)>() * 2
    }

    /// Every one with its pod.
    #[cfg(any(test, fuzzing))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (PodId, u32, u32)> + '_ {
        self.spans.iter().map(|(&(pod, from), &to)| (pod, from, to))
    }

    /// How many pods hold each block.
    #[cfg(any(test, fuzzing))]
    pub(super) fn holders(&self) -> &[u16] {
        &self.holders
    }
}

/// Blocks of a segment for each time that it is locked without a span until the counts are let go.
const PATIENCE: usize = 16;
