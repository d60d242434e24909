//! Pods with holes: what a search by position gets wrong of them, put right.
//!
//! Below a pod's first hole on a chain its blocks are closed under prefixes, so a search that ends there is exact.
//! A pod whose holes are not all known is scanned for, which is the definition.

use super::prompt::Prompt;
use crate::block::BlockHash;
use crate::index::Index;
use crate::ledger::Ledger;
use crate::matches::Group;
use crate::pod::PodId;
use crate::podset::PodSet;
use crate::reclaim::Pin;

impl<const WORDS: usize> Index<WORDS> {
    /// The pods of `holed` that a search by position may get wrong on this chain.
    #[inline]
    pub(super) fn on_chain(&self, holed: PodSet<WORDS>, chain: &[BlockHash], pin: &Pin) -> PodSet<WORDS> {
        if holed.is_empty() {
            return holed;
        }
        let wrong = |pod: &PodId| match self.ledgers.of(*pod, pin) {
            None => false,
            Some(Ledger::Scan) => true,
            Some(Ledger::Holes(holes)) => first_hole(holes, chain) < chain.len(),
        };
        holed.iter().filter(wrong).collect()
    }

    /// Files pods with holes on the chain: each by a search below its first hole, where it has none, or by
    /// scanning.
    pub(super) fn correct(
        &self,
        suspects: PodSet<WORDS>,
        chain: &mut impl Prompt,
        groups: &mut Vec<Group<WORDS>>,
        probes: &mut usize,
        pin: &Pin,
    ) {
        let mut scan = PodSet::EMPTY;
        for pod in suspects {
            match self.ledgers.of(pod, pin) {
                Some(Ledger::Holes(holes)) => {
                    let hashes = chain.hashes();
                    let (mut held, mut end) = (0, first_hole(holes, hashes).min(hashes.len()));
                    while held < end {
                        let middle = held + (end - held) / 2;
                        *probes += 1;
                        let set = self.table.probe(hashes[middle], pin).set();
                        if self.sets.pods(set).contains(pod) {
                            held = middle + 1;
                        } else {
                            end = middle;
                        }
                    }
                    file(groups, held, [pod].into_iter().collect());
                }
                _ => drop(scan.insert(pod)),
            }
        }
        if !scan.is_empty() {
            self.scan_for(scan, chain, groups, probes, pin);
        }
    }

    /// Looks at every block until none of `pods` is left.
    pub(super) fn scan_for(
        &self,
        pods: PodSet<WORDS>,
        chain: &mut impl Prompt,
        groups: &mut Vec<Group<WORDS>>,
        probes: &mut usize,
        pin: &Pin,
    ) {
        let mut left = pods;
        for depth in 0..chain.len() {
            *probes += 1;
            let hash = chain.reach(depth + 1)[depth];
            let still = self.sets.pods(self.table.probe(hash, pin).set()) & left;
            file(groups, depth, left - still);
            left = still;
            if left.is_empty() {
                return;
            }
        }
        file(groups, chain.len(), left);
    }
}

/// Files `pods` under `depth`, keeping the groups deepest first.
fn file<const W: usize>(groups: &mut Vec<Group<W>>, depth: usize, pods: PodSet<W>) {
    if depth == 0 || pods.is_empty() {
        return;
    }
    let at = groups.partition_point(|group| group.depth > depth);
    match groups.get_mut(at) {
        Some(group) if group.depth == depth => group.pods = group.pods | pods,
        _ => groups.insert(at, Group { depth, pods }),
    }
}

/// The position of the pod's first hole on the chain, or one past every chain.
fn first_hole(holes: &[(u32, BlockHash)], chain: &[BlockHash]) -> usize {
    let on_chain = holes.iter().filter(|(at, hash)| chain.get(*at as usize) == Some(hash));
    on_chain.map(|(at, _)| *at as usize).min().unwrap_or(usize::MAX)
}
