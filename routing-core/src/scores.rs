//! Score rows, weighted totals and rankings of candidates.

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};

use crate::top_k::{MOST_K, TopK};

/// One scorer's row: a number for each candidate, 0 unless set.
///
/// Higher is better. Whatever is set is brought into 0..=1; what is not a number ends the decision.
#[derive(Debug)]
pub struct Scores<'d, const W: usize = DEFAULT_POD_WORDS> {
    candidates: PodSet<W>,
    /// Of an earlier scorer until something is set; then 0 where nothing is.
    row: &'d mut [f32],
    /// Whether anything was set.
    touched: bool,
}

impl<'d, const W: usize> Scores<'d, W> {
    /// A row for these candidates, to be set; what is in it does not count.
    pub(crate) fn new(candidates: PodSet<W>, row: &'d mut [f32]) -> Self {
        Self { candidates, row, touched: false }
    }

    /// The row if anything was set in it. If not it is all 0.
    pub(crate) fn finish(self) -> Option<&'d [f32]> {
        self.touched.then_some(self.row)
    }

    /// Whoever is not set has 0. Seldom the first of many: whoever writes all of the row needs no 0s in it.
    #[inline]
    fn begin(&mut self) {
        if !self.touched {
            self.row.fill(0.0);
            self.touched = true;
        }
    }

    /// Who is to be scored.
    #[must_use]
    pub fn candidates(&self) -> PodSet<W> {
        self.candidates
    }

    /// Sets one pod's score; of pods that are no candidates nobody takes notice.
    #[inline]
    pub fn set(&mut self, pod: PodId, score: f32) {
        self.begin();
        if let Some(place) = self.row.get_mut(pod.index()) {
            *place = score;
        }
    }

    /// Sets the score of every candidate in a set.
    pub fn set_all(&mut self, pods: PodSet<W>, score: f32) {
        let pods = pods & self.candidates;
        self.begin();
        for (word, row) in pods.words().iter().zip(self.row.chunks_mut(64)) {
            // Most sets are of few, such as those who hold a prompt, or of all.
            if *word == u64::MAX {
                row.fill(score);
                continue;
            }
            let mut bits = *word;
            while bits != 0 {
                if let Some(place) = row.get_mut(bits.trailing_zeros() as usize) {
                    *place = score;
                }
                bits &= bits - 1;
            }
        }
    }

    /// Scores every candidate by a function.
    #[inline]
    pub fn fill(&mut self, score: impl Fn(PodId) -> f32) {
        self.begin();
        let row = &mut *self.row;
        each(self.candidates, |pod| {
            if let Some(place) = row.get_mut(pod.index()) {
                *place = score(pod);
            }
        });
    }

    /// Scores every pod by its figures, which stand side by side: those of pods 0, 1 and so on. Pods beyond their end have the
    /// default.
    ///
    /// A plain loop over two slices takes a fraction of the time that asking pod by pod does. Pods that are no candidates are
    /// scored too, and nobody takes notice.
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
    ///         scores.fill_from(&self.0, |used| 1.0 - used);
    ///         Ok(())
    ///     }
    /// }
    /// ```
    #[inline]
    pub fn fill_from<T: Copy + Default>(&mut self, figures: &[T], score: impl Fn(T) -> f32) {
        self.touched = true;
        let (known, unknown) = self.row.split_at_mut(figures.len().min(self.row.len()));
        known.iter_mut().zip(figures).for_each(|(place, figures)| *place = score(*figures));
        if !unknown.is_empty() {
            unknown.fill(score(T::default()));
        }
    }

    /// The row itself, a number for each pod by its index, as far as there are candidates; 0 where nothing was set.
    ///
    /// For scorers that have their figures side by side and need more than [`fill_from`](Self::fill_from). What is written for
    /// pods that are no candidates, nobody takes notice of.
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
        self.begin();
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

/// How long rows are for these candidates: to the last of them, in whole vectors.
pub(crate) fn length<const W: usize>(candidates: &PodSet<W>) -> usize {
    let last = candidates.words().iter().enumerate().rfind(|(_, word)| **word != 0);
    let pods = last.map_or(0, |(at, word)| (at + 1) * 64 - word.leading_zeros() as usize);
    pods.next_multiple_of(LANES)
}

/// Pods that are looked at together: four vectors. Rows have no rest beyond these.
pub(crate) const LANES: usize = 16;

/// Begins totals with a row; a candidate whose score is not a number, if there is one.
///
/// By itself, as is [`add`]: beside what follows, the compiler takes vectors apart.
#[inline(never)]
pub(crate) fn begin<const W: usize>(
    candidates: &PodSet<W>,
    row: &[f32],
    weight: f32,
    totals: &mut [f32],
) -> Result<(), PodId> {
    // No weight is above 1, so neither is this.
    weigh(candidates, row, totals, |_, score| weight * score)
}

/// Adds a row to the totals; a candidate whose score is not a number, if there is one.
#[inline(never)]
pub(crate) fn add<const W: usize>(
    candidates: &PodSet<W>,
    row: &[f32],
    weight: f32,
    totals: &mut [f32],
) -> Result<(), PodId> {
    weigh(candidates, row, totals, |total, score| {
        let sum = total + weight * score;
        // Shares add up to 1 but for rounding, and totals are promised to.
        if sum < 1.0 { sum } else { 1.0 }
    })
}

/// Makes each total anew of what it was and of a score in 0..=1.
#[inline]
fn weigh<const W: usize>(
    candidates: &PodSet<W>,
    row: &[f32],
    totals: &mut [f32],
    join: impl Fn(f32, f32) -> f32,
) -> Result<(), PodId> {
    // What is not a number stays in a sum: telling so takes one operation for each vector. Of two vectors, so that one sum
    // does not wait for the other.
    let mut sums = [0.0; SUMS];
    let rows = row.chunks_exact(SUMS).filter_map(<[f32]>::first_chunk::<SUMS>);
    for (row, totals) in rows.zip(totals.chunks_exact_mut(SUMS).filter_map(<[f32]>::first_chunk_mut::<SUMS>)) {
        // Without a branch for each pod, and whether it is a candidate or not: the compiler makes vectors of it.
        sums = std::array::from_fn(|lane| sums[lane] + row[lane]);
        // Comparisons and no `clamp`: what is not a number needs no care here, it ends the decision.
        let scores = row.map(|score| if score > 0.0 { score } else { 0.0 });
        *totals = std::array::from_fn(|lane| join(totals[lane], if scores[lane] < 1.0 { scores[lane] } else { 1.0 }));
    }
    if sums.iter().any(|sum| sum.is_nan()) {
        // Pods that are no candidates may have anything, and infinities of both signs add up to no number either.
        if let Some(pod) = candidates.iter().find(|pod| row[pod.index()].is_nan()) {
            return Err(pod);
        }
    }
    Ok(())
}

/// Scores that are weighed at once: two vectors.
const SUMS: usize = 8;

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

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates() -> PodSet<1> {
        [1, 2, 5].map(PodId::new).into_iter().collect()
    }

    fn row(set: impl FnOnce(&mut Scores<'_, 1>)) -> Option<Vec<f32>> {
        // What an earlier scorer left.
        let mut row = [7.0; LANES];
        let mut scores = Scores::new(candidates(), &mut row);
        set(&mut scores);
        scores.finish().map(<[f32]>::to_vec)
    }

    #[test]
    fn nothing_of_an_earlier_row_shows() {
        assert_eq!(row(|_| {}), None);
        let mut two = [0.0; LANES];
        two[2] = 0.5;
        assert_eq!(row(|scores| scores.set(PodId::new(2), 0.5)), Some(two.to_vec()));
        assert_eq!(
            row(|scores| scores.set_all([1, 2].map(PodId::new).into_iter().collect(), 0.5)).unwrap()[..4],
            [0.0, 0.5, 0.5, 0.0]
        );
        assert_eq!(row(|scores| scores.row()[2] = 0.5), Some(two.to_vec()));
        assert_eq!(row(|scores| scores.fill(|_| 0.5)).unwrap()[..6], [0.0, 0.5, 0.5, 0.0, 0.0, 0.5]);
    }

    #[test]
    fn pods_beyond_the_figures_have_the_default() {
        let scored = row(|scores| scores.fill_from(&[0.25, 0.5, 0.75], |used: f32| 1.0 - used)).unwrap();
        assert_eq!((&scored[..3], &scored[3..]), (&[0.75, 0.5, 0.25][..], &[1.0; LANES - 3][..]));
        let many = [0.5; 100];
        assert_eq!(row(|scores| scores.fill_from(&many, |used: f32| used)), Some(vec![0.5; LANES]));
    }
}
