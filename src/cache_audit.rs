//! Cache audit: cached prompt tokens expected of a pod against those that its engine reports, and why they differ.
//!
//! The rule: a difference has a cause only if an event accounts for it: the first change of the block at which the two part,
//! after the decision, took it away or brought it. A hit keeps its blocks, so a block that is announced anew without having
//! left was there, and explains nothing. A cache that is cleared takes away what was there, and of what was not it says nothing.

mod change_log;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kv_index::{BlockHash, Pod};
use parking_lot::Mutex;
use routing_exec::{AttemptOutcome, DispatchReport};

use self::change_log::Change;
pub use self::change_log::ChangeLog;
pub(crate) use self::change_log::{Lag, StreamProblem};
use crate::Clock;

/// What was expected of a pod when a request was sent to it.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "what a host of its own fills in by name")]
pub struct Expectation {
    /// The pod.
    pub pod: Pod,
    /// Its name.
    pub name: Arc<str>,
    /// Prompt tokens that it was expected to have cached; none where its engine reports something else.
    pub tokens: Option<u64>,
    /// When the index was searched.
    pub decided: Instant,
    /// Whether the pod was suspended: its event connection was down, and nothing was expected of it.
    pub is_suspended: bool,
}

/// An expectation, and what the engine reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "two figures that are compared: complete by nature")]
pub struct Observation {
    /// Prompt tokens that the pod was expected to have cached.
    pub expected: u64,
    /// Those that its engine says it had.
    pub actual: u64,
}

/// Why an engine had other tokens cached than were expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
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

/// Cached tokens expected of pods, against those that engines report, and the causes of differences.
pub struct CacheAudit {
    clock: Clock,
    by_pod: Mutex<BTreeMap<Arc<str>, CacheAccuracy>>,
    logs: Mutex<HashMap<Pod, Arc<ChangeLog>>>,
    open: Mutex<VecDeque<Open>>,
}

/// What one request came to: the last attempt that reported.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Audited {
    /// Expected, and reported.
    pub observation: Observation,
    /// Set a second after the response, if they differ.
    pub cause: Arc<OnceLock<Cause>>,
}

impl Audited {
    /// Whether something else was cached than was expected.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.observation.differs()
    }
}

/// A prompt, for whoever compares.
#[expect(clippy::exhaustive_structs, reason = "what a host of its own fills in by name")]
#[expect(missing_debug_implementations, reason = "a function has nothing to show")]
pub struct AuditedPrompt<'p> {
    /// Its tokens.
    pub tokens: u64,
    /// Tokens in a block.
    pub block_tokens: u64,
    /// The prompt's block hashes; made only where something differs.
    pub hashes: &'p dyn Fn() -> Vec<BlockHash>,
}

impl CacheAudit {
    /// An audit by a clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self { clock, by_pod: Mutex::default(), logs: Mutex::default(), open: Mutex::default() }
    }

    /// Compares the attempts of a dispatch with what was expected, one by one in order.
    pub fn record(
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
                self.explain(&expectation.name, &cause, Cause::PromptDiffers);
            } else if observation.differs() && (expectation.is_suspended || self.log_of(expectation.pod).is_none()) {
                self.explain(&expectation.name, &cause, Cause::NoEvents);
            } else if observation.differs() {
                self.open(expectation, observation, prompt, &cause);
            }
            last = Some(Audited { observation, cause });
        }
        last
    }

    /// Finds the causes of differences whose events have had the time to come; of all of them, if told so.
    pub fn settle(&self, all: bool) {
        let now = (self.clock)();
        let open = std::mem::take(&mut *self.open.lock());
        let (ripe, young) =
            open.into_iter().partition::<Vec<_>, _>(|open| all || now.saturating_duration_since(open.ended) >= SETTLE);
        let mut waiting = VecDeque::from(young);
        for difference in ripe {
            // A pod that left meanwhile takes its log with it.
            let log = self.log_of(difference.expectation.pod);
            let has_forgotten = log.as_ref().is_some_and(|log| log.has_forgotten());
            match log.and_then(|log| difference.cause(&log)) {
                Some(cause) => self.explain(&difference.expectation.name, &difference.cause, cause),
                None if !all && now.saturating_duration_since(difference.ended) < LATEST => {
                    waiting.push_back(difference)
                }
                None if !difference.is_over && has_forgotten => {
                    self.explain(&difference.expectation.name, &difference.cause, Cause::EventsLost);
                }
                None => self.explain(&difference.expectation.name, &difference.cause, Cause::Unexplained),
            }
        }
        self.open.lock().extend(waiting);
    }

    /// The log of a pod's changes, for whoever feeds the index by other means than [`Router::feed`](crate::Router::feed): its
    /// event source writes it, as the observer of its feed.
    pub fn change_log(&self, pod: Pod) -> Arc<ChangeLog> {
        let new = || Arc::new(ChangeLog::new(Arc::clone(&self.clock)));
        Arc::clone(self.logs.lock().entry(pod).or_insert_with(new))
    }

    pub(crate) fn log_of(&self, pod: Pod) -> Option<Arc<ChangeLog>> {
        self.logs.lock().get(&pod).cloned()
    }

    /// Forgets the logs of pods that left.
    pub fn retain(&self, is_kept: impl Fn(Pod) -> bool) {
        self.logs.lock().retain(|pod, _| is_kept(*pod));
    }

    /// Forgets the figures of pods that left, by name.
    pub fn retain_names(&self, is_kept: impl Fn(&str) -> bool) {
        self.by_pod.lock().retain(|name, _| is_kept(name));
    }

    /// How expectations of a pod compare with what its engine reported.
    #[must_use]
    pub fn of(&self, name: &str) -> CacheAccuracy {
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
            open.push_back(Open { ended: (self.clock)(), expectation, blocks, is_over: expected > actual, cause });
        }
    }

    fn explain(&self, name: &Arc<str>, cause: &OnceLock<Cause>, found: Cause) {
        let _ = cause.set(found);
        *self.by_pod.lock().entry(Arc::clone(name)).or_default().causes.entry(found.name()).or_default() += 1;
    }
}

impl std::fmt::Debug for CacheAudit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheAudit").field("by_pod", &*self.by_pod.lock()).finish_non_exhaustive()
    }
}

impl Open {
    /// The cause, if an event accounts for the difference by now.
    fn cause(&self, log: &ChangeLog) -> Option<Cause> {
        let decided = self.expectation.decided;
        let (cause, heard) = if self.is_over {
            match log.first_after(decided, *self.blocks.first()?)? {
                (Change::Removed, heard) => (Cause::Evicted, heard),
                (Change::Cleared, heard) => (Cause::Cleared, heard),
                (Change::Stored, _) => return None,
            }
        } else {
            // Every block came after the decision; the last of them is the latest that was heard of.
            let heard: Option<Vec<Instant>> =
                self.blocks.iter().map(|block| log.stored_after(decided, *block)).collect();
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
