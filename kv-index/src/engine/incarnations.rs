//! Restart detection: which incarnation of its engine's process a batch is from.
//!
//! Engines number their batches from the start of the process and say nothing of earlier ones, so a lower number
//! is either a batch that came twice or the first news of a new process. The time of publication tells: a batch
//! that comes again has the time it had before, and a new process usually publishes later than the old one did. Where
//! the clock of the new process is behind, the engine has to be asked.

use std::collections::VecDeque;

use crate::index::snapshot::bytes::{Reader, put_u64};
use crate::pods::SnapshotError;

/// A stream's current incarnation, and what tells its batches from those of others.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Incarnations {
    /// Grows with each restart.
    pub(super) incarnation: u64,
    /// The last batches of this incarnation that were applied, oldest first.
    recent: VecDeque<BatchStamp>,
    /// The latest time that a batch of this incarnation had, applied or not.
    latest: Option<f64>,
    /// The latest time of the incarnation before this one, if this one publishes later.
    ended: Option<f64>,
    /// The time of this incarnation's first batch, where one before it has ended: whatever is earlier is not of this one.
    begun: Option<f64>,
}

/// A batch by its number and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BatchStamp {
    pub(super) sequence: u64,
    /// None if the source sends none, or the batch could not be read.
    pub(super) time: Option<f64>,
}

/// What a batch's number and time say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BatchIncarnation {
    /// Nothing against its being of the current one.
    Current,
    /// It is of the current one unless the engine restarted: its number is too low to be remembered, and its time not later.
    Uncertain,
    /// It is of one that is over.
    Past,
    /// It is, unless the clock was set back since this one began: a replay will show.
    Early,
    /// It is of a new one.
    New,
}

impl Incarnations {
    pub(super) fn new(incarnation: u64) -> Self {
        Self { incarnation, ..Self::default() }
    }

    /// The last batch of this incarnation that was applied.
    pub(super) fn last(&self) -> Option<BatchStamp> {
        self.recent.back().copied()
    }

    /// Says which incarnation a live batch is from.
    pub(super) fn judge(&self, batch: BatchStamp) -> BatchIncarnation {
        match self.judge_replayed(batch) {
            BatchIncarnation::Past => BatchIncarnation::Past,
            _ if self.is_before_begin(batch) => BatchIncarnation::Early,
            judged => judged,
        }
    }

    /// Says which incarnation a batch is from that the engine which is there now sent.
    pub(super) fn judge_replayed(&self, batch: BatchStamp) -> BatchIncarnation {
        if let (Some(time), Some(ended)) = (batch.time, self.ended) {
            if time <= ended {
                return BatchIncarnation::Past;
            }
        }
        if self.last().is_none_or(|last| batch.sequence > last.sequence) {
            return BatchIncarnation::Current;
        }
        let (Some(time), Some(latest)) = (batch.time, self.latest) else { return BatchIncarnation::Current };
        let known = self.recent.iter().find(|stamp| stamp.sequence == batch.sequence);
        match known.map(|stamp| stamp.time) {
            Some(Some(known)) if time == known => BatchIncarnation::Current,
            Some(Some(_)) => BatchIncarnation::New,
            Some(None) => BatchIncarnation::Current,
            None if time > latest => BatchIncarnation::New,
            None => BatchIncarnation::Uncertain,
        }
    }

    /// Begins a new incarnation, with a batch published at this time if that is known.
    pub(super) fn begin(&mut self, time: Option<f64>) {
        self.incarnation += 1;
        // A clock that is behind says nothing of what is past.
        self.ended = self.latest.take().filter(|ended| time.is_some_and(|time| time > *ended));
        self.begun = None;
        self.recent.clear();
    }

    /// Notes a batch that nothing speaks against, whether it can be applied or not. `first` is the number that engines begin with.
    pub(super) fn seen(&mut self, batch: BatchStamp, first: u64) {
        if batch.sequence == first && self.ended.is_some() {
            self.begun = batch.time;
        }
        if self.is_later(batch) || self.latest.is_none() {
            self.latest = batch.time.or(self.latest);
        }
    }

    /// Whether a batch was published after every one of this incarnation that was seen.
    pub(super) fn is_later(&self, batch: BatchStamp) -> bool {
        batch.time.zip(self.latest).is_some_and(|(time, latest)| time > latest)
    }

    /// Whether a batch was published before one of this incarnation that was seen.
    pub(super) fn is_earlier(&self, batch: BatchStamp) -> bool {
        batch.time.zip(self.latest).is_some_and(|(time, latest)| time < latest)
    }

    /// Forgets what was applied, in the same incarnation.
    pub(super) fn forget(&mut self) {
        self.recent.clear();
    }

    /// Whether a batch was published before the first one of this incarnation.
    fn is_before_begin(&self, batch: BatchStamp) -> bool {
        batch.time.zip(self.begun).is_some_and(|(time, begun)| time < begun)
    }

    /// Notes a batch that was applied, having been seen.
    pub(super) fn applied(&mut self, batch: BatchStamp) {
        if self.is_before_begin(batch) {
            // The clock was set back.
            self.begun = None;
        }
        if self.recent.len() >= REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(batch);
    }

    /// For a snapshot.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_u64(out, self.incarnation);
        put_u64(out, self.recent.len() as u64);
        for batch in &self.recent {
            put_u64(out, batch.sequence);
            put_time(out, batch.time);
        }
        [self.latest, self.ended, self.begun].into_iter().for_each(|time| put_time(out, time));
    }

    /// From a snapshot.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, SnapshotError> {
        let incarnation = reader.u64()?;
        let count = reader.count(16)?;
        if count > REMEMBERED || incarnation == u64::MAX {
            return Err(reader.malformed());
        }
        let recent = (0..count)
            .map(|_| Ok(BatchStamp { sequence: reader.u64()?, time: time(reader)? }))
            .collect::<Result<_, _>>()?;
        Ok(Self { incarnation, recent, latest: time(reader)?, ended: time(reader)?, begun: time(reader)? })
    }

    /// Where to ask for a replay: from the last batch that was applied, so that its time shows whether the engine is
    /// still the one we know.
    pub(super) fn resume_from(&self, first: u64) -> u64 {
        self.last().map_or(first, |last| last.sequence)
    }
}

/// A time that is not known is not a number.
fn put_time(out: &mut Vec<u8>, time: Option<f64>) {
    put_u64(out, time.unwrap_or(f64::NAN).to_bits());
}

fn time(reader: &mut Reader<'_>) -> Result<Option<f64>, SnapshotError> {
    Ok(Some(f64::from_bits(reader.u64()?)).filter(|time| time.is_finite()))
}

/// How many batches are remembered: more than two transports of one stream are apart.
const REMEMBERED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(sequence: u64, time: f64) -> BatchStamp {
        BatchStamp { sequence, time: Some(time) }
    }

    fn apply(incarnations: &mut Incarnations, batch: BatchStamp) {
        incarnations.seen(batch, 0);
        incarnations.applied(batch);
    }

    #[test]
    fn a_batch_that_comes_again_is_of_this_incarnation_and_a_later_one_with_its_number_is_not() {
        let mut incarnations = Incarnations::default();
        assert_eq!(incarnations.judge(stamp(7, 1.0)), BatchIncarnation::Current);
        apply(&mut incarnations, stamp(7, 1.0));
        assert_eq!(incarnations.judge(stamp(7, 1.0)), BatchIncarnation::Current);
        assert_eq!(incarnations.judge(stamp(3, 0.5)), BatchIncarnation::Uncertain, "it was not seen before");
        assert_eq!(incarnations.judge(stamp(8, 1.5)), BatchIncarnation::Current);
        assert_eq!(incarnations.judge(stamp(8, 0.9)), BatchIncarnation::Current, "clocks may step back");
        assert_eq!(incarnations.judge(stamp(7, 0.9)), BatchIncarnation::New, "the same number at another time");
        assert_eq!(incarnations.judge(stamp(3, 2.0)), BatchIncarnation::New);
        assert_eq!(incarnations.resume_from(0), 7);
    }

    #[test]
    fn what_a_past_incarnation_published_stays_past() {
        let mut incarnations = Incarnations::default();
        apply(&mut incarnations, stamp(500, 10.0));
        assert_eq!(incarnations.judge(stamp(2, 11.0)), BatchIncarnation::New);
        incarnations.begin(Some(11.0));
        assert_eq!(incarnations.resume_from(0), 0);
        assert_eq!(incarnations.judge(stamp(499, 9.9)), BatchIncarnation::Past);
        assert_eq!(incarnations.judge(stamp(500, 10.0)), BatchIncarnation::Past);
        assert_eq!(incarnations.judge(stamp(0, 10.5)), BatchIncarnation::Current);
    }

    #[test]
    fn what_was_seen_and_not_applied_is_past_too_once_its_incarnation_is() {
        let mut incarnations = Incarnations::default();
        apply(&mut incarnations, stamp(9, 9.0));
        incarnations.seen(stamp(12, 12.0), 0);
        incarnations.begin(Some(100.0));
        assert_eq!(incarnations.judge(stamp(10, 10.0)), BatchIncarnation::Past);
        assert_eq!(incarnations.judge(stamp(1, 99.0)), BatchIncarnation::Current);
    }

    #[test]
    fn a_clock_that_steps_back_is_no_restart() {
        let mut incarnations = Incarnations::default();
        (0..200).for_each(|sequence| apply(&mut incarnations, stamp(sequence, 1000.0 + sequence as f64)));
        apply(&mut incarnations, stamp(200, 900.0));
        assert_eq!(incarnations.judge(stamp(3, 1003.0)), BatchIncarnation::Uncertain, "earlier than the latest");
        assert_eq!(incarnations.judge(stamp(198, 1198.0)), BatchIncarnation::Current);
    }

    #[test]
    fn two_batches_of_one_time_are_told_apart_by_their_numbers() {
        let mut incarnations = Incarnations::default();
        apply(&mut incarnations, stamp(1, 5.0));
        apply(&mut incarnations, stamp(2, 5.0));
        assert_eq!(incarnations.judge(stamp(1, 5.0)), BatchIncarnation::Current);
        assert_eq!(incarnations.judge(stamp(0, 5.0)), BatchIncarnation::Uncertain);
    }

    #[test]
    fn a_clock_that_is_behind_hides_nothing() {
        let mut incarnations = Incarnations::default();
        (0..100).for_each(|sequence| apply(&mut incarnations, stamp(sequence, 1000.0 + sequence as f64)));
        assert_eq!(incarnations.judge(stamp(60, 1060.0)), BatchIncarnation::Current);
        assert_eq!(incarnations.judge(stamp(60, 5.0)), BatchIncarnation::New, "it is remembered otherwise");
        assert_eq!(incarnations.judge(stamp(0, 5.0)), BatchIncarnation::Uncertain);
        incarnations.begin(Some(5.0));
        assert_eq!(incarnations.judge(stamp(0, 5.0)), BatchIncarnation::Current, "not taken for past");
    }

    #[test]
    fn without_times_nothing_is_concluded() {
        let mut incarnations = Incarnations::default();
        let silent = |sequence| BatchStamp { sequence, time: None };
        apply(&mut incarnations, silent(5));
        assert_eq!(incarnations.judge(silent(2)), BatchIncarnation::Current);
        assert_eq!(incarnations.judge(stamp(5, 1.0)), BatchIncarnation::Current);
    }

    /// The engine restarted twice in short time: the middle one's last batches come late, and are not the newest one's.
    #[test]
    fn what_is_earlier_than_the_first_batch_is_past() {
        let mut incarnations = Incarnations::default();
        apply(&mut incarnations, stamp(9, 9.0));
        incarnations.begin(Some(14.0));
        incarnations.seen(stamp(4, 14.0), 0);
        assert_eq!(incarnations.judge(stamp(0, 10.0)), BatchIncarnation::Current);
        assert!(incarnations.is_later(stamp(0, 20.0)));
        incarnations.begin(Some(20.0));
        incarnations.seen(stamp(0, 20.0), 0);
        assert_eq!(incarnations.judge(stamp(5, 15.0)), BatchIncarnation::Early);
        assert_eq!(incarnations.judge(stamp(1, 21.0)), BatchIncarnation::Current);
    }

    /// Who replays is there now: its clock was set back, and what it publishes counts.
    #[test]
    fn a_clock_that_is_set_back_after_a_restart_is_noticed_by_a_replay() {
        let mut incarnations = Incarnations::default();
        apply(&mut incarnations, stamp(9, 9.0));
        incarnations.begin(Some(20.0));
        apply(&mut incarnations, stamp(0, 20.0));
        assert_eq!(incarnations.judge(stamp(1, 15.0)), BatchIncarnation::Early);
        assert_eq!(incarnations.judge_replayed(stamp(1, 15.0)), BatchIncarnation::Current);
        apply(&mut incarnations, stamp(1, 15.0));
        assert_eq!(incarnations.judge(stamp(2, 16.0)), BatchIncarnation::Current);
    }
}
