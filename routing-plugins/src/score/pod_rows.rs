//! Rows of numbers, one for each pod, in blocks as backlogs are: what scorers work out pods in, many at once.

use kv_index::PodSet;

use crate::load::{BacklogBlock, LANES};

/// A number of each pod of a block.
pub(crate) type Row = [f64; LANES];

/// Rows for each word of a set of pods.
pub(crate) const ROWS: usize = 64 / LANES;

/// As many rows, or what has some, as it takes to have a place for every candidate.
#[inline]
pub(crate) fn rows_of<T, const W: usize>(rows: &mut [[T; ROWS]; W], candidates: PodSet<W>) -> &mut [T] {
    let last = candidates.words().iter().enumerate().rfind(|(_, word)| **word != 0);
    let pods = last.map_or(0, |(at, word)| (at + 1) * 64 - word.leading_zeros() as usize);
    &mut rows.as_flattened_mut()[..pods.div_ceil(LANES)]
}

/// Visits the places of pods: row and lane.
#[inline]
pub(super) fn each_place<const W: usize>(pods: PodSet<W>, mut visit: impl FnMut((usize, usize))) {
    for (at, word) in pods.words().iter().enumerate() {
        let mut bits = *word;
        while bits != 0 {
            let bit = bits.trailing_zeros() as usize;
            visit((at * ROWS + bit / LANES, bit % LANES));
            bits &= bits - 1;
        }
    }
}

/// Visits the places of pods on which somebody waits for a first token, and their blocks.
#[inline]
pub(super) fn each_waiting<'b>(backlogs: &'b [BacklogBlock], mut visit: impl FnMut((usize, usize), &'b BacklogBlock)) {
    for (row, backlog) in backlogs.iter().enumerate() {
        let mut bits = backlog.queued();
        while bits != 0 {
            visit((row, bits.trailing_zeros() as usize % LANES), backlog);
            bits &= bits - 1;
        }
    }
}

/// Requests that wait for their first token, on all pods.
#[inline]
pub(super) fn waiting(backlogs: &[BacklogBlock]) -> f64 {
    // Each lane by itself, so that one sum does not wait for the other. They are whole numbers: the order does not matter.
    let mut sums = [0.0; LANES];
    for block in backlogs {
        sums = std::array::from_fn(|lane| sums[lane] + block.waiting[lane]);
    }
    sums.iter().sum()
}
