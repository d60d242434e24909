//! Pods that may have elsewhere what they seem to lack: where segments are doubled, or a pod is loose.

use super::prompt::{GALLOP, Prompt};
use super::{Stand, Walk, file, on_chain, push};
use crate::pods::PodSet;
use crate::segments::{BlockPosition, SegmentId, View};

impl<const W: usize> Walk<'_, '_, W> {
    /// The same where a pod may have elsewhere what it lacks here.
    #[cold]
    pub(super) fn follow_warily(
        &mut self,
        segment: View<'_, W>,
        id: SegmentId,
        chain: &mut impl Prompt,
        now: &mut Stand<W>,
    ) {
        let (base, at, doubled) = (segment.base(), now.at, segment.is_doubled());
        let dropped = now.left - base;
        self.drop_off(chain, at, dropped, now.doubled | doubled, Some(BlockPosition { segment: id, offset: 0 }));
        now.left = now.left & base;
        let agreed = self.agreed(segment, chain, at);
        let hashes = &chain.hash_up_to(at + agreed)[at..at + agreed];
        let is_on = |offset: usize| segment.has(offset - 1, hashes[offset - 1]) && segment.has(offset, hashes[offset]);
        let stops = segment
            .drop_offs()
            .filter(|drop_off| now.left.contains(drop_off.pod()))
            .map(|drop_off| drop_off.offset() as usize);
        // Who did not say that a block follows what lies before it has all of it only as far as that is on the chain.
        let is_unsaid = segment.is_unsaid() && !(now.left & self.loose).is_empty() && !segment.is_on_chain();
        let is_sure = !is_unsaid && stops.take_while(|offset| *offset < agreed).all(is_on);
        let agreed = if is_sure { agreed } else { on_chain(segment, hashes) };
        if is_unsaid && agreed == segment.len() {
            // The next search need not look again.
            segment.set_on_chain();
        }
        now.at += agreed;
        // Those that stop at one block together: one look-up is enough for them.
        let mut stop: Option<(u32, PodSet<W>)> = None;
        for drop_off in segment.drop_offs().take_while(|drop_off| (drop_off.offset() as usize) < agreed) {
            if !now.left.remove(drop_off.pod()) {
                continue;
            }
            match &mut stop {
                Some((offset, pods)) if *offset == drop_off.offset() => drop(pods.insert(drop_off.pod())),
                _ => {
                    self.stop_at(chain, at, stop, doubled, id);
                    stop = Some((drop_off.offset(), [drop_off.pod()].into_iter().collect()));
                }
            }
        }
        self.stop_at(chain, at, stop, doubled, id);
    }

    /// Files pods that stop at a drop-off of a segment that begins at `at`.
    fn stop_at(
        &mut self,
        chain: &mut impl Prompt,
        at: usize,
        stop: Option<(u32, PodSet<W>)>,
        doubled: bool,
        segment: SegmentId,
    ) {
        if let Some((offset, pods)) = stop {
            self.drop_off(chain, at + offset as usize, pods, doubled, Some(BlockPosition { segment, offset }));
        }
    }

    /// Files pods that lack the block at `depth` where the walk sees it; those that may have it elsewhere, if they have.
    pub(super) fn drop_off(
        &mut self,
        chain: &mut impl Prompt,
        depth: usize,
        pods: PodSet<W>,
        doubled: bool,
        here: Option<BlockPosition>,
    ) {
        let suspects = if doubled { pods } else { pods & self.loose };
        if suspects.is_empty() {
            push(self.groups, depth, pods);
        } else {
            self.look_elsewhere(chain, depth, pods, suspects, here);
        }
    }

    #[cold]
    fn look_elsewhere(
        &mut self,
        chain: &mut impl Prompt,
        depth: usize,
        pods: PodSet<W>,
        suspects: PodSet<W>,
        here: Option<BlockPosition>,
    ) {
        let hash = chain.hash_up_to(depth + 1)[depth];
        *self.lookups += 1;
        let apart = self.index.segments.elsewhere(suspects, hash, here, self.pin);
        if !apart.is_empty() {
            self.apart.push((depth, apart));
        }
        push(self.groups, depth, pods - apart);
    }

    /// Files the pods that have a block elsewhere: each goes on by itself, segment by segment.
    #[cold]
    pub(super) fn finish_apart(&mut self, chain: &mut impl Prompt) {
        for (depth, pods) in std::mem::take(&mut self.apart) {
            for pod in pods {
                let mut depth = depth;
                loop {
                    let to = (depth + GALLOP).min(chain.len());
                    *self.lookups += 1;
                    match self.index.segments.stride(pod, &chain.hash_up_to(to)[depth..to], self.pin) {
                        0 => break,
                        on => depth += on,
                    }
                }
                file(self.groups, depth, pod);
            }
        }
    }
}
