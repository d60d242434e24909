//! Learned answer lengths: an online estimate of output tokens, by prompt length, tenant and adapter.
//!
//! How long an answer will be nobody says, and what a request costs its pod after the first token is mostly that. It is guessed from
//! answers that ended: of all, of prompts about as long, of the same tenant and adapter, and of both together, each as far as enough
//! of them were seen. The rule that must never break: memory is bounded, whoever asks.

use std::sync::atomic::{AtomicU64, Ordering};

use routing_core::Request;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::pick::chance::mix;

/// How many tokens answers have; owned by the host, which says so of each that ended.
///
/// [`TotalLatencyScorer`](crate::score::TotalLatencyScorer) goes by it, and a host by which it counts what is to be generated. Nothing is
/// allocated after it was made, and nobody waits: of two answers at once one may not be learned from.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use routing_core::Request;
/// use routing_plugins::{AnswerKey, AnswerLengths};
///
/// let lengths = AnswerLengths::default();
/// let request = Request::new("m", Instant::now());
/// let (short, chat) = (AnswerKey::of(&request.tenant("classifier"), 4_000), AnswerKey::of(&request.tenant("chat"), 4_000));
/// for _ in 0..200 {
///     lengths.learn(short, 5);
///     lengths.learn(chat, 600);
/// }
/// assert!(lengths.expected(short) < 40.0 && lengths.expected(chat) > 550.0);
/// // Of another tenant's prompts of that length: something between.
/// let other = lengths.expected(AnswerKey::of(&request.tenant("new"), 4_000));
/// assert!((250.0..360.0).contains(&other));
/// ```
#[derive(Debug)]
pub struct AnswerLengths {
    /// The bits of the mean of all answers, and how many it is of, as in a slot.
    all: AtomicU64,
    slots: Box<[AtomicU64]>,
}

/// What tells apart requests whose answers differ in length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerKey {
    /// From the most to the least that is like it: prompts about as long, its tenant's and adapter's, and both.
    hashes: [u64; 3],
    /// How many of those there are: only the first, where it has neither tenant nor adapter.
    used: usize,
}

impl AnswerKey {
    /// That of a request with so many tokens in its prompt.
    #[must_use]
    #[inline]
    pub fn of(request: &Request<'_>, prompt_tokens: u64) -> Self {
        // Prompts of one key are at most twice as long as one another.
        let octave = prompt_tokens.checked_ilog2().map_or(0, |octave| u64::from(octave) + 1);
        let class = mix(octave);
        match (request.tenant, request.adapter) {
            (None, None) => Self { hashes: [class; 3], used: 1 },
            (tenant, adapter) => {
                let hash =
                    |name: Option<&str>, seed| name.map_or(seed, |name| xxh3_64_with_seed(name.as_bytes(), seed));
                // Mixed, so that a tenant is not taken for an adapter of its name.
                let names = hash(tenant, mix(hash(adapter, 1)));
                Self { hashes: [class, names, mix(names ^ class)], used: 3 }
            }
        }
    }
}

impl Default for AnswerLengths {
    fn default() -> Self {
        let prior = Slot { tag: 0, seen: PRIOR as u8, mean: PRIOR_TOKENS };
        Self { all: AtomicU64::new(prior.word()), slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect() }
    }
}

impl AnswerLengths {
    /// Tokens of all answers lately, on average; 256 at first.
    #[must_use]
    #[inline]
    pub fn typical(&self) -> f64 {
        Slot::of(self.all.load(Ordering::Relaxed)).mean.into()
    }

    /// Tokens that the answer to such a request is expected to have. A request's own limit is not looked at.
    #[must_use]
    #[inline]
    pub fn expected(&self, key: AnswerKey) -> f64 {
        key.hashes[..key.used].iter().fold(self.typical(), |expected, &hash| {
            let slot = Slot::of(self.slot(hash).load(Ordering::Relaxed));
            let seen = if slot.tag == tag(hash) { f64::from(slot.seen) } else { 0.0 };
            // What is little known is mostly as others are.
            (expected * PRIOR + f64::from(slot.mean) * seen) / (PRIOR + seen)
        })
    }

    /// The same, if any answer was learned from.
    #[must_use]
    #[inline]
    pub fn learned(&self, key: AnswerKey) -> Option<f64> {
        let is_learned = f64::from(Slot::of(self.all.load(Ordering::Relaxed)).seen) > PRIOR;
        is_learned.then(|| self.expected(key))
    }

    /// An answer to such a request ended by itself or at its limit, and has so many tokens.
    pub fn learn(&self, key: AnswerKey, tokens: u64) {
        let tokens = tokens.min(MOST_TOKENS) as f32;
        let learn = |place: &AtomicU64, tag, most| {
            // Relaxed, and in two steps: an estimate that publishes nothing.
            let slot = Slot::of(place.load(Ordering::Relaxed)).seeing(tokens, tag, most);
            place.store(slot.word(), Ordering::Relaxed);
        };
        learn(&self.all, 0, MOST_SEEN_OF_ALL);
        for &hash in &key.hashes[..key.used] {
            learn(self.slot(hash), tag(hash), MOST_SEEN);
        }
    }

    #[inline]
    fn slot(&self, hash: u64) -> &AtomicU64 {
        &self.slots[hash as usize % SLOTS]
    }
}

/// What was learned of one kind of answers, in a word: an average that forgets.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slot {
    /// Which kind, of those that share the place.
    tag: u32,
    /// Answers that were seen, up to as many as matter; 0 where nobody has the place.
    seen: u8,
    mean: f32,
}

impl Slot {
    #[inline]
    fn of(word: u64) -> Self {
        Self { tag: (word >> 40) as u32, seen: (word >> 32) as u8, mean: f32::from_bits(word as u32) }
    }

    fn word(self) -> u64 {
        u64::from(self.tag) << 40 | u64::from(self.seen) << 32 | u64::from(self.mean.to_bits())
    }

    /// The same with one answer more, of this kind or another.
    fn seeing(self, tokens: f32, tag: u32, most: u8) -> Self {
        match self.seen {
            0 => Self { tag, seen: 1, mean: tokens },
            seen if self.tag == tag => {
                let seen = seen.saturating_add(1).min(most);
                Self { seen, mean: self.mean + (tokens - self.mean) / f32::from(seen), ..self }
            }
            // Whoever comes more often keeps the place.
            seen => Self { seen: seen - 1, ..self },
        }
    }
}

/// What tells kinds apart that share a place.
#[inline]
fn tag(hash: u64) -> u32 {
    (hash >> 40) as u32
}

/// Kinds of answers that are remembered: 32 KB.
const SLOTS: usize = 4_096;

/// What answers are taken to have before there are any, and as how many of them that counts.
const PRIOR: f64 = 8.0;
const PRIOR_TOKENS: f32 = 256.0;

/// An average is of so many answers, and forgets older ones.
const MOST_SEEN: u8 = 64;
const MOST_SEEN_OF_ALL: u8 = 255;

/// No answer says more than one that is so long.
const MOST_TOKENS: u64 = 1 << 17;

#[cfg(test)]
mod tests;
