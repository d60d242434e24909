//! Detached spans (islands): what pods hold of a segment behind a block that they lack.

use std::collections::BTreeMap;

use crate::pod::PodId;

/// Stretches of a run by pod, none touching another of the same pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Islands {
    /// Where each begins and ends.
    spans: BTreeMap<(PodId, u32), u32>,
    /// How many lie over each block.
    over: Vec<u16>,
}

impl Islands {
    pub(super) fn len(&self) -> usize {
        self.spans.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Whether one lies over the block.
    pub(super) fn covers(&self, offset: u32) -> bool {
        self.over.get(offset as usize).is_some_and(|&over| over > 0)
    }

    /// Blocks from `front` on that one lies over.
    pub(super) fn covered_from(&self, front: u32) -> u32 {
        let rest = self.over.get(front as usize..).unwrap_or_default();
        rest.iter().map(|&over| u32::from(over > 0)).sum()
    }

    /// One past the last block that one lies over.
    pub(super) fn end(&self) -> u32 {
        self.over.iter().rposition(|&over| over > 0).map_or(0, |at| at as u32 + 1)
    }

    /// A pod holds `from..to`, which touches nothing that it has here.
    pub(super) fn insert(&mut self, pod: PodId, from: u32, to: u32) {
        self.spans.insert((pod, from), to);
        if self.over.len() < to as usize {
            self.over.resize(to as usize, 0);
        }
        self.over[from as usize..to as usize].iter_mut().for_each(|over| *over += 1);
    }

    /// Takes out what a pod has here that overlaps or touches `from..to`; from where to where it goes with that.
    pub(super) fn absorb(&mut self, pod: PodId, from: u32, to: u32) -> (u32, u32) {
        let (mut first, mut end) = (from, to);
        while let Some((start, stop)) = self.last_until(pod, end).filter(|(_, stop)| *stop >= first) {
            self.take(pod, start, stop);
            (first, end) = (first.min(start), end.max(stop));
        }
        (first, end)
    }

    /// A pod lost `from..to`.
    pub(super) fn cut(&mut self, pod: PodId, from: u32, to: u32) {
        while let Some((start, stop)) = self.last_until(pod, to - 1).filter(|(_, stop)| *stop > from) {
            self.take(pod, start, stop);
            if stop > to {
                self.insert(pod, to, stop);
            }
            if start < from {
                self.insert(pod, start, from);
            }
        }
    }

    /// A pod lost all it has here.
    pub(super) fn drop_pod(&mut self, pod: PodId) {
        while let Some((start, stop)) = self.last_until(pod, u32::MAX) {
            self.take(pod, start, stop);
        }
    }

    /// The pod's last one that begins at `until` or before.
    fn last_until(&self, pod: PodId, until: u32) -> Option<(u32, u32)> {
        self.spans.range((pod, 0)..=(pod, until)).next_back().map(|((_, from), to)| (*from, *to))
    }

    fn take(&mut self, pod: PodId, from: u32, to: u32) {
        self.spans.remove(&(pod, from));
        self.over[from as usize..to as usize].iter_mut().for_each(|over| *over -= 1);
    }

    pub(super) fn bytes(&self) -> usize {
        self.over.capacity() * 2 + self.spans.len() * size_of::<(PodId, u32, u32)>() * 2
    }

    /// Every one with its pod.
    #[cfg(any(test, fuzzing))]
    pub(super) fn iter(&self) -> impl Iterator<Item = (PodId, u32, u32)> + '_ {
        self.spans.iter().map(|(&(pod, from), &to)| (pod, from, to))
    }
}
