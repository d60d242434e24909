//! Prefixes that pods hold already: looked up prompt by prompt, in trie order, and only where the answer can differ.

use kv_index::{BlockHash, DEFAULT_POD_WORDS, Index, Matches};

use super::BatchPod;
use super::order::Queue;

/// What pods hold of a prompt.
pub trait CachedPrefixes {
    /// Writes how many leading blocks of `chain` each of `pods` holds, one number for each, which are 0 before.
    ///
    /// What it says of two prompts must agree on what they share.
    fn depths(&mut self, chain: &[BlockHash], pods: &[BatchPod], depths: &mut [u32]);
}

/// Pods that hold nothing.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing in it")]
pub struct ColdCaches;

impl CachedPrefixes for ColdCaches {
    fn depths(&mut self, _: &[BlockHash], _: &[BatchPod], _: &mut [u32]) {}
}

/// Pods that hold what an index says.
#[derive(Debug)]
pub struct IndexedCaches<'i, const W: usize = DEFAULT_POD_WORDS> {
    index: &'i Index<W>,
    matches: Matches<W>,
}

impl<'i, const W: usize> IndexedCaches<'i, W> {
    /// Looked up in `index`.
    #[must_use]
    pub fn new(index: &'i Index<W>) -> Self {
        Self { index, matches: Matches::default() }
    }
}

impl<const W: usize> CachedPrefixes for IndexedCaches<'_, W> {
    fn depths(&mut self, chain: &[BlockHash], pods: &[BatchPod], depths: &mut [u32]) {
        self.index.search(chain, &mut self.matches);
        for group in self.matches.groups() {
            for (pod, depth) in pods.iter().zip(&mut *depths) {
                if group.pods.contains(pod.pod.id()) {
                    *depth = group.depth.try_into().unwrap_or(u32::MAX);
                }
            }
        }
    }
}

/// Who holds most of one prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Claim {
    /// Which pod, by its place; nobody where all hold the same.
    pub(super) pod: Option<u32>,
    /// Leading blocks that it holds.
    pub(super) depth: u32,
    /// Leading blocks that every pod holds.
    pub(super) floor: u32,
}

impl Claim {
    /// Leading blocks that `pod` is known to hold.
    pub(super) fn on(&self, pod: usize) -> u32 {
        if self.pod.is_some_and(|own| own as usize == pod) { self.depth } else { self.floor }
    }
}

/// Who holds most of each prompt, by its place in the queue; nothing at all where nobody holds anything.
pub(super) fn claims(queue: &Queue<'_>, pods: &[BatchPod], held: &mut dyn CachedPrefixes) -> Option<Vec<Claim>> {
    let mut claims = Vec::new();
    let (mut depths, mut last) = (vec![0; pods.len()], Claim::default());
    let mut deepest = None;
    for at in 0..queue.len() {
        // Pods that stop within what this prompt shares with the one before stop there in both.
        let same = deepest.is_some_and(|deepest| deepest < queue.near(at));
        if !same {
            depths.fill(0);
            let chain = queue.request(at).chain;
            held.depths(chain, pods, &mut depths);
            depths.iter_mut().for_each(|depth| *depth = (*depth).min(chain.len() as u32));
            last = judge(&depths, last);
            deepest = depths.iter().copied().max();
        }
        if claims.is_empty() && last != Claim::default() {
            claims = vec![Claim::default(); queue.len()];
        }
        if let Some(claim) = claims.get_mut(at) {
            *claim = last;
        }
    }
    (!claims.is_empty()).then_some(claims)
}

/// The deepest pod; among equals the one that had the prompt before this, or else the first.
fn judge(depths: &[u32], before: Claim) -> Claim {
    let deepest = depths.iter().copied().max().unwrap_or(0);
    let floor = depths.iter().copied().min().unwrap_or(0);
    let stays = before.pod.filter(|&pod| depths.get(pod as usize) == Some(&deepest));
    let pod = stays.or_else(|| depths.iter().position(|&depth| depth == deepest).map(|pod| pod as u32));
    Claim { pod: pod.filter(|_| deepest > floor), depth: deepest, floor }
}
