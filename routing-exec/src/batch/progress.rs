//! Batch progress: counts, tokens and the estimated time to completion, in all and by pod.

use std::time::{Duration, Instant};

use routing_core::Pod;

use super::pod_queue::{PodHealth, PodQueue};
use super::request_states::RequestStates;

/// The progress of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BatchProgress {
    /// Requests of the batch.
    pub requests: usize,
    /// Those with a result from an earlier run.
    pub resumed: usize,
    /// Those that succeeded in this run.
    pub succeeded: usize,
    /// Those that failed for good, or whose response is an error.
    pub failed: usize,
    /// In flight, or backing off.
    pub in_flight: usize,
    /// Not started.
    pub queued: usize,
    /// Results that the consumer has not taken.
    pub buffered: usize,
    /// Retries.
    pub retries: usize,
    /// New plans.
    pub replans: usize,
    /// Prompt tokens, by the responses' usage.
    pub prompt_tokens: u64,
    /// Prompt tokens from caches.
    pub cached_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Since the first poll.
    pub elapsed: Duration,
    /// The estimated time to completion: the slowest pod's, at each one's rate of expected tokens so far. `None` until something
    /// is done.
    pub eta: Option<Duration>,
    /// By pod.
    pub pods: Vec<PodProgress>,
}

impl BatchProgress {
    /// Requests with a result, from this run or an earlier one.
    #[must_use]
    pub fn completed(&self) -> usize {
        self.resumed + self.succeeded + self.failed
    }

    pub(super) fn of(
        states: &RequestStates,
        counts: &Self,
        buffered: usize,
        started: Option<Instant>,
        now: Instant,
    ) -> Self {
        let started = started.unwrap_or(now);
        let elapsed = now.saturating_duration_since(started);
        let sum = |count: fn(&PodQueue) -> u64| states.queues.iter().map(count).sum::<u64>();
        Self {
            requests: states.requests(),
            in_flight: sum(|queue| u64::from(queue.in_flight)) as usize,
            queued: states.queued(),
            buffered,
            prompt_tokens: sum(|queue| queue.totals.prompt),
            cached_tokens: sum(|queue| queue.totals.cached),
            output_tokens: sum(|queue| queue.totals.output),
            elapsed,
            eta: eta(states, started, now),
            pods: states.queues.iter().map(|queue| PodProgress::of(queue, started)).collect(),
            ..counts.clone()
        }
    }
}

/// The progress of a pod.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PodProgress {
    /// The pod.
    pub pod: Pod,
    /// Whether it is up.
    pub is_up: bool,
    /// Requests that succeeded.
    pub succeeded: usize,
    /// Requests that failed for good.
    pub failed: usize,
    /// Requests in flight.
    pub in_flight: usize,
    /// Requests that are not started.
    pub queued: usize,
    /// Prompt tokens, by its responses' usage.
    pub prompt_tokens: u64,
    /// Prompt tokens from its cache.
    pub cached_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// From the first poll to its last completion.
    pub busy: Duration,
}

impl PodProgress {
    fn of(queue: &PodQueue, started: Instant) -> Self {
        Self {
            pod: queue.pod,
            is_up: queue.health == PodHealth::Up,
            succeeded: queue.totals.succeeded,
            failed: queue.totals.failed,
            in_flight: queue.in_flight as usize,
            queued: queue.queued,
            prompt_tokens: queue.totals.prompt,
            cached_tokens: queue.totals.cached,
            output_tokens: queue.totals.output,
            busy: queue.totals.last.map_or(Duration::ZERO, |last| last.saturating_duration_since(started)),
        }
    }
}

/// Extrapolates each pod's rate; a pod that has done nothing yet is taken to be as fast as the average.
fn eta(states: &RequestStates, started: Instant, now: Instant) -> Option<Duration> {
    if states.remaining() == 0 {
        return Some(Duration::ZERO);
    }
    let elapsed = now.saturating_duration_since(started).as_secs_f64();
    let up = || states.queues.iter().filter(|queue| queue.health == PodHealth::Up);
    let (all, pods) = (states.queues.iter().map(|queue| queue.totals.done).sum::<u64>(), up().count());
    if all == 0 || pods == 0 {
        return None;
    }
    let usual = elapsed * pods as f64 / all as f64;
    let times = up().filter(|queue| queue.remaining > 0).map(|queue| {
        let last = queue.totals.last.filter(|_| queue.totals.done > 0);
        last.map_or(queue.remaining as f64 * usual, |last| {
            let busy = last.saturating_duration_since(started).as_secs_f64();
            busy * queue.remaining as f64 / queue.totals.done as f64 - (elapsed - busy)
        })
    });
    Duration::try_from_secs_f64(times.fold(0.0, f64::max)).ok()
}
