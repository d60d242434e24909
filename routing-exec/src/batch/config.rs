//! Configuration of a batch runner: concurrency limits, retries with backoff, pod health, and the order of results.

use std::time::Duration;

use routing_core::batch::{BatchConfig, BatchCosts, CohortStart, ConcurrencyLimit};

use crate::failure::RetryOn;

/// Configuration of a [`BatchRunner`](crate::batch::BatchRunner).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BatchRunnerConfig {
    /// The limit of each pod, unless [`BatchRunner::limit`](crate::batch::BatchRunner::limit) sets another. Requests that back off
    /// count. Within it, a pod is given fewer at a time where more would only wait there, or where it says that it is overloaded.
    pub limit: ConcurrencyLimit,
    /// What work costs, by which it is judged who would end last.
    pub planning: BatchConfig,
    /// Whether a pod that has begun all its requests takes over others that are not begun.
    pub work_stealing: bool,
    /// Whether a cohort's first request is sent ahead of the others.
    pub cohort_start: CohortStart,
    /// Attempts of a request that pods processed; at least one. Attempts that no pod processed, because there was no connection
    /// or its breaker was open, are not counted, up to four times as many.
    pub max_attempts: u32,
    /// Failures that are retried.
    pub retry_on: RetryOn,
    /// The wait before a retry. The request keeps its pod's capacity meanwhile, so an overloaded pod is sent less.
    pub backoff: Backoff,
    /// A pod is down after so many failures to connect, to respond or to complete a response, without a response between them;
    /// at least one. A pod whose breaker is open is down at once.
    pub failure_threshold: u32,
    /// After how long a pod that is down is probed with one request; `None` leaves that to
    /// [`BatchRunner::join`](crate::batch::BatchRunner::join).
    pub probe_interval: Option<Duration>,
    /// How long to wait for a pod when none is up, before the batch ends with an error; and how long requests that no pod that
    /// is up can hold wait for one that is probed, before they fail.
    pub no_pods_timeout: Duration,
    /// When to consult [`BatchSource::admit`](crate::batch::BatchSource::admit) again after a rejection, unless an event of the
    /// batch comes first.
    pub admission_interval: Duration,
    /// The order of results.
    pub order: ResultOrder,
    /// Requests in flight and results that the consumer has not taken, together: beyond that nothing is sent (backpressure). At
    /// least one.
    pub max_outstanding: usize,
    /// Bytes of a response; a larger one is a failure, and not retried.
    pub max_response_bytes: usize,
}

crate::setters::setters! { BatchRunnerConfig {
    limit: ConcurrencyLimit,
    planning: BatchConfig,
    work_stealing: bool,
    cohort_start: CohortStart,
    max_attempts: u32,
    retry_on: RetryOn,
    backoff: Backoff,
    failure_threshold: u32,
    probe_interval: Option<Duration>,
    no_pods_timeout: Duration,
    admission_interval: Duration,
    order: ResultOrder,
    max_outstanding: usize,
    max_response_bytes: usize,
} }

impl Default for BatchRunnerConfig {
    /// 256 requests a pod, work stealing, leaders first, five attempts with a backoff of 0.5 s to 30 s, down after three failures and probed
    /// every 30 s, five minutes without a pod, admission every 20 ms, results as completed, 16,384 outstanding, 16 MiB each.
    fn default() -> Self {
        Self {
            limit: ConcurrencyLimit::default(),
            planning: BatchConfig::new(BatchCosts::TYPICAL),
            work_stealing: true,
            cohort_start: CohortStart::LeaderFirst,
            max_attempts: 5,
            // There, "once" is as often as anything else.
            retry_on: RetryOn::default().rejected(false),
            backoff: Backoff::default(),
            failure_threshold: 3,
            probe_interval: Some(Duration::from_secs(30)),
            no_pods_timeout: Duration::from_secs(300),
            admission_interval: Duration::from_millis(20),
            order: ResultOrder::Completion,
            max_outstanding: 16_384,
            max_response_bytes: 16 << 20,
        }
    }
}

/// Exponential backoff with jitter: each wait doubles, less up to half of it at random, so that requests that failed together do
/// not come back together. A pod's `Retry-After` is respected up to the longest wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backoff {
    /// Before the second attempt.
    pub initial: Duration,
    /// The longest wait.
    pub max: Duration,
}

crate::setters::setters! { Backoff {
    initial: Duration,
    max: Duration,
} }

impl Default for Backoff {
    /// From half a second to 30 s.
    fn default() -> Self {
        Self { initial: Duration::from_millis(500), max: Duration::from_secs(30) }
    }
}

/// The order of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResultOrder {
    /// As requests complete.
    Completion,
    /// By index.
    ///
    /// Early results are buffered within [`BatchRunnerConfig::max_outstanding`]: when that is reached, only the request whose
    /// result is next is sent, out of the plan's order. A bound that is small beside the batch thus costs the plan its order;
    /// where results can be sorted afterwards, by a journal for example, prefer [`Self::Completion`]. Failures of requests that a
    /// plan leaves out are buffered besides.
    Index,
}
