//! Cache audit: cached prompt tokens expected of a pod against those that its engine reports, and why they differ.
//!
//! The rule: a difference has a cause only if an event accounts for it: the first change of the block at which the two part,
//! after the decision, took it away or brought it. A hit keeps its blocks, so a block that is announced anew without having
//! left was there, and explains nothing.

mod change_log;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kv_index::{BlockHash, Pod};
use parking_lot::Mutex;
use routing_exec::{AttemptOutcome, DispatchReport};
use serde::Serialize;

use self::change_log::Change;
pub(super) use self::change_log::ChangeLog;

/// What was expected of a pod when a request was sent to it.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    pub(super) pod: Pod,
    pub(super) name: Arc<str>,
    /// Prompt tokens that it was expected to have cached; none where its engine reports something else.
    pub(super) tokens: Option<u64>,
    /// When the index was searched.
    pub(super) decided: Instant,
    /// Whether the pod was suspended: its event connection was down, and nothing was expected of it.
    pub(super) is_suspended: bool,
}

/// An expectation, and what the engine reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) expected: u64,
    pub(super) actual: u64,
}

/// Why an engine had other tokens cached than were expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Cause {
    /// The pod evicted a block after the decision.
    Evicted,
    /// The pod's cache was cleared, or is known to be another's, after the decision.
    Cleared,
    /// The pod stored blocks after the decision, for another request.
    Stored,
    /// An event accounts for it that came a second or more after the response: the source was blocked, or being replayed.
    EventsLate,
    /// No events of the pod came when the request was sent: it has no event source, or its connection was down.
    NoEvents,
    /// Events of the pod were lost for good: it has blocks that it will not announce again.
    EventsLost,
    /// The engine counts other prompt tokens than the gateway: another tokenizer or template.
    PromptDiffers,
    /// No event accounts for it.
    Unexplained,
}

impl Cause {
    /// Its name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Evicted => "evicted",
            Self::Cleared => "cleared",
            Self::Stored => "stored",
            Self::EventsLate => "events_late",
            Self::NoEvents => "no_events",
            Self::EventsLost => "events_lost",
            Self::PromptDiffers => "prompt_differs",
            Self::Unexplained => "unexplained",
        }
    }
}

/// How expectations of a pod compare with what its engine reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheAccuracy {
    /// Responses that did not say how many tokens were cached.
    pub unreported: u64,
    /// Responses with as many cached tokens as expected.
    pub exact: u64,
    /// With fewer.
    pub over: u64,
    /// With more.
    pub under: u64,
    /// Tokens expected, over all that were reported.
    pub expected_tokens: u64,
    /// Tokens reported.
    pub actual_tokens: u64,
    /// Tokens expected and not there.
    pub over_tokens: u64,
    /// Tokens there and not expected.
    pub under_tokens: u64,
    /// The largest difference of one response, in tokens.
    pub largest_difference: u64,
    /// Differences by cause, each told a second after the response.
    pub causes: BTreeMap<&'static str, u64>,
}

/// A difference whose cause is not told yet: events may still be on their way.
struct Open {
    ended: Instant,
    expectation: Expectation,
    /// The blocks from where the two part: those that were missing, or those that had come.
    blocks: Vec<BlockHash>,
    is_over: bool,
    cause: Arc<OnceLock<Cause>>,
}

/// Expectations and reports of all pods.
#[derive(Default)]
pub(super) struct CacheAudit {
    by_pod: Mutex<BTreeMap<Arc<str>, CacheAccuracy>>,
    logs: Mutex<HashMap<Pod, Arc<ChangeLog>>>,
    open: Mutex<VecDeque<Open>>,
}

/// What one dispatch came to: the last attempt that reported.
#[derive(Clone, Debug)]
pub(super) struct Audited {
    pub(super) observation: Observation,
    /// Set a second after the response, if they differ.
    pub(super) cause: Arc<OnceLock<Cause>>,
}

impl Audited {
    /// Whether something else was cached than was expected.
    pub(super) fn differs(&self) -> bool {
        self.observation.differs()
    }
}

/// A prompt, for whoever compares.
pub(super) struct AuditedPrompt<'p> {
    pub(super) tokens: u64,
    pub(super) block_tokens: u64,
    /// The prompt's block hashes; made only where something differs.
    pub(super) hashes: &'p dyn Fn() -> Vec<BlockHash>,
}

impl CacheAudit {
    /// Compares the attempts of a dispatch with what was expected, one by one in order.
    pub(super) fn record(
        &self,
        expectations: &[Expectation],
        report: &DispatchReport,
        prompt: &AuditedPrompt<'_>,
    ) -> Option<Audited> {
        let mut last = None;
        for (expectation, attempt) in expectations.iter().zip(&report.attempts) {
            let is_answer = attempt.status == Some(200) && attempt.outcome == AttemptOutcome::Completed;
            let Some(expected) = expectation.tokens.filter(|_| is_answer && attempt.pod == expectation.pod) else {
                continue;
            };
            let usage = attempt.usage.unwrap_or_default();
            let Some(actual) = usage.cached_tokens else {
                self.by_pod.lock().entry(Arc::clone(&expectation.name)).or_default().unreported += 1;
                continue;
            };
            let observation = Observation { expected, actual };
            self.by_pod.lock().entry(Arc::clone(&expectation.name)).or_default().count(observation);
            let cause = Arc::new(OnceLock::new());
            if usage.prompt_tokens.is_some_and(|tokens| tokens != prompt.tokens) && observation.differs() {
                self.settle(&expectation.name, &cause, Cause::PromptDiffers);
            } else if observation.differs() && (expectation.is_suspended || self.log_of(expectation.pod).is_none()) {
                self.settle(&expectation.name, &cause, Cause::NoEvents);
            } else if observation.differs() {
                self.open(expectation, observation, prompt, &cause);
            }
            last = Some(Audited { observation, cause });
        }
        last
    }

    /// Finds the causes of differences whose events have had the time to come; of all of them, if told so.
    pub(super) fn settle_open(&self, all: bool) {
        let open = std::mem::take(&mut *self.open.lock());
        let (ripe, young) = open.into_iter().partition::<Vec<_>, _>(|open| all || open.ended.elapsed() >= SETTLE);
        let mut waiting = VecDeque::from(young);
        for difference in ripe {
            // A pod that left meanwhile takes its log with it.
            let log = self.log_of(difference.expectation.pod).unwrap_or_default();
            match difference.cause(&log) {
                Some(cause) => self.settle(&difference.expectation.name, &difference.cause, cause),
                None if !all && difference.ended.elapsed() < LATEST => waiting.push_back(difference),
                None if !difference.is_over && log.has_forgotten() => {
                    self.settle(&difference.expectation.name, &difference.cause, Cause::EventsLost);
                }
                None => self.settle(&difference.expectation.name, &difference.cause, Cause::Unexplained),
            }
        }
        self.open.lock().extend(waiting);
    }

    /// The log of a pod's changes, which its event source writes.
    pub(super) fn change_log(&self, pod: Pod) -> Arc<ChangeLog> {
        Arc::clone(self.logs.lock().entry(pod).or_default())
    }

    fn log_of(&self, pod: Pod) -> Option<Arc<ChangeLog>> {
        self.logs.lock().get(&pod).cloned()
    }

    /// Forgets the logs of pods that left.
    pub(super) fn retain(&self, is_kept: impl Fn(Pod) -> bool) {
        self.logs.lock().retain(|pod, _| is_kept(*pod));
    }

    /// How a pod compares.
    pub(super) fn of(&self, name: &str) -> CacheAccuracy {
        self.by_pod.lock().get(name).cloned().unwrap_or_default()
    }

    fn open(
        &self,
        expectation: &Expectation,
        observation: Observation,
        prompt: &AuditedPrompt<'_>,
        cause: &Arc<OnceLock<Cause>>,
    ) {
        let Observation { expected, actual } = observation;
        let block = |tokens: u64| (tokens / prompt.block_tokens.max(1)) as usize;
        let hashes = (prompt.hashes)();
        let (from, to) = (block(expected.min(actual)), block(expected.max(actual)));
        let blocks = hashes.get(from..to.min(hashes.len())).unwrap_or_default().to_vec();
        let (expectation, cause) = (expectation.clone(), Arc::clone(cause));
        let mut open = self.open.lock();
        if open.len() < MAX_OPEN {
            open.push_back(Open { ended: Instant::now(), expectation, blocks, is_over: expected > actual, cause });
        }
    }

    fn settle(&self, name: &Arc<str>, cause: &OnceLock<Cause>, found: Cause) {
        let _ = cause.set(found);
        *self.by_pod.lock().entry(Arc::clone(name)).or_default().causes.entry(found.name()).or_default() += 1;
    }
}

impl Open {
    /// The cause, if an event accounts for the difference by now.
    fn cause(&self, log: &ChangeLog) -> Option<Cause> {
        let first = |block: &BlockHash| log.first_after(self.expectation.decided, *block);
        let (cause, heard) = if self.is_over {
            match self.blocks.first().and_then(first)? {
                (Change::Removed, heard) => (Cause::Evicted, heard),
                (Change::Cleared, heard) => (Cause::Cleared, heard),
                (Change::Stored, _) => return None,
            }
        } else {
            // Every block came after the decision; the last of them is the latest that was heard of.
            let stored = |block| first(block).filter(|(change, _)| *change == Change::Stored).map(|(_, heard)| heard);
            let heard: Option<Vec<Instant>> = self.blocks.iter().map(stored).collect();
            (Cause::Stored, heard?.into_iter().max()?)
        };
        Some(if heard.saturating_duration_since(self.ended) >= SETTLE { Cause::EventsLate } else { cause })
    }
}

impl Observation {
    fn differs(self) -> bool {
        self.expected != self.actual
    }
}

impl CacheAccuracy {
    fn count(&mut self, Observation { expected, actual }: Observation) {
        self.expected_tokens += expected;
        self.actual_tokens += actual;
        self.over_tokens += expected.saturating_sub(actual);
        self.under_tokens += actual.saturating_sub(expected);
        self.largest_difference = self.largest_difference.max(expected.abs_diff(actual));
        *match expected.cmp(&actual) {
            std::cmp::Ordering::Equal => &mut self.exact,
            std::cmp::Ordering::Greater => &mut self.over,
            std::cmp::Ordering::Less => &mut self.under,
        } += 1;
    }
}

/// How long after a response the events that explain it may come.
const SETTLE: Duration = Duration::from_secs(1);
/// How long they may come late: a blocked source is replayed within seconds.
const LATEST: Duration = Duration::from_secs(15);
/// Differences that may wait for their cause; more are counted and not explained.
const MAX_OPEN: usize = 1 << 14;

#[cfg(test)]
mod tests;
