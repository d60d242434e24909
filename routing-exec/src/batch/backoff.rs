//! How long a request waits before it is tried again.

use std::time::Duration;

use super::config::BackOff;

impl BackOff {
    /// The wait before a request's next try, of which `tries` were made: the same for the same request and try.
    pub(super) fn wait(&self, place: u32, tries: u32, asked: Option<Duration>) -> Duration {
        let doubled = self.first.saturating_mul(1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX));
        let longest = doubled.min(self.most);
        let chance = mix(u64::from(place) << 32 | u64::from(tries)) >> 11;
        let share = 1.0 - 0.5 * (chance as f64 / (1_u64 << 53) as f64);
        longest.mul_f64(share).max(asked.unwrap_or_default().min(self.most))
    }
}

/// The finalizer of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_lose_at_most_half_by_chance() {
        let (second, back_off) =
            (Duration::from_secs(1), BackOff { first: Duration::from_secs(1), most: Duration::from_secs(9) });
        for place in 0..100 {
            for (tries, whole) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 9), (33, 9), (u32::MAX, 9)] {
                let wait = back_off.wait(place, tries, None);
                assert!(wait <= second * whole && wait * 2 >= second * whole, "{tries}: {wait:?}");
            }
        }
        assert_ne!(back_off.wait(1, 1, None), back_off.wait(2, 1, None));
    }

    #[test]
    fn a_pods_wish_is_heeded_within_bounds() {
        let back_off = BackOff { first: Duration::from_millis(1), most: Duration::from_secs(9) };
        assert_eq!(back_off.wait(0, 1, Some(Duration::from_secs(5))), Duration::from_secs(5));
        assert_eq!(back_off.wait(0, 1, Some(Duration::from_secs(500))), Duration::from_secs(9));
    }
}
