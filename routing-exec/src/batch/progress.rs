//! Batch progress: counts, tokens and the estimated time to completion, in all and by pod.

use std::time::{Duration, Instant};

use routing_core::Pod;

use super::pod_state::{PodHealth, PodState};
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
    /// Requests that went from one pod's list to another's.
    pub moved: usize,
    /// The estimated time to completion: the slowest pod's, by how long answers turned out to be and how fast pods. `None` until
    /// something is done.
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
        let sum = |count: fn(&PodState) -> u64| states.pods.iter().map(count).sum::<u64>();
        let pods = || states.pods.iter().enumerate();
        Self {
            requests: states.requests(),
            in_flight: pods().map(|(number, _)| states.lists.running(number)).sum(),
            queued: states.queued(),
            buffered,
            prompt_tokens: sum(|pod| pod.totals.prompt),
            cached_tokens: sum(|pod| pod.totals.cached),
            output_tokens: sum(|pod| pod.totals.output),
            elapsed,
            moved: states.lists.moved(),
            eta: eta(states, elapsed),
            pods: pods().map(|(number, pod)| PodProgress::of(states, number, pod, started)).collect(),
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
    /// How many it is given at a time, as found so far.
    pub bound: u32,
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
    fn of(states: &RequestStates, number: usize, pod: &PodState, started: Instant) -> Self {
        Self {
            pod: pod.pod,
            is_up: pod.health == PodHealth::Up,
            succeeded: pod.totals.succeeded,
            failed: pod.totals.failed,
            in_flight: states.lists.running(number),
            bound: states.lists.bound(number),
            queued: states.lists.waiting_for(number),
            prompt_tokens: pod.totals.prompt,
            cached_tokens: pod.totals.cached,
            output_tokens: pod.totals.output,
            busy: pod.totals.last.map_or(Duration::ZERO, |last| last.saturating_duration_since(started)),
        }
    }
}

/// When the last pod that is up would be done with all that it has.
fn eta(states: &RequestStates, elapsed: Duration) -> Option<Duration> {
    if states.remaining() == 0 {
        return Some(Duration::ZERO);
    }
    let is_up = states.pods.iter().any(|pod| pod.health == PodHealth::Up);
    let is_known = states.pods.iter().any(|pod| pod.totals.last.is_some());
    (is_up && is_known).then(|| states.lists.remaining(elapsed))
}
