//! Answer lengths, learned as answers come: how long those were of which as much was expected.
//!
//! Estimates that are wrong are wrong alike: a limit that nobody reaches, a guess that is the same for all. So what is learned is one
//! factor for each order of magnitude of estimates. Answers that are under way count as estimated: those that are done first are the
//! short ones, and would else say that all are.

use super::entry::Entry;

/// Orders of magnitude of estimates, and one for none.
pub(super) const BUCKETS: usize = 33;

/// The bucket of an estimate; 0 is none.
pub(super) fn bucket(output: u32) -> u8 {
    (u32::BITS - output.leading_zeros()) as u8
}

/// Answers that an estimate outweighs.
const PRIOR: f64 = 8.0;

#[derive(Clone, Debug)]
pub(super) struct AnswerLengths {
    buckets: [Bucket; BUCKETS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Tokens expected and generated of answers that are done, and expected of those under way.
    expected: f64,
    generated: f64,
    running: f64,
    /// Of one answer, in the mean.
    mean: f64,
    answers: f64,
}

impl Default for AnswerLengths {
    fn default() -> Self {
        Self { buckets: [Bucket::default(); BUCKETS] }
    }
}

impl AnswerLengths {
    /// How many times as long an answer of this bucket is as estimated, in the mean.
    pub(super) fn ratio(&self, bucket: u8) -> f64 {
        let known = &self.buckets[usize::from(bucket)];
        let sure = PRIOR * known.mean + known.running;
        if known.expected > 0.0 { (sure + known.generated) / (sure + known.expected) } else { 1.0 }
    }

    pub(super) fn begin(&mut self, entry: &Entry) {
        self.buckets[usize::from(entry.bucket)].running += f64::from(entry.output);
    }

    pub(super) fn end(&mut self, entry: &Entry, output: Option<u32>) {
        let bucket = &mut self.buckets[usize::from(entry.bucket)];
        let expected = f64::from(entry.output);
        bucket.running = (bucket.running - expected).max(0.0);
        if let Some(output) = output {
            bucket.expected += expected;
            bucket.generated += f64::from(output);
            bucket.answers += 1.0;
            bucket.mean += (expected - bucket.mean) / bucket.answers;
        }
    }
}
