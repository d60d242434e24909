//! SplitMix64: the finalizer, and one step of the generator.

/// One step: different inputs have different outputs.
pub(crate) fn step(state: u64) -> u64 {
    finalize(state.wrapping_add(GAMMA))
}

/// Spreads a number over all bits; different ones stay different.
pub(crate) fn finalize(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The generator's increment.
pub(crate) const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;
