//! Top-k selection: the best few of the candidates, found in one pass over their totals.
//!
//! A bound that the best few reach is found first, by vectors; few pods reach it, so few are compared with each other, and
//! numbers for ties are mixed for few. The rule that must never break: whoever is left out is worse than every one in the
//! list.

use kv_index::{PodId, PodSet};

use crate::scores::{Totals, each_four};

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
        let keys = &mut best.keys[..most];
        let bound = bound(totals.totals, pods, most);
        for (at, (word, row)) in pods.words().iter().zip(totals.totals.chunks(64)).enumerate() {
            let mut bits = if *word == 0 { 0 } else { *word & reaching(row, bound) };
            while bits != 0 {
                let lane = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let pod = PodId::new((at * 64 + lane) as u16);
                // The total above, one more so that 0 is somebody's, and what decides ties below.
                let key = u128::from(row[lane].to_bits() + 1) << 64 | u128::from(totals.tie(pod));
                let mut place = most - 1;
                if key < keys[place] {
                    continue;
                }
                best.found = most.min(best.found + 1);
                while place > 0 && key > keys[place - 1] {
                    keys[place] = keys[place - 1];
                    best.pods[place] = best.pods[place - 1];
                    place -= 1;
                }
                (keys[place], best.pods[place]) = (key, pod);
            }
        }
        best
    }

    /// Who they are.
    pub(crate) fn pods(&self) -> &[PodId] {
        &self.pods[..self.found]
    }
}

/// Those of up to 64 totals that reach a bound, as bits.
#[inline]
fn reaching(totals: &[f32], bound: f32) -> u64 {
    let mut bits = 0;
    for (at, totals) in totals.chunks(BITS.len()).enumerate() {
        // Each keeps or drops a bit of its own, and all are joined in the end: vectors do that, but no shifts by lane.
        let kept = totals.iter().zip(&BITS).map(|(total, bit)| if *total >= bound { *bit } else { 0 });
        bits |= u64::from(kept.fold(0, std::ops::BitOr::bitor)) << (at * BITS.len());
    }
    bits
}

/// A bit for each of some totals.
const BITS: [u32; 32] = {
    let (mut bits, mut at) = ([0; 32], 0);
    while at < bits.len() {
        bits[at] = 1 << at;
        at += 1;
    }
    bits
};

/// A total that at least `most` of the pods reach, if there are as many, and that nobody misses if there are fewer.
///
/// Pods are dealt to four heaps, and the best of each heap is found. Those are that many different pods.
#[inline]
fn bound<const W: usize>(totals: &[f32], pods: &PodSet<W>, most: usize) -> f32 {
    let mut heaps = [0.0f32; MOST_K];
    for (word, row) in pods.words().iter().zip(totals.chunks(64)) {
        if *word == u64::MAX {
            // In eights, of which the compiler makes two vectors.
            for eight in row.chunks_exact(2 * MOST_K).filter_map(<[f32]>::first_chunk::<{ 2 * MOST_K }>) {
                for (lane, best) in heaps.iter_mut().enumerate() {
                    *best = higher(higher(eight[lane], eight[lane + MOST_K]), *best);
                }
            }
            continue;
        }
        each_four(*word, row.chunks_exact(MOST_K), |row, mask| {
            for ((best, total), mask) in heaps.iter_mut().zip(row).zip(mask) {
                // Totals are not below 0, which is what the others count for.
                *best = higher(f32::from_bits(total.to_bits() & mask), *best);
            }
        });
    }
    // The best of the heaps, best first: a sorting network.
    for (above, below) in [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)] {
        (heaps[above], heaps[below]) = (higher(heaps[above], heaps[below]), lower(heaps[above], heaps[below]));
    }
    heaps[most - 1]
}

#[inline]
fn higher(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline]
fn lower(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

/// Pods found in one pass: as many as most lists are long, and as a vector has lanes.
pub(crate) const MOST_K: usize = 4;

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
