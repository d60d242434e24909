//! Seeded random numbers: the same seed, the same draws.

use kv_index::PodId;

/// The finalizer of SplitMix64: a bijective scramble of 64 bits.
#[inline]
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The number of a seed with this place in a row of them.
#[inline]
pub(crate) fn draw(seed: u64, at: u64) -> u64 {
    // Mixed first, or the rows of neighbouring seeds would be one row, shifted. Ties are drawn from the bare seed.
    mix(mix(seed ^ 0x6a09_e667_f3bc_c908).wrapping_add((at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// A number below `end`, which is not 0; each equally likely, but for less than one part in 2^50.
#[inline]
pub(crate) fn below(number: u64, end: usize) -> usize {
    ((u128::from(number) * end as u128) >> 64) as usize
}

/// A pod's draw from the exponential distribution of mean 1; above 0 and finite.
///
/// Divided by weights and put in order, such draws are a weighted order without replacement.
#[inline]
pub(crate) fn exponential(seed: u64, pod: PodId) -> f64 {
    // In the middle of one of 2^53 steps, so neither 0 nor 1.
    let uniform = ((draw(seed, pod.index() as u64) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -uniform.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_draws_have_the_mean_they_should() {
        let mean = |pod| (0..20_000).map(|seed| exponential(seed, PodId::new(pod))).sum::<f64>() / 20_000.0;
        for pod in [0, 1, 255] {
            assert!((mean(pod) - 1.0).abs() < 0.03, "{}", mean(pod));
        }
        assert!((0..100_000).all(|seed| exponential(seed, PodId::new(3)).is_normal()));
    }

    #[test]
    fn numbers_below_an_end_are_even() {
        let mut counts = [0; 7];
        (0..70_000).for_each(|seed| counts[below(draw(seed, 0), 7)] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }
}
