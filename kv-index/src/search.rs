//! Longest-prefix search for all pods at once: drop-off depths, segment (run) by segment.
//!
//! A search begins with every live pod. It looks up the run that begins with the chain's first block, leaves out the
//! pods that do not hold that, then those that stop within the part of the run which lies on the chain, and goes on
//! with the block behind that part as the head of the next run, until nobody is left or no run begins there.
//! Whoever lacks a block is out from there on, so holes need no thought. Unlinked pods take no part in this: the
//! runs do not say all there is to say of them, and they are asked themselves.
//!
//! [`Index::scan`] is the definition, pod by pod and block by block; every other search must answer the same.

mod prompt;

use crate::block::BlockHash;
use crate::chain_source::ChainSource;
use crate::index::Index;
use crate::matches::{DepthGroup, Matches};
use crate::pod::PodId;
use crate::podset::PodSet;
use crate::reclaim::{Pin, pin};
use crate::runs::{RunId, View};
use crate::search::prompt::{GALLOP, Prompt};

impl<const WORDS: usize> Index<WORDS> {
    /// Finds how many leading blocks of `chain` each live pod holds.
    ///
    /// `chain` is one prompt's block hashes in order. The answer equals [`Index::scan`]'s, holes or not. Of pods that
    /// change meanwhile it counts no block that they did not hold at some moment of the call, and every prefix that they
    /// held all the while.
    pub fn search(&self, chain: &[BlockHash], matches: &mut Matches<WORDS>) {
        matches.blocks = chain.len();
        self.attempt(chain, matches);
    }

    /// The same for a prompt that is hashed on demand: hashes in proportion to what matched.
    pub fn search_lazy(&self, chain: &mut (impl ChainSource + ?Sized), matches: &mut Matches<WORDS>) {
        matches.blocks = chain.len();
        self.attempt(chain, matches);
    }

    /// The definition of a search: asks every pod for every block until it lacks one. Locks each pod for a moment.
    pub fn scan(&self, mut chain: &[BlockHash], matches: &mut Matches<WORDS>) {
        matches.blocks = chain.len();
        matches.groups.clear();
        matches.lookups = 0;
        self.scan_for(self.registry.alive(), &mut chain, &mut matches.groups);
    }

    /// Walks until no run that was passed, and nobody's identity, changed in the course of it.
    fn attempt(&self, mut chain: impl Prompt, matches: &mut Matches<WORDS>) {
        let Matches { groups, lookups, passed, .. } = matches;
        groups.clear();
        let Some(&first) = chain.hash_up_to(1).first() else {
            *lookups = 0;
            return;
        };
        let place = self.heads.prefetch(first);
        let pin = pin();
        let unlinked = self.unlinked();
        // Nobody has the first block: nobody has anything. The commonest cold prompt ends here.
        *lookups = 1;
        match self.heads.probe_at(first, place, &pin) {
            // Its lines are on their way while we look who is there.
            Some(run) => self.runs.prefetch(run),
            None if unlinked.is_empty() => return,
            None => {}
        }
        *lookups = 0;
        for _ in 0..ATTEMPTS {
            let joins = self.registry.joins();
            let alive = self.registry.alive();
            let unlinked = self.unlinked() & alive;
            groups.clear();
            let steady = Walk { index: self, pin: &pin, groups, lookups, passed }.run(&mut chain, alive - unlinked);
            if !unlinked.is_empty() {
                self.scan_for(unlinked, &mut chain, groups);
            }
            if steady && self.registry.joins() == joins {
                break;
            }
        }
    }

    /// Asks the pods themselves, each under its lock: what they hold, whatever it is said to follow.
    fn scan_for(&self, pods: PodSet<WORDS>, chain: &mut impl Prompt, groups: &mut Vec<DepthGroup<WORDS>>) {
        for pod in pods {
            let cache = self.cache_of(pod);
            if !self.registry.alive().contains(pod) {
                // Retired meanwhile: its map may be half taken apart.
                continue;
            }
            let mut depth = 0;
            while depth < chain.len() && cache.find(chain.hash_up_to(depth + 1)[depth]).is_some() {
                depth += 1;
            }
            drop(cache);
            file(groups, depth, pod);
        }
    }
}

/// One way along a chain.
struct Walk<'a, 'p, const W: usize> {
    index: &'a Index<W>,
    pin: &'p Pin,
    groups: &'a mut Vec<DepthGroup<W>>,
    lookups: &'a mut usize,
    /// Runs that were walked, with their versions.
    passed: &'a mut Vec<(RunId, u64)>,
}

impl<const W: usize> Walk<'_, '_, W> {
    /// Files each of `pods` under the depth it reaches, deepest first; whether all runs were of one moment.
    fn run(&mut self, chain: &mut impl Prompt, pods: PodSet<W>) -> bool {
        self.passed.clear();
        let (mut left, mut at) = (pods, 0);
        while at < chain.len() && !left.is_empty() {
            let head = chain.hash_up_to(at + 1)[at];
            *self.lookups += 1;
            let Some(id) = self.index.heads.probe(head, self.pin) else { break };
            self.index.runs.prefetch(id);
            let run = self.index.runs.view(id, self.pin);
            if !run.begins_with(head) {
                // Given up between our finding and reading it, and so no longer found: another look.
                continue;
            }
            let (filed, were_left) = (self.groups.len(), left);
            let agreed = self.follow(run, chain, at, &mut left);
            if !run.is_current() {
                // Again from this run on; what was filed for it may be of two moments.
                self.groups.truncate(filed);
                left = were_left;
                continue;
            }
            self.passed.push((id, run.version()));
            at += agreed;
        }
        push(self.groups, at, left);
        self.groups.reverse();
        self.passed.iter().all(|&(run, version)| self.index.runs.is_at(run, version))
    }

    /// Leaves out the pods that stop in this run, which begins at `at`; how much of the run is on the chain.
    #[inline]
    fn follow(&mut self, run: View<'_, W>, chain: &mut impl Prompt, at: usize, left: &mut PodSet<W>) -> usize {
        let base = run.base();
        push(self.groups, at, *left - base);
        *left = *left & base;
        let filed = self.groups.len();
        let agreed = self.agreed(run, chain, at);
        for cut in run.cuts() {
            let offset = cut.offset() as usize;
            if offset >= agreed {
                break;
            }
            if left.remove(cut.pod()) {
                let depth = at + offset;
                match self.groups.last_mut() {
                    Some(group) if group.depth == depth => drop(group.pods.insert(cut.pod())),
                    _ => self.groups.push(DepthGroup { depth, pods: [cut.pod()].into_iter().collect() }),
                }
            }
        }
        // Who stops in a run that no other goes on from has nothing further on, whatever the run is.
        if !run.is_forked() || self.groups.len() == filed {
            return agreed;
        }
        let hashes = chain.hash_up_to(at + agreed);
        let is_apart = |group: &DepthGroup<W>| !run.has(group.depth - at, hashes[group.depth]);
        match self.groups[filed..].iter().position(is_apart) {
            Some(group) => self.leave(run, &hashes[at..], filed + group, at, left),
            None => agreed,
        }
    }

    /// A pod named a false parent: the chain leaves the run before the group that is the first not on it, and comes upon a
    /// block of the run again further on. Who was filed from there on goes on; how much of the run is on the chain.
    #[cold]
    fn leave(
        &mut self,
        run: View<'_, W>,
        hashes: &[BlockHash],
        group: usize,
        at: usize,
        left: &mut PodSet<W>,
    ) -> usize {
        let apart = self.groups[group].depth - at;
        for group in self.groups.drain(group..) {
            *left = *left | group.pods;
        }
        hashes[..apart].iter().enumerate().take_while(|&(at, &hash)| run.has(at, hash)).count()
    }

    /// How many blocks of the run, whose first is on the chain at `at`, are.
    #[inline]
    fn agreed(&mut self, run: View<'_, W>, chain: &mut impl Prompt, at: usize) -> usize {
        let end = at + run.len();
        if end <= chain.len() && chain.within_reach(end) {
            // What follows the run is looked up next: fetch it meanwhile.
            let hashes = chain.hash_up_to((end + 1).min(chain.len()));
            if let Some(&next) = hashes.get(end) {
                self.index.heads.prefetch(next);
            }
            if run.ends_with(hashes[end - 1]) {
                return run.len();
            }
        }
        let most = run.len().min(chain.len() - at);
        run.prefetch_hashes(most / 2);
        run.prefetch_hashes(most - 1);
        let mut on = 1;
        while on < most {
            let to = if chain.within_reach(at + most) { most } else { (2 * on + GALLOP).min(most) };
            let hashes = &chain.hash_up_to(at + to)[at..];
            if run.has(to - 1, hashes[to - 1]) {
                on = to;
                continue;
            }
            let off = to - 1;
            return on + partition(off - on, |n| run.has(on + n, hashes[on + n]));
        }
        on
    }
}

/// How many of `len` places, from the first on, `is` holds for; it holds for no place behind one that it does not hold for.
#[inline]
fn partition(len: usize, is: impl Fn(usize) -> bool) -> usize {
    let (mut on, mut off) = (0, len);
    while on < off {
        let middle = on + (off - on) / 2;
        if is(middle) {
            on = middle + 1;
        } else {
            off = middle;
        }
    }
    on
}

/// Files pods under a depth beyond all others.
#[inline]
fn push<const W: usize>(groups: &mut Vec<DepthGroup<W>>, depth: usize, pods: PodSet<W>) {
    if depth > 0 && !pods.is_empty() {
        groups.push(DepthGroup { depth, pods });
    }
}

/// Files a pod under a depth, keeping the groups deepest first.
fn file<const W: usize>(groups: &mut Vec<DepthGroup<W>>, depth: usize, pod: PodId) {
    if depth == 0 {
        return;
    }
    let at = groups.partition_point(|group| group.depth > depth);
    match groups.get_mut(at) {
        Some(group) if group.depth == depth => drop(group.pods.insert(pod)),
        _ => groups.insert(at, DepthGroup { depth, pods: [pod].into_iter().collect() }),
    }
}

/// Searches begun again because something changed under way. After that many the last answer stands: of each
/// run exact, possibly of two moments for a pod that keeps changing in several.
const ATTEMPTS: usize = 4;

#[cfg(all(test, not(routing_loom)))]
mod tests;
