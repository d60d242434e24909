//! How many leading blocks does each pod hold? Searched by position, not by pod.
//!
//! Along a chain the holders only grow fewer (pods with holes aside). So the search is for the *edges* where
//! the set of holders changes. It walks run by run: a block's slot names its run, the run's last hash shows
//! whether all of it lies on the chain, and the run lists its edges. Where no run helps, it bisects: if two
//! positions name the same set, everything between them does too, so K edges among N positions take
//! O(K·log N) probes, however many pods there are; the probes of a round are fetched together.
//!
//! [`Index::scan`] is the definition, block by block; every other search must answer the same.

mod holes;
mod prompt;

use crate::block::BlockHash;
use crate::index::Index;
use crate::matches::{Group, Matches};
use crate::pod::PodId;
use crate::podset::PodSet;
use crate::reach::Chain;
use crate::reclaim::{Pin, pin};
use crate::runs::{RunId, RunPlace, RunView};
use crate::search::prompt::{GALLOP, Prompt};
use crate::sets::SetId;
use crate::table::Meta;

impl<const WORDS: usize> Index<WORDS> {
    /// Finds how many leading blocks of `chain` each live pod holds.
    ///
    /// `chain` is one prompt's block hashes in order. The answer equals [`Index::scan`]'s, holes or not;
    /// for pods that change meanwhile it is an answer that was right at some moment of the call, with an
    /// event's blocks taken as coming or going one by one.
    pub fn search(&self, chain: &[BlockHash], matches: &mut Matches<WORDS>) {
        matches.blocks = chain.len();
        self.attempt(chain, matches);
    }

    /// The same for a prompt that is hashed on demand: hashes in proportion to what matched.
    pub fn search_lazy(&self, chain: &mut (impl Chain + ?Sized), matches: &mut Matches<WORDS>) {
        matches.blocks = chain.len();
        self.attempt(chain, matches);
    }

    /// The definition of a search: looks at every block until no pod is left.
    pub fn scan(&self, mut chain: &[BlockHash], matches: &mut Matches<WORDS>) {
        let pin = pin();
        matches.blocks = chain.len();
        matches.groups.clear();
        matches.scratch.probes = 0;
        self.scan_for(self.registry.alive(), &mut chain, &mut matches.groups, &mut matches.scratch.probes, &pin);
    }

    /// Runs a search until no pod's holes or identity changed in its course.
    fn attempt(&self, mut chain: impl Prompt, matches: &mut Matches<WORDS>) {
        let Matches { groups, scratch, view, .. } = matches;
        scratch.probes = 0;
        let Some(&first) = chain.reach(1).first() else {
            groups.clear();
            return;
        };
        self.table.prefetch(first);
        let pin = pin();
        // Nobody has the first block: nobody has anything. The commonest cold prompt ends here.
        scratch.probes = 1;
        if self.table.probe(first, &pin) == Meta::ABSENT {
            groups.clear();
            return;
        }
        scratch.probes = 0;
        for _ in 0..ATTEMPTS {
            let before = (self.registry.joins(), self.ledgers.changes());
            let alive = self.registry.alive();
            scratch.edges.clear();
            scratch.queue.clear();
            Finder { index: self, pin: &pin, scratch }.walk(&mut chain, view);
            // Read after the slots: whoever stored beyond a hole published the hole first.
            let holed = self.ledgers.holed() & alive;
            let suspects = self.on_chain(holed, chain.hashes(), &pin);
            self.file_edges(alive - suspects, &scratch.edges, groups);
            if !suspects.is_empty() {
                self.correct(suspects, &mut chain, groups, &mut scratch.probes, &pin);
            }
            if (self.registry.joins(), self.ledgers.changes()) == before {
                break;
            }
        }
    }

    /// Turns edges into groups, deepest first: each pod goes with the last edge that has it.
    fn file_edges(&self, pods: PodSet<WORDS>, edges: &[Edge], groups: &mut Vec<Group<WORDS>>) {
        groups.clear();
        let mut left = pods;
        for edge in edges.iter().rev() {
            groups.push(Group { depth: edge.at as usize + 1, pods: PodSet::EMPTY });
            let Some(group) = groups.last_mut() else { return };
            let any = match edge.leaver {
                // All others of the set were taken with the edge after this.
                Some(pod) => left.remove(pod) && group.pods.insert(pod),
                None => self.sets.take(edge.set, &mut left, &mut group.pods),
            };
            if !any {
                groups.pop();
            }
        }
    }
}

/// Buffers that searches reuse.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    edges: Vec<Edge>,
    queue: Vec<Gap>,
    next: Vec<Gap>,
    pub(crate) probes: usize,
}

/// The last position of a stretch of equal holders, or of a part of one.
#[derive(Clone, Copy, Debug)]
struct Edge {
    at: u32,
    set: SetId,
    /// The only pod of the set that is not in the next edge's, if that is known.
    leaver: Option<PodId>,
}

/// A probed position.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: u32,
    meta: Meta,
}

/// Two probed positions with different holders and unknown ones between.
#[derive(Clone, Copy, Debug)]
struct Gap {
    left: Point,
    right: Point,
}

/// One search by position.
struct Finder<'a, 'p, const W: usize> {
    index: &'a Index<W>,
    pin: &'p Pin,
    scratch: &'a mut Scratch,
}

impl<const W: usize> Finder<'_, '_, W> {
    /// Walks from run to run; where a block has none, bisects what is left.
    fn walk(&mut self, chain: &mut impl Prompt, view: &mut RunView) {
        let end = chain.len();
        let mut at = 0;
        for hop in 0.. {
            if at >= end {
                break;
            }
            let here = self.probe(chain.reach(at + 1), at);
            if here.meta == Meta::ABSENT {
                break;
            }
            let covered = if hop < HOPS { self.cover(chain, here, view) } else { None };
            let Some((offset, agreed)) = covered else {
                self.bisect(chain, here);
                break;
            };
            let first = at - offset;
            for stretch in view.stretches() {
                let to = first + stretch.end.min(agreed);
                if to > at {
                    // Who leaves is known only if what they leave is there.
                    let leaver = if stretch.end < agreed { stretch.leaver } else { None };
                    self.scratch.edges.push(Edge { at: to as u32 - 1, set: stretch.set, leaver });
                    at = to;
                }
            }
            if !view.followed {
                break;
            }
        }
    }

    /// Reads the run that covers a block: the block's offset in it, and how many of the run's blocks, from its
    /// first, lie on the chain. `None` if there is none, or it changed meanwhile.
    #[inline]
    fn cover(&mut self, chain: &mut impl Prompt, here: Point, view: &mut RunView) -> Option<(usize, usize)> {
        let RunPlace { run, offset } = here.meta.place()?;
        self.index.runs.prefetch(run);
        self.index.sets.prefetch(here.meta.set());
        if !self.index.runs.read(run, view) || offset >= view.len {
            return None;
        }
        let first = (here.at as usize).checked_sub(offset)?;
        let end = first + view.len;
        if end <= chain.len() && chain.within_reach(end) {
            // What follows the run is looked up next, and the sets in the end: fetch them meanwhile.
            let hashes = chain.reach(if view.followed { (end + 1).min(chain.len()) } else { end });
            if let Some(&next) = hashes.get(end).filter(|_| view.followed) {
                self.index.table.prefetch(next);
            }
            for stretch in view.stretches().filter(|stretch| stretch.leaver.is_none()) {
                self.index.sets.prefetch(stretch.set);
            }
            if chain.hashes()[end - 1] == view.last {
                return Some((offset, view.len));
            }
        }
        // The id may have gone to another run between our reading the slot and the run.
        if self.probe(chain.hashes(), here.at as usize).meta.place() != here.meta.place() {
            return None;
        }
        let agreed = self.agreed(chain, here, run, end, view);
        // The slots were read after the run: only if it is the same run still do they speak of it.
        self.index.runs.is_unchanged(run, view).then_some((offset, agreed - first))
    }

    /// One past the last position that lies on the run, given that `here` does and not all of the run.
    fn agreed(&mut self, chain: &mut impl Prompt, here: Point, run: RunId, end: usize, view: &RunView) -> usize {
        let (mut on, mut off) = (here.at as usize, end.min(chain.len()));
        let first = end - view.len;
        // Chains part most often where their holders do.
        for stretch in view.stretches() {
            let at = first + stretch.end;
            if at > on && at < off && chain.within_reach(at + 1) {
                let hashes = chain.reach(at + 1);
                self.index.table.prefetch(hashes[at]);
                if self.probe(hashes, at - 1).meta.run() != Some(run) {
                    off = at - 1;
                } else if self.probe(chain.reach(at + 1), at).meta.run() != Some(run) {
                    return at;
                } else {
                    on = at;
                }
            }
        }
        while on + 1 < off {
            let middle = if chain.within_reach(off) { on + (off - on) / 2 } else { (2 * on + GALLOP).min(off - 1) };
            if self.probe(chain.reach(middle + 1), middle).meta.run() == Some(run) {
                on = middle;
            } else {
                off = middle;
            }
        }
        on + 1
    }

    /// Finds the edges from `here` on without runs.
    fn bisect(&mut self, chain: &mut impl Prompt, here: Point) {
        let last = chain.len() - 1;
        let mut left = here;
        // Doubling strides find an absent block in proportion to what is there.
        let mut stride = STRIDE;
        while left.meta != Meta::ABSENT && (left.at as usize) < last {
            let at = (left.at as usize + stride).min(last);
            let right = self.probe(chain.reach(at + 1), at);
            self.between(left, right);
            left = right;
            stride = (left.at as usize - here.at as usize).max(STRIDE);
        }
        if left.meta != Meta::ABSENT {
            self.edge(left);
        }
        self.close_gaps(chain.hashes());
        self.scratch.edges.sort_unstable_by_key(|edge| edge.at);
    }

    /// Narrows every gap until nothing is unknown.
    fn close_gaps(&mut self, chain: &[BlockHash]) {
        while !self.scratch.queue.is_empty() {
            let mut queue = std::mem::take(&mut self.scratch.queue);
            std::mem::swap(&mut self.scratch.queue, &mut self.scratch.next);
            for gap in &queue {
                for at in points(gap) {
                    self.index.table.prefetch(chain[at as usize]);
                }
            }
            for gap in &queue {
                let mut left = gap.left;
                for at in points(gap) {
                    let right = self.probe(chain, at as usize);
                    self.between(left, right);
                    left = right;
                }
                self.between(left, gap.right);
            }
            queue.clear();
            self.scratch.next = queue;
        }
    }

    /// Notes what lies between two neighbouring probed positions: nothing, an edge, or a gap to close.
    #[inline]
    fn between(&mut self, left: Point, right: Point) {
        if left.meta.set() == right.meta.set() {
            return;
        }
        if left.at + 1 == right.at {
            self.edge(left);
        } else {
            self.scratch.queue.push(Gap { left, right });
        }
    }

    #[inline]
    fn edge(&mut self, end: Point) {
        if end.meta != Meta::ABSENT {
            self.scratch.edges.push(Edge { at: end.at, set: end.meta.set(), leaver: None });
        }
    }

    #[inline]
    fn probe(&mut self, chain: &[BlockHash], at: usize) -> Point {
        self.scratch.probes += 1;
        Point { at: at as u32, meta: self.index.table.probe(chain[at], self.pin) }
    }
}

/// Where to look inside a gap: everywhere if it is small, else at three pivots.
fn points(gap: &Gap) -> impl Iterator<Item = u32> + use<> {
    let (a, inner) = (gap.left.at, gap.right.at - gap.left.at - 1);
    let count = if inner <= SMALL_GAP { inner } else { PIVOTS };
    (1..=count).map(move |i| a + (u64::from(inner + 1) * u64::from(i) / u64::from(count + 1)) as u32)
}

/// Searches begun again because holes or pods changed under way. After that many the last answer stands: exact
/// for every pod that did not change, possibly of two moments for one whose holes keep changing.
const ATTEMPTS: usize = 4;

/// Runs a walk goes along before it bisects the rest: a chain in many small runs must not cost a probe each.
const HOPS: usize = 8;

/// A gap of at most this many blocks is probed whole.
const SMALL_GAP: u32 = 7;

/// Pivots in a larger gap.
const PIVOTS: u32 = 7;

/// First stride without runs, in blocks.
const STRIDE: usize = 8;

#[cfg(all(test, not(routing_loom)))]
mod tests;
