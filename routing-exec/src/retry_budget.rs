//! Retry budget: a token bucket shared by all dispatches, against retry storms.

use std::time::Instant;

use parking_lot::Mutex;

/// A retry budget, shared by all dispatches: a token bucket that is filled by requests and by time. A retry takes one token, and
/// the bucket's capacity bounds bursts.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use routing_exec::RetryBudget;
///
/// let (budget, now) = (RetryBudget::new(0.5, 0.0, 10.0), Instant::now());
/// assert!(!budget.withdraw(now), "the bucket is empty");
/// budget.deposit(now);
/// budget.deposit(now);
/// assert!(budget.withdraw(now) && !budget.withdraw(now), "two requests pay for one retry");
/// ```
#[derive(Debug)]
pub struct RetryBudget {
    per_request: f64,
    per_second: f64,
    capacity: f64,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    updated: Option<Instant>,
}

impl RetryBudget {
    /// A budget of so many retries a request and a second, with a capacity. NaN and negative numbers are 0.
    #[must_use]
    pub fn new(per_request: f64, per_second: f64, capacity: f64) -> Self {
        let sound = |number: f64| if number > 0.0 { number } else { 0.0 };
        let bucket = Mutex::new(Bucket { tokens: 0.0, updated: None });
        Self { per_request: sound(per_request), per_second: sound(per_second), capacity: sound(capacity), bucket }
    }

    /// The same with so many retries in the bucket from the start, within its capacity: for pods that are down when the first
    /// requests come.
    #[must_use]
    pub fn reserve(self, tokens: f64) -> Self {
        self.bucket.lock().tokens = if tokens > 0.0 { tokens.min(self.capacity) } else { 0.0 };
        self
    }

    /// Fills the bucket for a request.
    pub fn deposit(&self, now: Instant) {
        let mut bucket = self.bucket.lock();
        self.refill(&mut bucket, now);
        bucket.tokens = (bucket.tokens + self.per_request).min(self.capacity);
    }

    /// Takes a token; false if there is none.
    #[must_use]
    pub fn withdraw(&self, now: Instant) -> bool {
        let mut bucket = self.bucket.lock();
        self.refill(&mut bucket, now);
        let enough = bucket.tokens >= 1.0;
        if enough {
            bucket.tokens -= 1.0;
        }
        enough
    }

    fn refill(&self, bucket: &mut Bucket, now: Instant) {
        // Threads may pass times out of order; time that goes backwards is none.
        let passed = bucket.updated.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        bucket.tokens = (bucket.tokens + passed * self.per_second).min(self.capacity);
        bucket.updated = Some(bucket.updated.map_or(now, |at| at.max(now)));
    }
}

impl Default for RetryBudget {
    /// One retry for five requests and ten a second, a capacity of a hundred, and all of it from the start: a pod that is down
    /// costs the first requests a retry, not an error.
    fn default() -> Self {
        Self::new(0.2, 10.0, 100.0).reserve(100.0)
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
    fn time_fills_the_bucket_up_to_its_capacity() {
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
    fn the_first_requests_may_be_retried() {
        let (budget, now) = (RetryBudget::default(), start());
        let retries = std::iter::repeat_with(|| budget.withdraw(now)).take_while(|taken| *taken).count();
        assert_eq!(retries, 100);
        assert!(!RetryBudget::new(1.0, 1.0, 0.5).reserve(9.0).withdraw(now), "no more than fits");
        assert!(!RetryBudget::default().reserve(f64::NAN).withdraw(now));
    }

    #[test]
    fn time_that_goes_backwards_fills_nothing() {
        let (budget, now) = (RetryBudget::new(0.0, 1.0, 10.0), start() + Duration::from_secs(10));
        assert!(!budget.withdraw(now));
        assert!(!budget.withdraw(now - Duration::from_secs(5)));
        assert!(!budget.withdraw(now), "five seconds back and forth are no time");
    }
}
