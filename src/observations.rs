//! Observations: the few counts and samples that a diagnosis is made of.

mod confirmations;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kv_index::Pod;
use parking_lot::Mutex;
use routing_core::{Request, RoutingPlan};

use self::confirmations::Confirmations;
pub(crate) use self::confirmations::{Confirmed, SampledPrompt};

/// What was seen of requests. Counters publish nothing, so all of them are relaxed.
#[derive(Debug)]
pub(crate) struct Observations {
    began: Instant,
    /// Decisions, and those of them whose prompt had tokens or hashes.
    decided: AtomicU64,
    with_tokens: AtomicU64,
    /// Those that had only one of the two.
    only_tokens: AtomicU64,
    only_hashes: AtomicU64,
    /// Whether decisions go by what pods hold.
    cache_aware: AtomicBool,
    /// Decisions that looked prompts up, and those that found something which an engine announced.
    searched: AtomicU64,
    matched: AtomicU64,
    /// Milliseconds after the beginning: the last tick, and by how much the last request's time was behind the clock.
    ticked: AtomicU64,
    behind: AtomicU64,
    /// The beginning of a prompt that nobody was found to hold.
    unmatched: Mutex<Vec<u32>>,
    confirmations: Confirmations,
}

impl Observations {
    pub(crate) fn new(began: Instant) -> Self {
        Self {
            began,
            decided: AtomicU64::default(),
            with_tokens: AtomicU64::default(),
            only_tokens: AtomicU64::default(),
            only_hashes: AtomicU64::default(),
            cache_aware: AtomicBool::default(),
            searched: AtomicU64::default(),
            matched: AtomicU64::default(),
            ticked: AtomicU64::default(),
            behind: AtomicU64::default(),
            unmatched: Mutex::default(),
            confirmations: Confirmations::default(),
        }
    }

    /// Notes a decision. What may be speculated at a pod is no word of its engine's.
    pub(crate) fn decided(
        &self,
        request: &Request<'_>,
        plan: &RoutingPlan,
        now: Instant,
        is_speculating: impl Fn(Pod) -> bool,
    ) {
        let count = self.decided.fetch_add(1, Ordering::Relaxed);
        let behind = now.saturating_duration_since(request.now).as_millis() as u64;
        if self.behind.load(Ordering::Relaxed) != behind {
            self.behind.store(behind, Ordering::Relaxed);
        }
        let tokens = request.tokens.unwrap_or_default();
        let (has_tokens, has_hashes) = (!tokens.is_empty(), request.hashes.is_some_and(|hashes| !hashes.is_empty()));
        if has_tokens || has_hashes {
            self.with_tokens.fetch_add(1, Ordering::Relaxed);
        }
        if has_tokens != has_hashes {
            (if has_tokens { &self.only_tokens } else { &self.only_hashes }).fetch_add(1, Ordering::Relaxed);
        }
        let cache = plan.steps().iter().find_map(|step| step.cache);
        if self.cache_aware.load(Ordering::Relaxed) != cache.is_some() {
            self.cache_aware.store(cache.is_some(), Ordering::Relaxed);
        }
        let Some(cache) = cache else { return };
        if cache.blocks == 0 {
            return;
        }
        self.searched.fetch_add(1, Ordering::Relaxed);
        let is_sampled = count % SAMPLED_OF == 0;
        let chosen = plan.steps().first().and_then(|step| step.candidates.first());
        if cache.held > 0 {
            if chosen.is_some_and(|chosen| !is_speculating(chosen.pod)) {
                self.matched.fetch_add(1, Ordering::Relaxed);
            }
        } else if is_sampled {
            if let Some(mut sample) = self.unmatched.try_lock() {
                sample.clear();
                sample.extend(tokens.iter().take(SAMPLE_TOKENS));
            }
        }
        if let Some(chosen) = chosen.filter(|_| is_sampled) {
            self.confirmations.sent(request, chosen.pod, now);
        }
    }

    /// Looks which of the sampled prompts their pods announced.
    pub(crate) fn settle(&self, now: Instant, holds: impl Fn(Pod, &SampledPrompt) -> Option<bool>) {
        self.confirmations.settle(now, holds);
    }

    /// Forgets pods that left.
    pub(crate) fn retain(&self, is_kept: impl Fn(Pod) -> bool) {
        self.confirmations.retain(is_kept);
    }

    /// Sampled prompts that pods announced, and those that they did not since.
    pub(crate) fn all_confirmed(&self) -> (u64, u64) {
        self.confirmations.totals()
    }

    /// Which of the sampled prompts a pod announced.
    pub(crate) fn confirmed(&self, pod: Pod) -> Confirmed {
        self.confirmations.of(pod)
    }

    pub(crate) fn ticked(&self, now: Instant) {
        self.ticked.store(self.millis(now), Ordering::Relaxed);
    }

    /// Decisions, and those without tokens.
    pub(crate) fn without_tokens(&self) -> (u64, u64) {
        let decided = self.decided.load(Ordering::Relaxed);
        (decided, decided.saturating_sub(self.with_tokens.load(Ordering::Relaxed)))
    }

    /// Decisions with tokens and without hashes, and the other way round.
    pub(crate) fn one_of_two(&self) -> (u64, u64) {
        (self.only_tokens.load(Ordering::Relaxed), self.only_hashes.load(Ordering::Relaxed))
    }

    /// Whether decisions go by what pods hold.
    pub(crate) fn is_cache_aware(&self) -> bool {
        self.cache_aware.load(Ordering::Relaxed)
    }

    /// Prompts that were looked up, and those of which something was held.
    pub(crate) fn searched(&self) -> (u64, u64) {
        (self.searched.load(Ordering::Relaxed), self.matched.load(Ordering::Relaxed))
    }

    /// How long ago the last tick was; or the beginning, if there was none.
    pub(crate) fn since_tick(&self, now: Instant) -> Duration {
        Duration::from_millis(self.millis(now).saturating_sub(self.ticked.load(Ordering::Relaxed)))
    }

    /// By how much the last request's time was behind the clock.
    pub(crate) fn behind(&self) -> Duration {
        Duration::from_millis(self.behind.load(Ordering::Relaxed))
    }

    /// The beginning of a prompt that nobody was found to hold.
    pub(crate) fn unmatched(&self) -> Vec<u32> {
        self.unmatched.lock().clone()
    }

    fn millis(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_millis() as u64
    }
}

/// One of so many prompts is kept, if nobody holds it.
const SAMPLED_OF: u64 = 8;
/// Tokens kept of it: the first block of any usual size.
const SAMPLE_TOKENS: usize = 1024;
