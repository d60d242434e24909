//! Confirmations: whether pods announce the prompts that were sent to them, by a few samples of each pod.
//!
//! The rule: a prompt is missed only if its pod had the time to compute and to announce it, and held none of it at any look.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use kv_index::{BlockHash, Pod};
use parking_lot::Mutex;
use routing_core::Request;

/// Samples of the prompts that went to each pod.
#[derive(Debug, Default)]
pub(super) struct Confirmations(Mutex<HashMap<Pod, Samples>>);

#[derive(Debug, Default)]
struct Samples {
    waiting: Vec<(Instant, SampledPrompt)>,
    seen: Confirmed,
}

/// The beginning of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SampledPrompt {
    Tokens {
        tokens: Vec<u32>,
        /// Part of its hashes, if there is one.
        salt: Option<Box<str>>,
        /// So is the adapter.
        adapter: Option<Box<str>>,
    },
    /// Of a host that hashes prompts itself: the first block.
    Hash(BlockHash),
}

/// What became of a pod's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Confirmed {
    /// Prompts that the pod announced.
    pub(crate) prompts: u64,
    /// Prompts since the last of those that it did not announce.
    pub(crate) missed: u64,
    /// The last one that it did not.
    pub(crate) last_missed: Option<SampledPrompt>,
}

impl Confirmations {
    /// A prompt goes to a pod.
    pub(super) fn sent(&self, request: &Request<'_>, pod: Pod, now: Instant) {
        let prompt = match (request.hashes, request.tokens) {
            (Some([first, ..]), _) => SampledPrompt::Hash(*first),
            (_, Some(tokens)) if !tokens.is_empty() => SampledPrompt::Tokens {
                tokens: tokens[..tokens.len().min(SAMPLE_TOKENS)].to_vec(),
                salt: request.salt.map(Into::into),
                adapter: request.adapter.map(Into::into),
            },
            _ => return,
        };
        // Who finds it taken leaves the sample to the next request.
        let Some(mut pods) = self.0.try_lock() else { return };
        let samples = pods.entry(pod).or_default();
        if samples.waiting.len() < SAMPLES {
            samples.waiting.push((now, prompt));
        }
    }

    /// Looks at what waits. `holds` says whether a pod really holds a prompt's first block; none if that cannot be told.
    pub(super) fn settle(&self, now: Instant, holds: impl Fn(Pod, &SampledPrompt) -> Option<bool>) {
        for (pod, Samples { waiting, seen }) in self.0.lock().iter_mut() {
            waiting.retain(|(sent, prompt)| match holds(*pod, prompt) {
                None => false,
                Some(true) => {
                    (seen.prompts, seen.missed) = (seen.prompts + 1, 0);
                    false
                }
                Some(false) if now.saturating_duration_since(*sent) < LATEST => true,
                Some(false) => {
                    (seen.missed, seen.last_missed) = (seen.missed + 1, Some(prompt.clone()));
                    false
                }
            });
        }
    }

    /// Forgets pods that left.
    pub(super) fn retain(&self, is_kept: impl Fn(Pod) -> bool) {
        self.0.lock().retain(|pod, _| is_kept(*pod));
    }

    /// Prompts that pods announced, and those that they did not since, over all pods.
    pub(super) fn totals(&self) -> (u64, u64) {
        let pods = self.0.lock();
        let seen = pods.values().map(|samples| &samples.seen);
        seen.fold((0, 0), |(prompts, missed), seen| (prompts + seen.prompts, missed + seen.missed))
    }

    pub(super) fn of(&self, pod: Pod) -> Confirmed {
        self.0.lock().get(&pod).map(|samples| samples.seen.clone()).unwrap_or_default()
    }
}

/// Prompts of a pod that are waited for at once.
const SAMPLES: usize = 4;
/// Tokens kept of a prompt: the first block of any usual size.
const SAMPLE_TOKENS: usize = 512;
/// How long a pod may take to announce a prompt: it may have to wait for its turn.
const LATEST: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use kv_index::{Config, Index};

    use super::*;

    #[test]
    fn a_prompt_is_missed_only_after_its_time_and_one_that_came_makes_up_for_those_before() {
        let index: Index = Index::new(Config::default());
        let (pod, start, seen) = (index.join("a").unwrap(), Instant::now(), Confirmations::default());
        let (tokens, late) = ([7; 2000], start + LATEST);
        for _ in 0..9 {
            seen.sent(&Request::new("m", start).tokens(&tokens), pod, start);
        }
        seen.settle(late - Duration::from_millis(1), |_, _| Some(false));
        assert_eq!(seen.of(pod), Confirmed::default(), "it may still come");
        seen.settle(late, |_, _| Some(false));
        let last_missed = Some(SampledPrompt::Tokens { tokens: vec![7; SAMPLE_TOKENS], salt: None, adapter: None });
        assert_eq!(seen.of(pod), Confirmed { prompts: 0, missed: SAMPLES as u64, last_missed });
        let hash = [BlockHash::new(1)];
        seen.sent(&Request::new("m", late).hashes(&hash), pod, late);
        seen.settle(late, |_, prompt| Some(*prompt == SampledPrompt::Hash(hash[0])));
        assert_eq!((seen.of(pod).prompts, seen.of(pod).missed, seen.totals()), (1, 0, (1, 0)));
        seen.retain(|_| false);
        assert_eq!(seen.of(pod), Confirmed::default());
    }
}
