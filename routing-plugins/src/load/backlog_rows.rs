//! Backlogs of pods side by side (structure of arrays): what a scorer reads of many pods at once.
//!
//! A formula over rows of numbers is worked out for two pods by one instruction, one over pods' structs is not. The rule that must never
//! break: a block says of each pod what its [`Backlog`] says.

use super::Backlog;

/// Pods in a block: as many as rows of scores are long, or a multiple of them.
pub(crate) const LANES: usize = 16;

/// The backlogs of sixteen pods.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BacklogBlock {
    /// As [`Backlog::decoding`].
    pub(crate) decoding: [f64; LANES],
    /// As [`Backlog::sequences`].
    pub(crate) sequences: [f64; LANES],
    /// All requests that wait for their first token, wherever they came from.
    pub(crate) waiting: [f64; LANES],
    /// The pods on which somebody waits, a bit for each.
    queued: u16,
    /// Of those pods; of others it is whatever it was for an earlier request.
    queues: [Queue; LANES],
}

/// What those who wait have to have computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Queue {
    /// As [`Backlog::queued`].
    pub(crate) queued: f64,
    /// As [`Backlog::before`].
    pub(crate) before: f64,
    /// Those of them that were not sent from here, as [`Backlog::waiting`].
    pub(crate) elsewhere: f64,
}

impl BacklogBlock {
    /// Writes the figures of all pods; those on which somebody waits, a bit for each, are asked for what is queued.
    #[inline]
    pub(super) fn write(&mut self, queued: u16, dense: impl Fn(usize) -> [f64; 3], queue: impl Fn(usize) -> Queue) {
        for lane in 0..LANES {
            [self.decoding[lane], self.sequences[lane], self.waiting[lane]] = dense(lane);
        }
        self.queued = queued;
        let mut left = queued;
        while left != 0 {
            let lane = left.trailing_zeros() as usize % LANES;
            self.queues[lane] = queue(lane);
            left &= left - 1;
        }
    }

    /// Writes a pod's backlog.
    pub(crate) fn set(&mut self, lane: usize, backlog: &Backlog) {
        [self.decoding[lane], self.sequences[lane], self.waiting[lane]] = backlog.dense();
        let bit = 1 << lane;
        self.queued = if self.waiting[lane] > 0.0 { self.queued | bit } else { self.queued & !bit };
        self.queues[lane] = backlog.queue();
    }

    /// The pods on which somebody waits, a bit for each.
    #[inline]
    pub(crate) fn queued(&self) -> u16 {
        self.queued
    }

    /// What stands before those who wait on a pod; nothing if nobody does.
    #[inline]
    pub(crate) fn queue(&self, lane: usize) -> Queue {
        if self.queued >> lane & 1 == 1 { self.queues[lane] } else { Queue::default() }
    }

    /// A pod's backlog.
    pub(crate) fn get(&self, lane: usize) -> Backlog {
        Backlog::new([self.decoding[lane], self.sequences[lane], self.waiting[lane]], self.queue(lane))
    }
}

impl Backlog {
    /// Of both kinds of numbers.
    pub(super) fn new([decoding, sequences, waiting]: [f64; 3], queue: Queue) -> Self {
        let Queue { queued, before, elsewhere } = queue;
        // As they were: no float is lost in a longer one. Where they are read one by one, some may be newer than others.
        let (sequences, prefilling) = (sequences as f32, (waiting - elsewhere).max(0.0) as f32);
        Self { decoding, queued, before, waiting: elsewhere, sequences, prefilling }
    }

    /// All requests that wait for their first token.
    #[inline]
    pub(super) fn all_waiting(&self) -> f64 {
        f64::from(self.prefilling) + self.waiting
    }

    /// Numbers of it that are read of every pod: of tokens and requests that decode, and of all requests that wait.
    #[inline]
    pub(super) fn dense(&self) -> [f64; 3] {
        [self.decoding, self.sequences.into(), self.all_waiting()]
    }

    /// The others.
    #[inline]
    pub(super) fn queue(&self) -> Queue {
        Queue { queued: self.queued, before: self.before, elsewhere: self.waiting }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::InFlight;

    #[test]
    fn of_numbers_that_are_not_of_one_instant_none_is_below_nothing() {
        let backlog = Backlog::new([100.0, 2.0, 1.0], Queue { queued: 0.0, before: 0.0, elsewhere: 3.0 });
        assert_eq!((backlog.prefilling, backlog.waiting), (0.0, 3.0));
    }

    proptest! {
        /// Whatever stood there before.
        #[test]
        fn a_block_says_what_backlogs_say(
            figures in prop::collection::vec((0..3u32, 0..3u32, 0..4_000u64, prop_oneof![0..9u32, any::<u32>()]), 2 * LANES),
        ) {
            let backlogs: Vec<Backlog> = figures.iter().map(|&(prefilling, waiting, tokens, requests)| {
                let own = InFlight { requests: prefilling, prefilling, prompt_tokens: tokens, uncached_tokens: tokens / 3, output_tokens: 7 };
                Backlog::of(&own, requests, 3 * tokens, waiting)
            }).collect();
            let mut block = BacklogBlock::default();
            for backlogs in backlogs.chunks(LANES) {
                backlogs.iter().enumerate().for_each(|(lane, backlog)| block.set(lane, backlog));
                for (lane, backlog) in backlogs.iter().enumerate() {
                    prop_assert_eq!(block.get(lane), *backlog);
                    let waits = backlog.prefilling > 0.0 || backlog.waiting > 0.0;
                    prop_assert_eq!(block.queued() >> lane & 1 == 1, waits);
                }
            }
        }
    }
}
