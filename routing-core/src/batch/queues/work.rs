//! Sums of work, by what is known of answers when they are asked for.

use std::collections::BTreeMap;

use super::entry::Entry;
use super::lengths::{AnswerLengths, BUCKETS};

/// Planned seconds at speed 1 of several requests: of their prompts, and of their answers as estimated, by bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    requests: usize,
    prefill: f64,
    decode: [f64; BUCKETS],
}

impl Work {
    pub(super) const NONE: Self = Self { requests: 0, prefill: 0.0, decode: [0.0; BUCKETS] };

    pub(super) fn add(&mut self, entry: &Entry) {
        self.requests += 1;
        self.prefill += f64::from(entry.prefill);
        self.decode[usize::from(entry.bucket)] += f64::from(entry.decode);
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        self.requests -= 1;
        self.prefill -= f64::from(entry.prefill);
        self.decode[usize::from(entry.bucket)] -= f64::from(entry.decode);
        // What rounding left.
        if self.requests == 0 {
            *self = Self::NONE;
        }
    }

    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    /// Seconds, by what is known of answers.
    pub(super) fn expected(&self, lengths: &AnswerLengths) -> f64 {
        let decode: f64 = (0..).zip(&self.decode).map(|(bucket, sum)| sum * lengths.ratio(bucket)).sum();
        (self.prefill + decode).max(0.0)
    }
}

/// The work of requests that wait, by tier.
#[derive(Clone, Debug, Default)]
pub(super) struct TieredWork {
    /// Of tiers that have any.
    tiers: BTreeMap<u32, Work>,
}

impl TieredWork {
    pub(super) fn add(&mut self, entry: &Entry) {
        self.tiers.entry(entry.tier).or_insert(Work::NONE).add(entry);
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        let Some(work) = self.tiers.get_mut(&entry.tier) else { return };
        work.remove(entry);
        if work.requests() == 0 {
            self.tiers.remove(&entry.tier);
        }
    }

    pub(super) fn requests(&self) -> usize {
        self.tiers.values().map(Work::requests).sum()
    }

    pub(super) fn most_urgent(&self) -> Option<u32> {
        self.tiers.keys().next().copied()
    }

    /// Seconds of what is more urgent than `tier`, or of all.
    pub(super) fn expected(&self, tier: Option<u32>, lengths: &AnswerLengths) -> f64 {
        let urgent = self.tiers.range(..tier.unwrap_or(u32::MAX)).map(|(_, work)| work);
        let last = self.tiers.get(&u32::MAX).filter(|_| tier.is_none());
        urgent.chain(last).map(|work| work.expected(lengths)).sum()
    }
}
