//! How far a batch has come.

use std::time::{Duration, Instant};

use routing_core::Pod;

use super::board::Board;
use super::lane::{Lane, Life};

/// How far a batch has come.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BatchProgress {
    /// Requests of the batch.
    pub requests: usize,
    /// Those whose results were there before this run.
    pub resumed: usize,
    /// Those that this run has an answer of success for.
    pub succeeded: usize,
    /// Those that failed for good, or whose answer is one of an error.
    pub failed: usize,
    /// Under way, or waiting to be tried again.
    pub in_flight: usize,
    /// Not begun.
    pub waiting: usize,
    /// Results that nobody has taken yet.
    pub held: usize,
    /// Requests that were sent again.
    pub retries: usize,
    /// Times that a plan was made anew.
    pub replans: usize,
    /// Tokens of prompts, as answers say.
    pub prompt_tokens: u64,
    /// Of those, from caches.
    pub cached_tokens: u64,
    /// Tokens of answers, as they say.
    pub output_tokens: u64,
    /// Since the first poll.
    pub elapsed: Duration,
    /// How long the rest will take: of the living pods the one that is done last, if each goes on through the expected tokens
    /// of what it has left as fast as through what it has done. None until something is done.
    pub left: Option<Duration>,
    /// By pod.
    pub pods: Vec<PodProgress>,
}

impl BatchProgress {
    /// Requests that have a result, from this run or before it.
    #[must_use]
    pub fn done(&self) -> usize {
        self.resumed + self.succeeded + self.failed
    }
}

/// How far a pod has come.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PodProgress {
    /// Which.
    pub pod: Pod,
    /// Whether it is thought to live.
    pub is_living: bool,
    /// Requests it did.
    pub succeeded: usize,
    /// Requests that failed for good with it.
    pub failed: usize,
    /// Requests under way with it.
    pub in_flight: usize,
    /// Requests it has not begun.
    pub waiting: usize,
    /// Tokens of prompts, as its answers say.
    pub prompt_tokens: u64,
    /// Of those, from its cache.
    pub cached_tokens: u64,
    /// Tokens of its answers, as they say.
    pub output_tokens: u64,
    /// From the first poll to the last thing it was done with.
    pub busy: Duration,
}

/// What is counted besides what the board knows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) resumed: usize,
    pub(super) succeeded: usize,
    pub(super) failed: usize,
    pub(super) retries: usize,
    pub(super) replans: usize,
}

impl BatchProgress {
    pub(super) fn of(board: &Board, counts: Counts, held: usize, started: Option<Instant>, now: Instant) -> Self {
        let started = started.unwrap_or(now);
        let elapsed = now.saturating_duration_since(started);
        let sum = |count: fn(&Lane) -> u64| board.lanes.iter().map(count).sum::<u64>();
        Self {
            requests: board.requests(),
            resumed: counts.resumed,
            succeeded: counts.succeeded,
            failed: counts.failed,
            in_flight: sum(|lane| u64::from(lane.in_flight)) as usize,
            waiting: board.waiting(),
            held,
            retries: counts.retries,
            replans: counts.replans,
            prompt_tokens: sum(|lane| lane.tally.prompt),
            cached_tokens: sum(|lane| lane.tally.cached),
            output_tokens: sum(|lane| lane.tally.output),
            elapsed,
            left: left(board, started, now),
            pods: board.lanes.iter().map(|lane| PodProgress::of(lane, started)).collect(),
        }
    }
}

impl PodProgress {
    fn of(lane: &Lane, started: Instant) -> Self {
        Self {
            pod: lane.pod,
            is_living: lane.life == Life::Living,
            succeeded: lane.tally.succeeded,
            failed: lane.tally.failed,
            in_flight: lane.in_flight as usize,
            waiting: lane.waiting,
            prompt_tokens: lane.tally.prompt,
            cached_tokens: lane.tally.cached,
            output_tokens: lane.tally.output,
            busy: lane.tally.last.map_or(Duration::ZERO, |last| last.saturating_duration_since(started)),
        }
    }
}

/// The time that a pod took for what it has done tells what it takes for the rest. One that has done nothing yet is thought to
/// be as fast as the others are on average.
fn left(board: &Board, started: Instant, now: Instant) -> Option<Duration> {
    if board.left() == 0 {
        return Some(Duration::ZERO);
    }
    let elapsed = now.saturating_duration_since(started).as_secs_f64();
    let living = || board.lanes.iter().filter(|lane| lane.life == Life::Living);
    let (all, pods) = (board.lanes.iter().map(|lane| lane.tally.done).sum::<u64>(), living().count());
    if all == 0 || pods == 0 {
        return None;
    }
    let usual = elapsed * pods as f64 / all as f64;
    let times = living().filter(|lane| lane.left > 0).map(|lane| {
        let last = lane.tally.last.filter(|_| lane.tally.done > 0);
        last.map_or(lane.left as f64 * usual, |last| {
            let busy = last.saturating_duration_since(started).as_secs_f64();
            busy * lane.left as f64 / lane.tally.done as f64 - (elapsed - busy)
        })
    });
    Duration::try_from_secs_f64(times.fold(0.0, f64::max)).ok()
}
