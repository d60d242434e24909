//! Scores of candidates: one scorer's row, the weighted totals, and the list that a picker ranks.

use std::cmp::Ordering;

use kv_index::{PodId, PodSet};

/// One scorer's row: a number for each candidate, 0 unless set.
///
/// Higher is better. Whatever is set is brought into 0..=1; what is not a number ends the decision.
#[derive(Debug)]
pub struct Scores<'d, const W: usize = 4> {
    pub(crate) candidates: PodSet<W>,
    pub(crate) row: &'d mut [f32],
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
        if let Some(place) = self.row.get_mut(pod.index()) {
            *place = score;
        }
    }

    /// Sets the score of every candidate in a set.
    pub fn set_all(&mut self, pods: PodSet<W>, score: f32) {
        each(pods & self.candidates, |pod| self.set(pod, score));
    }

    /// Scores every candidate by a function.
    pub fn fill(&mut self, score: impl Fn(PodId) -> f32) {
        each(self.candidates, |pod| self.set(pod, score(pod)));
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

/// Adds a row to the totals; a candidate whose score is not a number, if there is one.
pub(crate) fn add<const W: usize>(
    candidates: &PodSet<W>,
    row: &[f32],
    weight: f32,
    totals: &mut [f32],
) -> Result<(), PodId> {
    let mut odd = false;
    // Word by word and without a branch for each pod: the compiler makes vectors of it.
    for (word, (row, totals)) in candidates.words().iter().zip(row.chunks(64).zip(totals.chunks_mut(64))) {
        if *word == 0 {
            continue;
        }
        for (score, total) in row.iter().zip(totals) {
            odd |= score.is_nan();
            // Shares add up to 1 but for rounding, and totals are promised to.
            *total = (*total + weight * score.clamp(0.0, 1.0)).min(1.0);
        }
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
pub struct Totals<'d, const W: usize = 4> {
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
        let start = ranking.picks.len();
        let ranked: PodSet<W> =
            ranking.picks.iter().map(|pick| pick.pod).filter(|pod| self.candidates.contains(*pod)).collect();
        // What it takes to get in, once the list is full.
        let mut least = if most == 0 { (f32::INFINITY, u64::MAX) } else { (f32::NEG_INFINITY, 0) };
        each(self.candidates - ranked, |pod| {
            let score = self.totals[pod.index()];
            // An idle fleet is all ties: a number is mixed for each, and most go no further.
            if score < least.0 || score == least.0 && self.tie(pod) < least.1 {
                return;
            }
            // Ranked lists are short: where to insert is found sooner than a heap is kept.
            let pick = Pick { pod, score };
            let kept = &ranking.picks[start..];
            let at = start + kept.iter().position(|other| self.is_better(&pick, other)).unwrap_or(kept.len());
            ranking.picks.insert(at, pick);
            ranking.picks.truncate(start.saturating_add(most));
            if ranking.picks.len() - start == most {
                least = ranking.picks.last().map_or(least, |last| (last.score, self.tie(last.pod)));
            }
        });
    }

    /// Whether a pick goes before another. Totals are never NaN, so they have an order; numbers are mixed only for ties.
    #[inline]
    fn is_better(&self, pick: &Pick, other: &Pick) -> bool {
        match pick.score.total_cmp(&other.score) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => self.tie(pick.pod) > self.tie(other.pod),
        }
    }

    fn tie(&self, pod: PodId) -> u64 {
        mix(self.seed ^ (pod.index() as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// The finalizer of SplitMix64.
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
