//! Top-k selection: the best few of the candidates, found in one pass over their totals.
//!
//! A bound that the best few reach is found first, by vectors; few pods reach it, so few are compared with each other, and
//! numbers for ties are mixed for few. The rule that must never break: whoever is left out is worse than every one in the
//! list.

use kv_index::{PodId, PodSet};

use crate::scores::{LANES, Totals};

/// The best of some pods, best first; up to [`MOST_K`].
pub(crate) struct TopK {
    /// What pods are compared by, highest first; 0 where there is none.
    keys: [u128; MOST_K],
    pods: [PodId; MOST_K],
    found: usize,
}

impl TopK {
    /// The best `most` of these candidates, or all if they are fewer. `most` is from 1 to [`MOST_K`].
    pub(crate) fn of<const W: usize>(totals: &Totals<'_, W>, pods: &PodSet<W>, most: usize) -> Self {
        let mut best = Self { keys: [0; MOST_K], pods: [PodId::new(0); MOST_K], found: 0 };
        let mut highest = [[[0.0; VECTOR]; BLOCKS]; W];
        let bound = bound(leaders(totals.totals, pods, &mut highest), most);
        let used = totals.totals.len() / LANES;
        for (at, highest) in highest.as_flattened()[..used].iter().enumerate() {
            let [a, b, c, d] = highest.map(|total| total >= bound);
            if !(a | b | c | d) {
                continue;
            }
            for lane in (0..VECTOR).filter(|lane| highest[*lane] >= bound) {
                for pod in (0..LANES / VECTOR).map(|vector| PodId::new((at * LANES + vector * VECTOR + lane) as u16)) {
                    let total = totals.totals[pod.index()];
                    if total >= bound && pods.contains(pod) {
                        best.offer(totals, pod, total, most);
                    }
                }
            }
        }
        best
    }

    /// Takes a pod in, if it is among the best so far.
    #[inline]
    fn offer<const W: usize>(&mut self, totals: &Totals<'_, W>, pod: PodId, total: f32, most: usize) {
        let (keys, mut place) = (&mut self.keys[..most], most - 1);
        // One more, so that 0 is somebody's.
        let total = total.to_bits() + 1;
        // Most of those that are worse are so without a look at ties.
        if total < (keys[place] >> 64) as u32 {
            return;
        }
        // The total above, and what decides ties below.
        let key = u128::from(total) << 64 | u128::from(totals.tie(pod));
        if key < keys[place] {
            return;
        }
        self.found = most.min(self.found + 1);
        while place > 0 && key > keys[place - 1] {
            keys[place] = keys[place - 1];
            self.pods[place] = self.pods[place - 1];
            place -= 1;
        }
        (keys[place], self.pods[place]) = (key, pod);
    }

    /// Who they are.
    pub(crate) fn pods(&self) -> &[PodId] {
        &self.pods[..self.found]
    }
}

/// The best candidates of each lane, and the best of what other blocks have in that lane: all are different pods. Fills in the
/// highest totals of each block.
///
/// By itself: beside what follows, the compiler takes vectors apart.
#[inline(never)]
fn leaders<const W: usize>(totals: &[f32], pods: &PodSet<W>, highest: &mut [[Lanes; BLOCKS]; W]) -> [Lanes; 2] {
    let (mut first, mut second) = ([0.0; VECTOR], [0.0; VECTOR]);
    for ((word, totals), places) in pods.words().iter().zip(totals.chunks(64)).zip(highest) {
        let mut bits = *word;
        for (block, place) in totals.chunks_exact(LANES).filter_map(<[f32]>::first_chunk).zip(places) {
            let candidates = bits as u16;
            let best = if candidates == u16::MAX { best_of(block) } else { best_among(block, candidates) };
            second = std::array::from_fn(|lane| higher(lower(first[lane], best[lane]), second[lane]));
            first = std::array::from_fn(|lane| higher(first[lane], best[lane]));
            *place = best;
            bits >>= LANES;
        }
    }
    [first, second]
}

/// A total that at least `most` of the pods reach, if there are as many, and that nobody misses if there are fewer.
fn bound([mut first, second]: [Lanes; 2], most: usize) -> f32 {
    // The lanes, best first: a sorting network.
    for (above, below) in [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)] {
        (first[above], first[below]) = (higher(first[above], first[below]), lower(first[above], first[below]));
    }
    // So many lanes reach the one; one fewer, and the best of the others, reach the other.
    let others = second.into_iter().fold(0.0, higher);
    higher(first[most - 1], if most > 1 { lower(first[most - 2], others) } else { 0.0 })
}

/// The highest total of each lane.
#[inline]
fn best_of(block: &[f32; LANES]) -> Lanes {
    let of = |lane: usize, vector: usize| block[vector * VECTOR + lane];
    std::array::from_fn(|lane| higher(higher(of(lane, 0), of(lane, 1)), higher(of(lane, 2), of(lane, 3))))
}

/// The same of some candidates. Totals are not below 0, which is what the others count for.
#[inline]
fn best_among(block: &[f32; LANES], candidates: u16) -> Lanes {
    let mut best = [0.0; VECTOR];
    for (vector, totals) in block.chunks_exact(VECTOR).enumerate() {
        let mask = &MASKS[usize::from(candidates >> (vector * VECTOR)) & 15];
        best = std::array::from_fn(|lane| higher(f32::from_bits(totals[lane].to_bits() & mask[lane]), best[lane]));
    }
    best
}

/// Four bits as masks for four numbers.
const MASKS: [[u32; VECTOR]; 16] = {
    let mut masks = [[0; VECTOR]; 16];
    let mut at = 0;
    while at < 64 {
        if (at / 4) >> (at % 4) & 1 == 1 {
            masks[at / 4][at % 4] = u32::MAX;
        }
        at += 1;
    }
    masks
};

#[inline]
fn higher(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline]
fn lower(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// Pods found in one pass: as many as most lists are long, and as a vector has lanes.
pub(crate) const MOST_K: usize = VECTOR;

/// Totals in a vector.
const VECTOR: usize = 4;

type Lanes = [f32; VECTOR];

/// Blocks in a word of pods.
const BLOCKS: usize = 64 / LANES;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::scores::{Ranking, length};

    proptest! {
        /// However many are asked for, whoever is a candidate, and whatever is tied: the start of the sorted list.
        #[test]
        fn it_is_the_start_of_the_sorted_list(
            scores in prop::collection::vec(0u8..12, 256),
            words: [u64; 4],
            few in any::<bool>(),
            most in 0usize..40,
            seed: u64,
        ) {
            let words = if few { words.map(|word| word & word >> 1 & word >> 7 & word >> 13) } else { words };
            let candidates = PodSet::from_words(words);
            let totals: Vec<f32> = scores.iter().map(|score| f32::from(*score) / 11.0).collect();
            let totals = Totals { candidates, totals: &totals[..length(&candidates)], seed };
            let mut ranking = Ranking::default();
            totals.rank(most, &mut ranking);
            let mut sorted: Vec<PodId> = candidates.iter().collect();
            let key = |pod: &PodId| (scores[pod.index()], totals.tie(*pod));
            sorted.sort_by_key(|pod| std::cmp::Reverse(key(pod)));
            sorted.truncate(most);
            prop_assert_eq!(ranking.picks().iter().map(|pick| pick.pod).collect::<Vec<_>>(), sorted);
            prop_assert!(ranking.picks().iter().all(|pick| pick.score == totals.of(pick.pod)));
        }
    }
}
