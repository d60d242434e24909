//! Claims: what each holder of a segment's first block said that it follows.
//!
//! A segment goes by one claim, its *parent*; who claims something else, or said nothing, is kept apart by what it said until it leaves.
//! The claim of most holders is the parent, the newest one among equals. It changes no answer which one that is: before the first block comes to lie
//! behind what the parent says, whoever did not say so becomes loose, and is looked up where it stops.

use crate::blocks::Parent;
use crate::pods::{PodId, PodSet};
use crate::segments::placing::Anchor;
use crate::segments::segment::Writing;
use crate::segments::{SegmentId, Segments};
use crate::writers::WritePin;

/// Holders of a segment's first block that claim something else than its parent, by what they claim.
#[derive(Debug)]
pub(super) struct Dissent<const W: usize>(Vec<(Parent, PodSet<W>)>);

impl<const W: usize> Dissent<W> {
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.0.capacity() * size_of::<(Parent, PodSet<W>)>()
    }

    /// What a pod claims, if that is not the parent.
    pub(super) fn of(&self, pod: PodId) -> Option<Parent> {
        self.0.iter().find(|(_, pods)| pods.contains(pod)).map(|(claim, _)| *claim)
    }

    fn pods(&self) -> PodSet<W> {
        self.0.iter().fold(PodSet::EMPTY, |all, (_, pods)| all | *pods)
    }
}

/// Who agrees with a segment's parent, who claims something else, and who said nothing.
pub(super) struct Sides<const W: usize> {
    pub(super) agree: PodSet<W>,
    pub(super) contradict: PodSet<W>,
    pub(super) silent: PodSet<W>,
}

impl<const W: usize> Writing<'_, W> {
    /// What a holder of the first block says that it follows.
    pub(super) fn claim_of(&self, pod: PodId) -> Parent {
        self.dissent().and_then(|dissent| dissent.of(pod)).unwrap_or(self.parent())
    }

    /// The holders of the first block by what they say that it follows.
    pub(super) fn sides(&self) -> Sides<W> {
        let base = self.holders.base();
        let (mut contradict, mut silent) = (PodSet::EMPTY, PodSet::EMPTY);
        for (claim, pods) in self.dissent().iter().flat_map(|dissent| &dissent.0) {
            let side = if *claim == Parent::Unknown { &mut silent } else { &mut contradict };
            *side = *side | *pods & base;
        }
        Sides { agree: base - contradict - silent, contradict, silent }
    }

    /// A pod that comes to hold the first block, or does already, says what it follows. Whether something else was said.
    fn claim(&mut self, pod: PodId, claim: Parent) -> bool {
        let (parent, base) = (self.parent(), self.holders.base());
        if claim == Parent::Unknown && base.contains(pod) || claim == parent && self.dissent().is_none() {
            return false;
        }
        let mut dissent = self.take_dissent().unwrap_or(Dissent(Vec::new()));
        for (_, pods) in &mut dissent.0 {
            // Who left, and perhaps came back as this one does.
            *pods = *pods & base;
            pods.remove(pod);
        }
        if claim != parent {
            match dissent.0.iter_mut().find(|(other, _)| *other == claim) {
                Some((_, pods)) => drop(pods.insert(pod)),
                None => dissent.0.push((claim, PodSet::of_one(pod))),
            }
        }
        self.elect(dissent, base | PodSet::of_one(pod), Some(claim));
        claim != Parent::Unknown && parent != Parent::Unknown && claim != parent
    }

    /// Lets the claim of most of these pods be the parent; of those that as many make, the parent stays, but for the newest one, if one was made.
    fn elect(&mut self, mut dissent: Dissent<W>, pods: PodSet<W>, newest: Option<Parent>) {
        dissent.0.retain(|(_, pods)| !pods.is_empty());
        let agree = pods - dissent.pods();
        let votes = |(claim, pods): &(Parent, PodSet<W>)| 2 * pods.len() + usize::from(Some(*claim) == newest);
        let claims = dissent.0.iter().enumerate().filter(|(_, (claim, _))| *claim != Parent::Unknown);
        let most = claims.map(|(at, claim)| (votes(claim), at)).max();
        if let Some((_, at)) = most.filter(|(votes, _)| *votes > 2 * agree.len() || self.parent() == Parent::Unknown) {
            let (claim, _) = dissent.0.swap_remove(at);
            if !agree.is_empty() {
                dissent.0.push((self.parent(), agree));
            }
            self.set_parent(claim);
        }
        self.set_dissent((!dissent.0.is_empty()).then_some(dissent));
    }
}

impl<const W: usize> Segments<W> {
    /// A pod that comes to hold a segment's first block, or does already, says what it follows. Whether something else was said.
    pub(super) fn hear(
        &self,
        pod: PodId,
        anchor: Anchor,
        segment: &mut Writing<'_, W>,
        id: SegmentId,
        pin: &WritePin<'_>,
    ) -> bool {
        let before = segment.parent();
        let contradicted = segment.claim(pod, anchor.parent());
        if segment.parent() != before {
            self.wait_no_more(segment, before, id, pin);
            if let (Anchor::Nowhere(_), Parent::Block(parent)) = (anchor, segment.parent()) {
                self.wait(segment, id, parent, pin);
            }
        }
        contradicted
    }

    /// Pods left: the claim of most of those that still hold the first block is the parent. Whether that is another one now.
    pub(super) fn recount(&self, segment: &mut Writing<'_, W>, id: SegmentId, pin: &WritePin<'_>) -> bool {
        let Some(mut dissent) = segment.take_dissent() else { return false };
        let (before, base) = (segment.parent(), segment.holders.base());
        dissent.0.iter_mut().for_each(|(_, pods)| *pods = *pods & base);
        segment.elect(dissent, base, None);
        if segment.parent() == before {
            return false;
        }
        self.wait_no_more(segment, before, id, pin);
        if let Parent::Block(parent) = segment.parent() {
            if self.places(parent, pin).is_empty() {
                self.wait(segment, id, parent, pin);
            }
        }
        true
    }
}

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::blocks::BlockHash;
    use crate::directory::spread::Spread;
    use crate::segments::Take;
    use crate::writers::of_many as pin;

    /// A pod says what the one block follows, or leaves.
    fn op() -> impl Strategy<Value = (u16, Option<Parent>)> {
        let claim = prop_oneof![
            Just(Parent::Unknown),
            Just(Parent::Root),
            (2u64..4).prop_map(|n| Parent::Block(BlockHash::new(n))),
        ];
        (0u16..5, prop::option::weighted(0.7, claim))
    }

    proptest! {
        /// The literal model: what each pod said last, for as long as it holds the block.
        #[test]
        fn each_holder_is_kept_by_what_it_said_last(ops in prop::collection::vec(op(), 1..30)) {
            let segments = Segments::<1>::new(Spread::default());
            let (mut said, block, pin) = (BTreeMap::new(), [BlockHash::new(1)], pin());
            for (pod, claim) in ops {
                match claim {
                    None => said.remove(&pod),
                    Some(Parent::Unknown) if said.contains_key(&pod) => None,
                    Some(claim) => said.insert(pod, claim),
                };
                let place = segments.heads.probe(block[0], &pin);
                let took = match (claim, place) {
                    (Some(claim), _) => Some(segments.take(PodId::new(pod), Anchor::Nowhere(claim), &block, true, &pin)),
                    (None, Some(id)) => { segments.drop_pod(PodId::new(pod), id, &pin); None }
                    (None, None) => None,
                };
                prop_assert!(took.is_none_or(|took| matches!(took, Take::Taken(_))));
                let Some(id) = segments.heads.probe(block[0], &pin) else {
                    prop_assert!(said.is_empty());
                    continue;
                };
                let segment = segments.lock(id, &pin);
                let kept = segment.holders.base().iter().map(|pod| (pod.index() as u16, segment.claim_of(pod)));
                prop_assert_eq!(&kept.collect::<BTreeMap<_, _>>(), &said);
                // Votes are counted when somebody claims something or leaves, and not when one comes that says nothing.
                if claim != Some(Parent::Unknown) && said.values().any(|claim| *claim != Parent::Unknown) {
                    let votes = |of: Parent| said.values().filter(|&&claim| claim == of).count();
                    let most = said.values().filter(|claim| **claim != Parent::Unknown).map(|claim| votes(*claim)).max();
                    prop_assert_eq!(Some(votes(segment.parent())), most);
                }
            }
        }
    }
}
