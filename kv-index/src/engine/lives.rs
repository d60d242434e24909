//! Which life of its engine a batch is from.
//!
//! Engines number their batches from the start of the process and say nothing of earlier ones, so a lower number
//! is either a batch that came twice or the first news of a new process. The time of publication tells: a batch
//! that comes again has the time it had before, and a new process usually publishes later than the old one did. Where
//! the clock of the new process is behind, the engine has to be asked.

use std::collections::VecDeque;

/// The life that a stream's batches are from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Lives {
    /// Grows with each life.
    pub(super) incarnation: u64,
    /// The last batches of this life that were applied, oldest first.
    recent: VecDeque<Mark>,
    /// The latest time that a batch of this life had, applied or not.
    latest: Option<f64>,
    /// The latest time of the life before this one, if this one publishes later.
    ended: Option<f64>,
}

/// A batch by its number and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) sequence: u64,
    /// None if the source sends none, or the batch could not be read.
    pub(super) time: Option<f64>,
}

/// What a batch's number and time say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// Nothing against its being of this life.
    This,
    /// It is of this life if the engine still is: its number is too low to be remembered, and its time not later.
    Doubtful,
    /// It is of a life that is over.
    Past,
    /// It is of a new life.
    Next,
}

impl Lives {
    pub(super) fn new(incarnation: u64) -> Self {
        Self { incarnation, ..Self::default() }
    }

    /// The last batch of this life that was applied.
    pub(super) fn last(&self) -> Option<Mark> {
        self.recent.back().copied()
    }

    /// Says which life a batch is from.
    pub(super) fn judge(&self, batch: Mark) -> Life {
        if let (Some(time), Some(ended)) = (batch.time, self.ended) {
            if time <= ended {
                return Life::Past;
            }
        }
        if self.last().is_none_or(|last| batch.sequence > last.sequence) {
            return Life::This;
        }
        let (Some(time), Some(latest)) = (batch.time, self.latest) else { return Life::This };
        let known = self.recent.iter().find(|mark| mark.sequence == batch.sequence);
        match known.map(|mark| mark.time) {
            Some(Some(known)) if time == known => Life::This,
            Some(Some(_)) => Life::Next,
            Some(None) => Life::This,
            None if time > latest => Life::Next,
            None => Life::Doubtful,
        }
    }

    /// Begins a new life, with a batch published at this time if that is known.
    pub(super) fn begin(&mut self, time: Option<f64>) {
        self.incarnation += 1;
        // A clock that is behind says nothing of what is past.
        self.ended = self.latest.take().filter(|ended| time.is_some_and(|time| time > *ended));
        self.recent.clear();
    }

    /// Notes a batch that nothing speaks against, whether it can be applied or not.
    pub(super) fn seen(&mut self, batch: Mark) {
        let later = |time: &f64| self.latest.is_none_or(|latest| *time > latest);
        self.latest = batch.time.filter(later).or(self.latest);
    }

    /// Forgets what was applied, in the same life.
    pub(super) fn forget(&mut self) {
        self.recent.clear();
    }

    /// Notes a batch that was applied.
    pub(super) fn applied(&mut self, batch: Mark) {
        self.seen(batch);
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(batch);
    }

    /// Where to ask for a replay: from the last batch that was applied, so that its time shows whether the engine is
    /// still the one we know.
    pub(super) fn resume_from(&self, first: u64) -> u64 {
        self.last().map_or(first, |last| last.sequence)
    }
}

/// How many batches are remembered: more than two transports of one stream are apart.
const REMEMBERED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(sequence: u64, time: f64) -> Mark {
        Mark { sequence, time: Some(time) }
    }

    #[test]
    fn a_batch_that_comes_again_is_of_this_life_and_a_later_one_with_its_number_is_not() {
        let mut lives = Lives::default();
        assert_eq!(lives.judge(mark(7, 1.0)), Life::This);
        lives.applied(mark(7, 1.0));
        assert_eq!(lives.judge(mark(7, 1.0)), Life::This);
        assert_eq!(lives.judge(mark(3, 0.5)), Life::Doubtful, "it was not seen before");
        assert_eq!(lives.judge(mark(8, 1.5)), Life::This);
        assert_eq!(lives.judge(mark(8, 0.9)), Life::This, "clocks may step back");
        assert_eq!(lives.judge(mark(7, 0.9)), Life::Next, "the same number at another time");
        assert_eq!(lives.judge(mark(3, 2.0)), Life::Next);
        assert_eq!(lives.resume_from(0), 7);
    }

    #[test]
    fn what_a_past_life_published_stays_past() {
        let mut lives = Lives::default();
        lives.applied(mark(500, 10.0));
        assert_eq!(lives.judge(mark(2, 11.0)), Life::Next);
        lives.begin(Some(11.0));
        assert_eq!(lives.resume_from(0), 0);
        assert_eq!(lives.judge(mark(499, 9.9)), Life::Past);
        assert_eq!(lives.judge(mark(500, 10.0)), Life::Past);
        assert_eq!(lives.judge(mark(0, 10.5)), Life::This);
    }

    #[test]
    fn what_was_seen_and_not_applied_is_past_too_once_its_life_is() {
        let mut lives = Lives::default();
        lives.applied(mark(9, 9.0));
        lives.seen(mark(12, 12.0));
        lives.begin(Some(100.0));
        assert_eq!(lives.judge(mark(10, 10.0)), Life::Past);
        assert_eq!(lives.judge(mark(1, 99.0)), Life::This);
    }

    #[test]
    fn a_clock_that_steps_back_makes_no_new_life() {
        let mut lives = Lives::default();
        (0..200).for_each(|sequence| lives.applied(mark(sequence, 1000.0 + sequence as f64)));
        lives.applied(mark(200, 900.0));
        assert_eq!(lives.judge(mark(3, 1003.0)), Life::Doubtful, "earlier than the latest");
        assert_eq!(lives.judge(mark(198, 1198.0)), Life::This);
    }

    #[test]
    fn two_batches_of_one_time_are_told_apart_by_their_numbers() {
        let mut lives = Lives::default();
        lives.applied(mark(1, 5.0));
        lives.applied(mark(2, 5.0));
        assert_eq!(lives.judge(mark(1, 5.0)), Life::This);
        assert_eq!(lives.judge(mark(0, 5.0)), Life::Doubtful);
    }

    #[test]
    fn a_clock_that_is_behind_hides_nothing() {
        let mut lives = Lives::default();
        (0..100).for_each(|sequence| lives.applied(mark(sequence, 1000.0 + sequence as f64)));
        assert_eq!(lives.judge(mark(60, 1060.0)), Life::This);
        assert_eq!(lives.judge(mark(60, 5.0)), Life::Next, "it is remembered otherwise");
        assert_eq!(lives.judge(mark(0, 5.0)), Life::Doubtful);
        lives.begin(Some(5.0));
        assert_eq!(lives.judge(mark(0, 5.0)), Life::This, "not taken for past");
    }

    #[test]
    fn without_times_nothing_is_concluded() {
        let mut lives = Lives::default();
        let silent = |sequence| Mark { sequence, time: None };
        lives.applied(silent(5));
        assert_eq!(lives.judge(silent(2)), Life::This);
        assert_eq!(lives.judge(mark(5, 1.0)), Life::This);
    }
}
