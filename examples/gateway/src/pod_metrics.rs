//! Metrics by pod: attempts by outcome, latency, time to first token.
//!
//! A pod's counters are found by its name once an attempt, and not again. The rule: pods that left are forgotten, so that there are
//! never more series than the fleet has pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use routing_exec::AttemptRecord;

use super::histogram::Histogram;

/// The counters of all pods.
#[derive(Debug, Default)]
pub(super) struct PodMetrics {
    pods: Mutex<BTreeMap<Arc<str>, Arc<PodCounters>>>,
}

/// The counters of one pod.
#[derive(Debug, Default)]
pub(super) struct PodCounters(Mutex<PodCounts>);

/// What was counted of a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct PodCounts {
    /// Attempts that are over, by outcome.
    pub(super) attempts: BTreeMap<&'static str, u64>,
    /// Duration of the attempts that completed.
    pub(super) duration: Histogram,
    /// Time to first token of those that had tokens for a client.
    pub(super) first_token: Histogram,
}

/// What an attempt is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Its response is the client's.
    Answer,
    /// Another pod goes on with what it computed.
    Handoff,
}

impl PodMetrics {
    /// The counters of a pod.
    pub(super) fn of(&self, name: &Arc<str>) -> Arc<PodCounters> {
        let mut pods = self.pods.lock();
        if let Some(counters) = pods.get(name) {
            return Arc::clone(counters);
        }
        Arc::clone(pods.entry(Arc::clone(name)).or_default())
    }

    /// Forgets pods that are not there any more.
    pub(super) fn retain(&self, is_there: impl Fn(&str) -> bool) {
        self.pods.lock().retain(|name, _| is_there(name));
    }

    /// What was counted of a pod; nothing if no attempt was made.
    pub(super) fn counts(&self, name: &str) -> PodCounts {
        self.pods.lock().get(name).map(|counters| counters.0.lock().clone()).unwrap_or_default()
    }
}

impl PodCounters {
    /// Counts an attempt that is over.
    pub(super) fn record(&self, attempt: &AttemptRecord, purpose: Purpose) {
        let mut counts = self.0.lock();
        let outcome = attempt.outcome_name();
        *counts.attempts.entry(outcome).or_default() += 1;
        if let Some(ended) = attempt.ended.filter(|_| outcome == "completed") {
            counts.duration.record(ended.saturating_duration_since(attempt.sent));
        }
        if let Some(waited) = attempt.time_to_first_token().filter(|_| purpose == Purpose::Answer) {
            counts.first_token.record(waited);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use kv_index::{Config, Index};
    use routing_exec::{AttemptOutcome, Failure};

    use super::*;

    #[test]
    fn attempts_count_by_outcome_and_first_tokens_where_there_were_any() {
        let index: Index = Index::new(Config::default());
        let (pod, now, metrics) = (index.join("a").unwrap(), Instant::now(), PodMetrics::default());
        let counters = metrics.of(&"a".into());
        let mut answered = AttemptRecord::completed("decode".into(), pod, now, None);
        (answered.bytes, answered.first_byte) = (10, Some(now + Duration::from_secs(40)));
        answered.ended = Some(now + Duration::from_secs(50));
        counters.record(&answered, Purpose::Answer);
        (0..2).for_each(|_| counters.record(&answered, Purpose::Handoff));
        answered.status = Some(422);
        counters.record(&answered, Purpose::Answer);
        answered.outcome = AttemptOutcome::Failed(Failure::Status(503));
        counters.record(&answered, Purpose::Answer);
        let counts = metrics.counts("a");
        assert_eq!(counts.attempts, [("client_error", 1), ("completed", 3), ("overloaded", 1)].into());
        assert_eq!((counts.duration.count(), counts.duration.seconds()), (3, 150.0));
        assert_eq!((counts.first_token.count(), counts.first_token.seconds()), (1, 40.0));
    }

    #[test]
    fn pods_that_left_are_forgotten() {
        let metrics = PodMetrics::default();
        (0..100).for_each(|pod| drop(metrics.of(&format!("pod-{pod}").into())));
        metrics.retain(|name| name == "pod-7");
        assert_eq!(metrics.pods.lock().keys().map(|name| &**name).collect::<Vec<_>>(), ["pod-7"]);
    }
}
