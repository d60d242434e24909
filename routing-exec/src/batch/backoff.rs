//! Exponential backoff with jitter.

use std::time::Duration;

use super::config::Backoff;
use crate::splitmix64;

impl Backoff {
    /// The wait before a request's next attempt: deterministic in the request's index and attempts.
    pub(super) fn wait(&self, index: u32, attempts: u32, retry_after: Option<Duration>) -> Duration {
        let doubled = self.initial.saturating_mul(1_u32.checked_shl(attempts.saturating_sub(1)).unwrap_or(u32::MAX));
        let longest = doubled.min(self.max);
        let chance = splitmix64::step(u64::from(index) << 32 | u64::from(attempts)) >> 11;
        let share = 1.0 - 0.5 * (chance as f64 / (1_u64 << 53) as f64);
        longest.mul_f64(share).max(retry_after.unwrap_or_default().min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_lose_at_most_half_by_chance() {
        let (second, backoff) =
            (Duration::from_secs(1), Backoff { initial: Duration::from_secs(1), max: Duration::from_secs(9) });
        for index in 0..100 {
            for (attempts, whole) in [(1, 1), (2, 2), (3, 4), (4, 8), (5, 9), (33, 9), (u32::MAX, 9)] {
                let wait = backoff.wait(index, attempts, None);
                assert!(wait <= second * whole && wait * 2 >= second * whole, "{attempts}: {wait:?}");
            }
        }
        assert_ne!(backoff.wait(1, 1, None), backoff.wait(2, 1, None));
    }

    #[test]
    fn retry_after_is_respected_up_to_the_longest_wait() {
        let backoff = Backoff { initial: Duration::from_millis(1), max: Duration::from_secs(9) };
        assert_eq!(backoff.wait(0, 1, Some(Duration::from_secs(5))), Duration::from_secs(5));
        assert_eq!(backoff.wait(0, 1, Some(Duration::from_secs(500))), Duration::from_secs(9));
    }
}
