//! Longest-prefix search for all pods at once: drop-off depths, segment by segment.
//!
//! A search begins with every live pod. It looks up the segment that begins with the chain's first block, leaves out the
//! pods that do not hold that, then those that stop within the part of the segment which lies on the chain, and goes on
//! with the block behind that part as the head of the next segment, until nobody is left or no segment begins there.
//! Whoever lacks a block is out from there on, so holes need no thought. Where pods contradicted each other about a segment, or a pod is
//! loose, the block that a pod seems to lack is looked up: it may have it elsewhere, and goes on from there by itself.
//!
//! [`Index::scan`] is the definition, pod by pod and block by block; every other search must answer the same of all pods that did not say something
//! false of what a block follows. Of one that did it may find less.

mod elsewhere;
mod prompt;

use crate::blocks::{BlockHash, ChainSource};
use crate::index::Index;
use crate::index::matches::{DepthGroup, Matches};
use crate::index::search::prompt::{GALLOP, Prompt};
use crate::pods::{PodId, PodSet};
use crate::reclamation::{Pin, pin};
use crate::segments::{SegmentId, View};

impl<const WORDS: usize> Index<WORDS> {
    /// Finds how many leading blocks of `chain` each live pod holds.
    ///
    /// `chain` is one prompt's block hashes in order. The answer equals [`Index::scan`]'s, holes or not; of a pod that said something false of
    /// what a block follows it may be less. Of pods that
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
    pub fn scan(&self, chain: &[BlockHash], matches: &mut Matches<WORDS>) {
        matches.blocks = chain.len();
        matches.groups.clear();
        matches.lookups = 0;
        let pin = pin();
        for pod in self.registry.alive() {
            let _cache = self.cache_of(pod);
            if !self.registry.alive().contains(pod) {
                // Retired meanwhile: it may be half swept.
                continue;
            }
            let depth = chain.iter().take_while(|&&hash| self.segments.find(pod, hash, &pin).is_some()).count();
            file(&mut matches.groups, depth, pod);
        }
    }

    /// Walks until no segment that was passed, and nobody's identity, changed in the course of it.
    fn attempt(&self, mut chain: impl Prompt, matches: &mut Matches<WORDS>) {
        let Matches { groups, lookups, passed, .. } = matches;
        groups.clear();
        let Some(&first) = chain.hash_up_to(1).first() else {
            *lookups = 0;
            return;
        };
        let place = self.segments.heads.prefetch(first);
        let pin = pin();
        // Nobody has the first block: nobody has anything. The commonest cold prompt ends here.
        *lookups = 1;
        match self.segments.heads.probe_at(first, place, &pin) {
            // Its lines are on their way while we look who is there.
            Some(segment) => self.segments.prefetch(segment, &pin),
            None if self.segments.loose().is_empty() => return,
            None => {
                *lookups += 1;
                if self.segments.directory.candidates(first, &pin).is_empty() {
                    return;
                }
            }
        }
        *lookups = 0;
        for _ in 0..ATTEMPTS {
            let (joins, loosened) = (self.registry.joins(), self.segments.loosened());
            let loose = self.segments.loose();
            let is_wary = !loose.is_empty();
            groups.clear();
            let mut walk = Walk { index: self, pin: &pin, groups, lookups, passed, loose, is_wary, apart: Vec::new() };
            let steady = walk.walk(&mut chain, self.registry.alive()) && self.registry.joins() == joins;
            // Who became loose meanwhile was to be looked up where it stopped.
            if steady && self.segments.loosened() == loosened {
                break;
            }
        }
    }
}

/// One way along a chain.
struct Walk<'a, 'p, const W: usize> {
    index: &'a Index<W>,
    pin: &'p Pin,
    groups: &'a mut Vec<DepthGroup<W>>,
    lookups: &'a mut usize,
    /// Segments that were walked, with their versions.
    passed: &'a mut Vec<(SegmentId, u64)>,
    /// Pods that may have what they seem to lack, and whether there are any.
    loose: PodSet<W>,
    is_wary: bool,
    /// Pods that have, elsewhere, the block behind this depth.
    apart: Vec<(usize, PodSet<W>)>,
}

/// Where a walk stands.
struct Stand<const W: usize> {
    at: usize,
    left: PodSet<W>,
    /// Whether the segment that was passed last is doubled.
    doubled: bool,
}

impl<const W: usize> Walk<'_, '_, W> {
    /// Files each of `pods` under the depth it reaches, deepest first; whether all segments were of one moment.
    fn walk(&mut self, chain: &mut impl Prompt, pods: PodSet<W>) -> bool {
        self.passed.clear();
        let (mut now, mut restarts) = (Stand { at: 0, left: pods, doubled: false }, 0);
        while now.at < chain.len() && !now.left.is_empty() {
            let head = chain.hash_up_to(now.at + 1)[now.at];
            *self.lookups += 1;
            let Some(id) = self.index.segments.heads.probe(head, self.pin) else {
                match self.passed.last() {
                    // What was behind the last segment may be part of it now: once more from the start.
                    Some(&(segment, version))
                        if restarts < RESTARTS && !self.index.segments.is_at(segment, version, self.pin) =>
                    {
                        restarts += 1;
                        self.passed.clear();
                        self.groups.clear();
                        self.apart.clear();
                        now = Stand { at: 0, left: pods, doubled: false };
                        continue;
                    }
                    _ => break,
                }
            };
            let segment = self.index.segments.view_whole(id, self.pin);
            if !segment.begins_with(head) {
                // Given up between our finding and reading it, and so no longer found: another look.
                continue;
            }
            let (at, left, doubled) = (now.at, now.left, now.doubled);
            let (filed, apart) = (self.groups.len(), self.apart.len());
            self.follow(segment, id, chain, &mut now);
            if !segment.is_current() {
                // Again from this segment on; what was filed for it may be of two moments.
                self.groups.truncate(filed);
                self.apart.truncate(apart);
                now = Stand { at, left, doubled };
                continue;
            }
            self.passed.push((id, segment.version()));
        }
        if now.doubled | self.is_wary && now.at < chain.len() {
            self.drop_off(chain, now.at, now.left, now.doubled, None);
        } else {
            push(self.groups, now.at, now.left);
        }
        self.groups.reverse();
        let steady =
            self.passed.iter().all(|&(segment, version)| self.index.segments.is_at(segment, version, self.pin));
        if !self.apart.is_empty() {
            self.finish_apart(chain);
        }
        steady
    }

    /// Leaves out the pods that stop in this segment, and goes on to the end of what is on the chain of it.
    #[inline]
    fn follow(&mut self, segment: View<'_, W>, id: SegmentId, chain: &mut impl Prompt, now: &mut Stand<W>) {
        let doubled = segment.is_doubled();
        if doubled | now.doubled | self.is_wary {
            self.follow_warily(segment, id, chain, now);
            now.doubled = doubled;
            return;
        }
        segment.prefetch_stops();
        let (base, at) = (segment.base(), now.at);
        push(self.groups, at, now.left - base);
        now.left = now.left & base;
        let agreed = self.agreed(segment, chain, at);
        let filed = self.groups.len();
        for drop_off in segment.drop_offs() {
            let offset = drop_off.offset() as usize;
            if offset >= agreed {
                break;
            }
            if now.left.remove(drop_off.pod()) {
                let depth = at + offset;
                match self.groups.last_mut() {
                    Some(group) if group.depth == depth => drop(group.pods.insert(drop_off.pod())),
                    _ => self.groups.push(DepthGroup { depth, pods: PodSet::of_one(drop_off.pod()) }),
                }
            }
        }
        now.at += agreed;
        let stops = &self.groups[filed..];
        if !stops.is_empty() {
            let hashes = &chain.hash_up_to(at + agreed)[at..at + agreed];
            let is_on =
                |offset: usize| segment.has(offset - 1, hashes[offset - 1]) && segment.has(offset, hashes[offset]);
            // Where many stop, all of it is as quickly compared.
            let is_on_chain = match agreed < 4 * stops.len() {
                true => on_chain(segment, hashes) == agreed,
                false => stops.iter().all(|group| is_on(group.depth - at)),
            };
            if !is_on_chain {
                self.leave(segment, hashes, filed, now, at);
            }
        }
    }

    /// A pod named a false parent, and so the chain leaves the segment and comes upon a block of it again further on: who was filed
    /// goes by the blocks before that alone.
    #[cold]
    fn leave(&mut self, segment: View<'_, W>, hashes: &[BlockHash], filed: usize, now: &mut Stand<W>, at: usize) {
        now.at = at + on_chain(segment, hashes);
        while self.groups.len() > filed && self.groups.last().is_some_and(|group| group.depth >= now.at) {
            now.left = now.left | self.groups.pop().map_or(PodSet::EMPTY, |group| group.pods);
        }
    }

    /// How many blocks of the segment, whose first is on the chain at `at`, are.
    #[inline]
    fn agreed(&mut self, segment: View<'_, W>, chain: &mut impl Prompt, at: usize) -> usize {
        let end = at + segment.len();
        if end <= chain.len() && chain.within_reach(end) {
            // What follows the segment is looked up next: fetch it meanwhile.
            let hashes = chain.hash_up_to((end + 1).min(chain.len()));
            if let Some(&next) = hashes.get(end) {
                self.index.segments.heads.prefetch(next);
            }
            if segment.ends_with(hashes[end - 1]) {
                return segment.len();
            }
        }
        let most = segment.len().min(chain.len() - at);
        segment.prefetch_hashes(most / 2);
        segment.prefetch_hashes(most - 1);
        let mut on = 1;
        while on < most {
            let to = if chain.within_reach(at + most) { most } else { (2 * on + GALLOP).min(most) };
            let hashes = &chain.hash_up_to(at + to)[at..];
            if segment.has(to - 1, hashes[to - 1]) {
                on = to;
                continue;
            }
            let off = to - 1;
            return on + partition(off - on, |n| segment.has(on + n, hashes[on + n]));
        }
        on
    }
}

/// How many blocks of a segment are the first of `hashes`, one by one.
fn on_chain<const W: usize>(segment: View<'_, W>, hashes: &[BlockHash]) -> usize {
    hashes.iter().enumerate().take_while(|&(at, &hash)| segment.has(at, hash)).count()
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
/// segment exact, possibly of two moments for a pod that keeps changing in several.
const ATTEMPTS: usize = 4;

/// How often a walk begins anew where a segment may have become part of the one before it: more often than segments merge under way.
const RESTARTS: usize = 64;

#[cfg(all(test, not(routing_loom)))]
mod tests;
