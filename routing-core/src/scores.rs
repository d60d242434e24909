//! Score rows, weighted totals and rankings of candidates.

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};

use crate::top_k::{MOST_K, TopK};

/// One scorer's row: a number for each candidate, 0 unless set.
///
/// Higher is better. Whatever is set is brought into 0..=1; what is not a number ends the decision.
#[derive(Debug)]
pub struct Scores<'d, const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) candidates: PodSet<W>,
    /// All 0 at first.
    pub(crate) row: &'d mut [f32],
    /// Whether anything was set.
    pub(crate) touched: bool,
}

impl<const W: usize> Scores<'_, W> {
    /// Who is to be scored.
    #[must_use]
    pub fn candidates(&self) -> PodSet<W> {
        self.candidates
    }

    /// Sets one pod's score; of pods that are no candidates nobody takes notice.
    #[inline]
    pub fn set(&mut self, pod: PodId, score: f32) {
        self.touched = true;
        if let Some(place) = self.row.get_mut(pod.index()) {
            *place = score;
        }
    }

    /// Sets the score of every candidate in a set.
    pub fn set_all(&mut self, pods: PodSet<W>, score: f32) {
        let pods = pods & self.candidates;
        self.touched = true;
        for (word, row) in pods.words().iter().zip(self.row.chunks_mut(64)) {
            each_four(*word, row.chunks_exact_mut(4), |row, mask| {
                for (place, mask) in row.iter_mut().zip(mask) {
                    *place = f32::from_bits(place.to_bits() & !mask | score.to_bits() & mask);
                }
            });
        }
    }

    /// Scores every candidate by a function.
    #[inline]
    pub fn fill(&mut self, score: impl Fn(PodId) -> f32) {
        self.touched = true;
        let row = &mut *self.row;
        each(self.candidates, |pod| {
            if let Some(place) = row.get_mut(pod.index()) {
                *place = score(pod);
            }
        });
    }

    /// The row itself, a number for each pod by its index, as far as there are candidates.
    ///
    /// For scorers that have their figures side by side: a plain loop over two slices takes a fraction of the time that asking
    /// pod by pod does. What is written for pods that are no candidates, nobody takes notice of.
    ///
    /// # Examples
    ///
    /// ```
    /// use routing_core::{RoutingContext, PluginError, Scorer, Scores};
    ///
    /// struct Spare(Vec<f32>);
    ///
    /// impl Scorer for Spare {
    ///     fn score(&self, _: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
    ///         scores.row().iter_mut().zip(&self.0).for_each(|(score, used)| *score = 1.0 - used);
    ///         Ok(())
    ///     }
    /// }
    /// ```
    #[must_use]
    #[inline]
    pub fn row(&mut self) -> &mut [f32] {
        self.touched = true;
        self.row
    }
}

/// Calls a function for each pod of a set; a word at a time, so that the word stays in a register.
#[inline]
fn each<const W: usize>(pods: PodSet<W>, mut visit: impl FnMut(PodId)) {
    for (at, word) in pods.words().iter().enumerate() {
        let mut bits = *word;
        while bits != 0 {
            visit(PodId::new((at * 64) as u16 + bits.trailing_zeros() as u16));
            bits &= bits - 1;
        }
    }
}

/// Calls a function for each four of a row of which a bit is set in the row's word, with a mask for the four.
#[inline]
pub(crate) fn each_four<T>(word: u64, fours: impl Iterator<Item = T>, mut visit: impl FnMut(T, [u32; 4])) {
    let mut bits = word;
    for four in fours {
        if bits == 0 {
            return;
        }
        if bits & 15 != 0 {
            visit(four, MASKS[bits as usize & 15]);
        }
        bits >>= 4;
    }
}

/// Four bits as masks for four numbers.
const MASKS: [[u32; 4]; 16] = {
    let mut masks = [[0; 4]; 16];
    let mut at = 0;
    while at < 64 {
        if (at / 4) >> (at % 4) & 1 == 1 {
            masks[at / 4][at % 4] = u32::MAX;
        }
        at += 1;
    }
    masks
};

/// How long rows are for these candidates: to the last of them, in whole vectors.
pub(crate) fn length<const W: usize>(candidates: &PodSet<W>) -> usize {
    let last = candidates.words().iter().enumerate().rfind(|(_, word)| **word != 0);
    let pods = last.map_or(0, |(at, word)| (at + 1) * 64 - word.leading_zeros() as usize);
    pods.next_multiple_of(LANES)
}

/// Pods that are looked at together.
pub(crate) const LANES: usize = 8;

/// Adds a row to the totals; a candidate whose score is not a number, if there is one.
pub(crate) fn add<const W: usize>(
    candidates: &PodSet<W>,
    row: &[f32],
    weight: f32,
    totals: &mut [f32],
) -> Result<(), PodId> {
    let mut odd = false;
    // Without a branch for each pod, and whether it is a candidate or not: the compiler makes vectors of it.
    for (score, total) in row.iter().zip(totals) {
        odd |= score.is_nan();
        // Comparisons and no `clamp`: what is not a number needs no care here, it ends the decision.
        let score = if *score > 0.0 { *score } else { 0.0 };
        let score = if score < 1.0 { score } else { 1.0 };
        let sum = *total + weight * score;
        // Shares add up to 1 but for rounding, and totals are promised to.
        *total = if sum < 1.0 { sum } else { 1.0 };
    }
    if odd {
        // Pods that are no candidates may have anything.
        if let Some(pod) = candidates.iter().find(|pod| row[pod.index()].is_nan()) {
            return Err(pod);
        }
    }
    Ok(())
}

/// What all scorers make of the candidates: weighted sums in 0..=1, the weights adding up to 1.
#[derive(Clone, Copy, Debug)]
pub struct Totals<'d, const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) candidates: PodSet<W>,
    pub(crate) totals: &'d [f32],
    pub(crate) seed: u64,
}

impl<const W: usize> Totals<'_, W> {
    /// Who is left to pick from; never empty.
    #[must_use]
    pub fn candidates(&self) -> PodSet<W> {
        self.candidates
    }

    /// A candidate's total; 0 for a pod that is none.
    #[must_use]
    #[inline]
    pub fn of(&self, pod: PodId) -> f32 {
        if self.candidates.contains(pod) { self.totals.get(pod.index()).copied().unwrap_or(0.0) } else { 0.0 }
    }

    /// The request's seed, for pickers that leave something to chance.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Puts the best `most` candidates into the ranking, best first, after those that are ranked already.
    ///
    /// Ties go to the pod whose number, mixed with the request's seed, comes out highest: equal pods share the load
    /// over many requests, and one request replayed is decided as before.
    pub fn rank(&self, most: usize, ranking: &mut Ranking) {
        let mut left = self.candidates;
        for pick in &ranking.picks {
            left.remove(pick.pod);
        }
        let mut room = most;
        while room > 0 {
            let asked = room.min(MOST_K);
            let best = TopK::of(self, &left, asked);
            for &pod in best.pods() {
                ranking.picks.push(Pick { pod, score: self.totals[pod.index()] });
                left.remove(pod);
            }
            // Fewer than asked for are all there are.
            room = if best.pods().len() < asked { 0 } else { room - asked };
        }
    }

    /// What decides between equals: a number for each pod, no two the same.
    #[inline]
    pub(crate) fn tie(&self, pod: PodId) -> u64 {
        mix(self.seed ^ (pod.index() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// The finalizer of SplitMix64.
#[inline]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A picker's answer: pods to try, best first.
#[derive(Clone, Debug, Default)]
pub struct Ranking {
    pub(crate) picks: Vec<Pick>,
}

/// A pod that was ranked, and its total.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Pick {
    /// The pod.
    pub pod: PodId,
    /// Its total.
    pub score: f32,
}

impl Ranking {
    /// Puts a pod after those that are ranked already; false if it is among them.
    pub fn push(&mut self, pod: PodId) -> bool {
        let new = self.picks.iter().all(|pick| pick.pod != pod);
        if new {
            // Its total is filled in when the picker is done.
            self.picks.push(Pick { pod, score: 0.0 });
        }
        new
    }

    /// What is ranked so far.
    #[must_use]
    pub fn picks(&self) -> &[Pick] {
        &self.picks
    }
}
