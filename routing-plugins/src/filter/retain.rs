//! `retain` for pod sets: the members that pass a predicate, a machine word at a time.

use kv_index::{PodId, PodSet};

/// The pods of a set that pass; a word at a time and without a branch on the outcome.
#[inline]
pub(crate) fn retain<const W: usize>(pods: PodSet<W>, passes: impl Fn(PodId) -> bool) -> PodSet<W> {
    let mut words = [0; W];
    for (at, (word, kept)) in pods.words().iter().zip(&mut words).enumerate() {
        let mut bits = *word;
        while bits != 0 {
            let bit = bits.trailing_zeros();
            *kept |= u64::from(passes(PodId::new((at * 64) as u16 + bit as u16))) << bit;
            bits &= bits - 1;
        }
    }
    PodSet::from_words(words)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn agrees<const W: usize>(pods: &BTreeSet<u16>, divisor: usize) {
        let pods: PodSet<W> =
            pods.iter().filter(|pod| usize::from(**pod) < W * 64).map(|pod| PodId::new(*pod)).collect();
        let literal: PodSet<W> = pods.iter().filter(|pod| pod.index() % divisor == 0).collect();
        assert_eq!(retain(pods, |pod| pod.index() % divisor == 0), literal);
    }

    proptest! {
        #[test]
        fn it_keeps_what_passes(pods in prop::collection::btree_set(0u16..1024, 0..90), divisor in 1usize..5) {
            agrees::<1>(&pods, divisor);
            agrees::<4>(&pods, divisor);
            agrees::<16>(&pods, divisor);
        }
    }
}
