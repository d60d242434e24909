//! Holders of one segment: who holds which of its blocks, as plain values.
//!
//! Pods mostly hold a segment from its first block on, so that is what is kept: who holds the first block, and
//! where those stop that stop before the end (their *drop-offs*). What a pod holds behind a block that it lacks is an
//! *detached span*: searches never come there, so it is kept apart and read by writers only.

use smallvec::SmallVec;

use crate::pods::{PodId, PodSet};
use crate::segments::detached_spans::DetachedSpans;

/// Who holds what of a segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holders<const W: usize> {
    /// Blocks of the segment. The last one is held by somebody.
    len: u32,
    /// Who holds the first block, and how many they are.
    base: PodSet<W>,
    pods: usize,
    /// Where pods of `base` stop, ascending; a pod without a drop-off holds everything.
    drop_offs: SmallVec<[DropOff; INLINE]>,
    /// What pods hold behind a block that they lack, if any do.
    detached: Option<Box<DetachedSpans>>,
}

/// Ranges of offsets.
pub(crate) type Ranges = SmallVec<[(u32, u32); 1]>;

/// The offset of the first block that a pod lacks, and the pod: ordered by offset, then pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DropOff(u32);

impl DropOff {
    fn new(offset: u32, pod: PodId) -> Self {
        Self(offset << 16 | pod.index() as u32)
    }

    pub(crate) const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    pub(crate) const fn raw(self) -> u32 {
        self.0
    }

    #[inline]
    pub(crate) const fn offset(self) -> u32 {
        self.0 >> 16
    }

    #[inline]
    pub(crate) const fn pod(self) -> PodId {
        PodId::new(self.0 as u16)
    }
}

impl<const W: usize> Holders<W> {
    /// A segment of `len` blocks that one pod holds.
    pub(crate) fn of_one(pod: PodId, len: u32) -> Self {
        Self { len, base: PodSet::of_one(pod), pods: 1, ..Self::default() }
    }

    /// A segment of `len` blocks that nobody is seen to hold, while it is made.
    pub(crate) fn of_nobody(len: u32) -> Self {
        Self { len, ..Self::default() }
    }

    /// Put together from what readers see and what only writers do.
    pub(crate) fn from_parts(
        len: u32,
        base: PodSet<W>,
        drop_offs: impl Iterator<Item = DropOff>,
        detached: Option<Box<DetachedSpans>>,
    ) -> Self {
        Self { len, base, pods: base.len(), drop_offs: drop_offs.collect(), detached }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn base(&self) -> PodSet<W> {
        self.base
    }

    pub(crate) fn drop_offs(&self) -> &[DropOff] {
        &self.drop_offs
    }

    pub(crate) fn detached(&self) -> usize {
        self.detached.as_ref().map_or(0, |detached| detached.len())
    }

    pub(crate) fn detached_bytes(&self) -> usize {
        self.detached.as_ref().map_or(0, |detached| detached.bytes())
    }

    pub(crate) fn into_detached(self) -> Option<Box<DetachedSpans>> {
        let mut detached = self.detached?;
        (self.len > 0 && !detached.is_past()).then_some(detached)
    }

    /// Blocks that somebody holds. Where there are no detached spans that is all of them.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn live(&self) -> u32 {
        self.detached.as_ref().map_or(self.len, |detached| detached.live())
    }

    /// Whether somebody holds the block.
    pub(crate) fn is_live(&self, offset: u32) -> bool {
        offset < self.front() || self.detached.as_ref().is_some_and(|detached| detached.is_live(offset))
    }

    /// Whether a pod holds any block.
    pub(crate) fn has(&self, pod: PodId) -> bool {
        self.base.contains(pod) || self.detached.as_ref().is_some_and(|detached| detached.has(pod))
    }

    /// Whether a pod holds the block.
    pub(crate) fn holds(&self, pod: PodId, offset: u32) -> bool {
        offset < self.reach(pod) || self.detached.as_ref().is_some_and(|detached| detached.holds(pod, offset))
    }

    /// Who holds all blocks up to this one.
    pub(crate) fn pods_at(&self, offset: u32) -> PodSet<W> {
        let mut pods = self.base;
        self.drop_offs.iter().take_while(|drop_off| drop_off.offset() <= offset).for_each(|drop_off| {
            pods.remove(drop_off.pod());
        });
        pods
    }

    /// Which of the blocks `from..to` a pod holds, as ranges in order.
    pub(crate) fn held(&self, pod: PodId, from: u32, to: u32) -> Ranges {
        let mut held = Ranges::new();
        let reach = self.reach(pod).min(to);
        if from < reach {
            held.push((from, reach));
        }
        if let Some(detached) = &self.detached {
            detached.held(pod, from, to, &mut held);
        }
        held
    }

    /// The last blocks in a row that a pod holds.
    pub(crate) fn last_held(&self, pod: PodId) -> Option<(u32, u32)> {
        let detached = self.detached.as_ref().and_then(|detached| detached.last(pod));
        detached.or_else(|| Some((0, self.reach(pod))).filter(|(_, reach)| *reach > 0))
    }

    /// How many drop-offs there would be if `pod` made the segment longer.
    pub(crate) fn drop_offs_if_extended(&self, pod: PodId) -> usize {
        self.pods - usize::from(self.base.contains(pod) && self.reach(pod) == self.len)
    }

    /// Pods besides `pod` that hold everything.
    pub(crate) fn whole_besides(&self, pod: PodId) -> usize {
        self.drop_offs_if_extended(pod) - self.drop_offs.len()
    }

    /// A pod came to hold `from..to`; how many of these blocks nobody held before.
    pub(crate) fn add(&mut self, pod: PodId, from: u32, to: u32) -> u32 {
        let reach = self.reach(pod);
        if from > reach {
            let detached = self.count();
            let entered = detached.hold(pod, from, to);
            let (from, to) = detached.absorb(pod, from, to);
            detached.insert(pod, from, to);
            return entered;
        }
        let (mut entered, mut end) = (0, to.max(reach));
        if let Some(detached) = &mut self.detached {
            entered = detached.hold(pod, reach, end);
            (_, end) = detached.absorb(pod, 0, end);
        }
        self.set_reach(pod, end);
        entered
    }

    /// The segment grew by `count` blocks that `pod` holds and nobody held before.
    pub(crate) fn append(&mut self, pod: PodId, count: u32) {
        let end = self.len;
        let mut whole = self.base;
        for drop_off in &self.drop_offs {
            whole.remove(drop_off.pod());
        }
        let whole_before = whole.remove(pod);
        self.len += count;
        self.drop_offs.extend(whole.iter().map(|pod| DropOff::new(end, pod)));
        if let Some(detached) = &mut self.detached {
            detached.grow(count);
        }
        if !whole_before {
            self.add(pod, end, self.len);
        } else if let Some(detached) = &mut self.detached {
            detached.hold(pod, end, self.len);
        }
    }

    /// With the blocks of a segment that goes on from the last one; of those that hold all of this one, `short` have none of them.
    pub(crate) fn followed_by(&self, next: &Self, short: PodSet<W>) -> Self {
        let drop_offs = short.iter().map(|pod| DropOff::new(self.len, pod));
        let shifted = next.drop_offs.iter().map(|drop_off| DropOff::new(drop_off.offset() + self.len, drop_off.pod()));
        let drop_offs = self.drop_offs.iter().copied().chain(drop_offs).chain(shifted);
        Self {
            len: self.len + next.len,
            base: self.base,
            pods: self.pods,
            drop_offs: drop_offs.collect(),
            detached: None,
        }
    }

    /// A pod lost `from..to`; how many of these blocks nobody holds any more. The segment ends with its last held block.
    pub(crate) fn remove(&mut self, pod: PodId, from: u32, to: u32) -> u32 {
        let (reach, len) = (self.reach(pod), self.len);
        if to < reach {
            self.count();
        }
        let gone = self.detached.as_mut().map(|detached| detached.remove(pod, from, to, reach));
        if from < reach {
            self.set_reach(pod, from);
            if to < reach {
                self.count().insert(pod, to, reach);
            }
        }
        self.trim();
        gone.unwrap_or(len - self.len)
    }

    /// The detached spans, with every block's holders counted.
    fn count(&mut self) -> &mut DetachedSpans {
        let Self { len, pods, ref drop_offs, .. } = *self;
        self.detached.get_or_insert_with(|| {
            let mut holders = vec![pods as u16; len as usize];
            for (at, drop_off) in drop_offs.iter().enumerate() {
                let end = drop_offs.get(at + 1).map_or(len, |next| next.offset());
                holders[drop_off.offset() as usize..end as usize].fill((pods - at - 1) as u16);
            }
            Box::new(DetachedSpans::of(holders))
        })
    }

    /// Leading blocks of the segment that the pod holds.
    fn reach(&self, pod: PodId) -> u32 {
        if !self.base.contains(pod) {
            return 0;
        }
        self.drop_offs.iter().find(|drop_off| drop_off.pod() == pod).map_or(self.len, |drop_off| drop_off.offset())
    }

    fn set_reach(&mut self, pod: PodId, reach: u32) {
        if self.base.insert(pod) {
            self.pods += 1;
        } else {
            self.drop_offs.retain(|drop_off| drop_off.pod() != pod);
        }
        if reach == 0 {
            self.base.remove(pod);
            self.pods -= 1;
        } else if reach < self.len {
            let drop_off = DropOff::new(reach, pod);
            let at = self.drop_offs.partition_point(|other| *other < drop_off);
            self.drop_offs.insert(at, drop_off);
        }
    }

    /// Leading blocks that some pod holds together with all before them.
    fn front(&self) -> u32 {
        if self.pods > self.drop_offs.len() {
            self.len
        } else {
            self.drop_offs.last().map_or(0, |drop_off| drop_off.offset())
        }
    }

    fn trim(&mut self) {
        let end = match &mut self.detached {
            Some(detached) => detached.trim(),
            None => self.front(),
        };
        if end < self.len {
            self.len = end;
            while self.drop_offs.last().is_some_and(|drop_off| drop_off.offset() == end) {
                self.drop_offs.pop();
            }
        }
    }

    /// Panics if the parts contradict each other.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn audit(&self) {
        assert!(self.drop_offs.is_sorted(), "{self:?} is in order");
        let mut drop_off = PodSet::EMPTY;
        for one in &self.drop_offs {
            assert!(
                one.offset() > 0 && one.offset() < self.len && drop_off.insert(one.pod()),
                "{self:?} has each pod drop off once"
            );
        }
        assert!(
            drop_off.is_subset(&self.base) && self.pods == self.base.len(),
            "{self:?} has those drop off who are there"
        );
        let mut before = None;
        for (pod, from, to) in self.detached.iter().flat_map(|detached| detached.iter()) {
            assert!(from > self.reach(pod) && from < to && to <= self.len, "{self:?} has real spans");
            assert!(before.is_none_or(|(of, end)| of != pod || end < from), "{self:?} keeps spans apart");
            before = Some((pod, to));
        }
        assert!(self.len == 0 || self.is_live(self.len - 1), "{self:?} ends with a held block");
        for (offset, &holders) in self.detached.iter().flat_map(|detached| detached.holders()).enumerate() {
            let count = (0..PodSet::<W>::CAPACITY).filter(|pod| self.holds(PodId::from_index(*pod), offset as u32));
            assert_eq!(count.count(), usize::from(holders), "{self:?} counts right");
        }
        let counted = self.detached.as_ref().map(|detached| detached.holders().len());
        assert!(counted.is_none_or(|counted| counted == self.len as usize), "{self:?} counts all");
    }
}

/// Drop-offs kept in the segment itself.
pub(crate) const INLINE: usize = if cfg!(routing_loom) { 1 } else { 12 };

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Op {
        Add(u16, u32, u32),
        Append(u16, u32),
        Remove(u16, u32, u32),
        Drop(u16),
    }

    fn op() -> impl Strategy<Value = Op> {
        let pod = 0u16..5;
        prop_oneof![
            6 => (pod.clone(), 0u32..12, 1u32..12).prop_map(|(p, a, n)| Op::Add(p, a, n)),
            3 => (pod.clone(), 1u32..4).prop_map(|(p, n)| Op::Append(p, n)),
            6 => (pod.clone(), 0u32..12, 1u32..6).prop_map(|(p, a, n)| Op::Remove(p, a, n)),
            1 => pod.prop_map(Op::Drop),
        ]
    }

    proptest! {
        /// The literal model: a set of (pod, offset).
        #[test]
        fn holders_are_a_set_of_pods_and_offsets(ops in prop::collection::vec(op(), 0..60)) {
            let mut held: BTreeSet<(u16, u32)> = BTreeSet::from([(0, 0), (0, 1), (0, 2)]);
            let mut holders = Holders::<1>::of_one(PodId::new(0), 3);
            let live = |held: &BTreeSet<(u16, u32)>| held.iter().map(|(_, at)| *at).collect::<BTreeSet<_>>();
            for op in ops {
                let before = live(&held).len();
                if holders.len() == 0 {
                    break;
                }
                let changed = match op {
                    Op::Add(pod, from, count) => {
                        let (from, to) = (from % holders.len(), (from % holders.len() + count).min(holders.len()));
                        held.extend((from..to).map(|at| (pod, at)));
                        i64::from(holders.add(PodId::new(pod), from, to))
                    }
                    Op::Append(pod, count) => {
                        held.extend((holders.len()..holders.len() + count).map(|at| (pod, at)));
                        holders.append(PodId::new(pod), count);
                        i64::from(count)
                    }
                    Op::Remove(pod, from, count) => {
                        held.retain(|(p, at)| *p != pod || !(from..from + count).contains(at));
                        -i64::from(holders.remove(PodId::new(pod), from, from + count))
                    }
                    Op::Drop(pod) => {
                        held.retain(|(p, _)| *p != pod);
                        {
                        let len = holders.len();
                        -i64::from(holders.remove(PodId::new(pod), 0, len))
                    }
                    }
                };
                holders.audit();
                let live = live(&held);
                prop_assert_eq!(live.len() as i64 - before as i64, changed);
                prop_assert_eq!(holders.live() as usize, live.len());
                prop_assert_eq!(holders.len(), live.last().map_or(0, |at| at + 1));
                for offset in 0..holders.len() {
                    prop_assert_eq!(holders.is_live(offset), live.contains(&offset));
                    for pod in 0..5 {
                        prop_assert_eq!(holders.holds(PodId::new(pod), offset), held.contains(&(pod, offset)));
                    }
                }
            }
        }
    }
}
