//! How many retries a host makes in all, so that a sick fleet is not asked more often for being sick.

use std::time::Instant;

use parking_lot::Mutex;

/// A bound on retries, shared by all runs of a host.
///
/// Every request adds a share of a retry, and so does every second; a retry takes a whole one. What is saved up is
/// bounded, so a quiet hour does not pay for a storm.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use routing_exec::RetryBudget;
///
/// let (budget, now) = (RetryBudget::new(0.5, 0.0, 10.0), Instant::now());
/// assert!(!budget.withdraw(now), "nothing is saved up");
/// budget.deposit(now);
/// budget.deposit(now);
/// assert!(budget.withdraw(now) && !budget.withdraw(now), "two requests pay for one retry");
/// ```
#[derive(Debug)]
pub struct RetryBudget {
    per_request: f64,
    per_second: f64,
    most: f64,
    saved: Mutex<Saved>,
}

#[derive(Debug)]
struct Saved {
    retries: f64,
    at: Option<Instant>,
}

impl RetryBudget {
    /// A budget of so many retries a request and a second, of which at most so many are saved up. What is not a number, or
    /// below 0, is 0.
    #[must_use]
    pub fn new(per_request: f64, per_second: f64, most: f64) -> Self {
        let sound = |number: f64| if number > 0.0 { number } else { 0.0 };
        let saved = Mutex::new(Saved { retries: 0.0, at: None });
        Self { per_request: sound(per_request), per_second: sound(per_second), most: sound(most), saved }
    }

    /// A request came.
    pub fn deposit(&self, now: Instant) {
        let mut saved = self.saved.lock();
        self.pass_time(&mut saved, now);
        saved.retries = (saved.retries + self.per_request).min(self.most);
    }

    /// Takes a retry out; false if there is none.
    #[must_use]
    pub fn withdraw(&self, now: Instant) -> bool {
        let mut saved = self.saved.lock();
        self.pass_time(&mut saved, now);
        let enough = saved.retries >= 1.0;
        if enough {
            saved.retries -= 1.0;
        }
        enough
    }

    fn pass_time(&self, saved: &mut Saved, now: Instant) {
        // Threads may tell of moments out of order; time that went backwards is none.
        let passed = saved.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        saved.retries = (saved.retries + passed * self.per_second).min(self.most);
        saved.at = Some(saved.at.map_or(now, |at| at.max(now)));
    }
}

impl Default for RetryBudget {
    /// One retry for five requests and one a second, a hundred saved up.
    fn default() -> Self {
        Self::new(0.2, 1.0, 100.0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn seconds_pay_too_and_savings_are_bounded() {
        let (budget, now) = (RetryBudget::new(0.0, 2.0, 3.0), start());
        assert!(!budget.withdraw(now));
        let later = now + Duration::from_secs(1);
        assert!(budget.withdraw(later) && budget.withdraw(later) && !budget.withdraw(later));
        let much_later = now + Duration::from_secs(3600);
        let taken = std::iter::repeat_with(|| budget.withdraw(much_later)).take_while(|taken| *taken).count();
        assert_eq!(taken, 3);
    }

    #[test]
    fn a_storm_of_failures_retries_a_fifth_of_the_requests() {
        let (budget, now) = (RetryBudget::new(0.2, 0.0, 100.0), start());
        let retries = (0..10_000).filter(|_| {
            budget.deposit(now);
            budget.withdraw(now)
        });
        let retries = retries.count();
        assert!((1_999..=2_000).contains(&retries), "{retries}");
    }

    #[test]
    fn time_that_goes_backwards_pays_nothing() {
        let (budget, now) = (RetryBudget::new(0.0, 1.0, 10.0), start() + Duration::from_secs(10));
        assert!(!budget.withdraw(now));
        assert!(!budget.withdraw(now - Duration::from_secs(5)));
        assert!(!budget.withdraw(now), "five seconds back and forth are no time");
    }
}
