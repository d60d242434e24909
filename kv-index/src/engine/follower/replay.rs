//! Gap recovery of a follower: one replay at a time, reply by reply, to its end.

use std::ops::Deref;
use std::time::Instant;

use crate::engine::feed::{EngineFeed, ReceiveError, Replayed};
use crate::feeds::BatchOutcome;
use crate::index::Index;
use crate::pods::PodRetired;

use super::{Disconnect, Follower, FollowerAction, FollowerState, after};

/// A replay under way.
#[derive(Debug)]
pub(super) struct Replay {
    cause: Cause,
    /// Replies that were batches.
    batches: u64,
    /// Whether a live message arrived since the request.
    pub(super) live: bool,
    /// When the next reply is due.
    reply_by: Instant,
    /// When all of it is.
    end_by: Instant,
}

impl Replay {
    pub(super) fn deadline(&self) -> Instant {
        self.reply_by.min(self.end_by)
    }
}

/// Why it was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Something is missing, or may be since the connection is new.
    Missing,
    /// No message arrived for a while.
    Silence,
}

impl<I, const WORDS: usize> Follower<I>
where
    I: Deref<Target = Index<WORDS>> + Clone,
{
    /// The replay's connection is made and the request sent: its first reply is due a timeout from now.
    pub fn replay_sent(&mut self, now: Instant) {
        if let Some(replay) = &mut self.replay {
            replay.reply_by = after(now, self.config.reply_timeout);
        }
    }

    /// A reply of the replay came. After the last one the connection is to be dropped.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    pub fn reply<F: AsRef<[u8]>>(&mut self, frames: &[F], now: Instant) -> Result<(), PodRetired> {
        let Some(replay) = &mut self.replay else { return Ok(()) };
        let cause = replay.cause;
        replay.reply_by = after(now, self.config.reply_timeout);
        if frames.last().is_some_and(|payload| !payload.as_ref().is_empty()) {
            replay.batches += 1;
        } else if let Some(start) = self.drain_waiting(now)? {
            self.request_replay(start, Cause::Missing, now);
            return Ok(());
        }
        match self.feed.receive_replay(frames) {
            Ok(Replayed::Batch(received)) => {
                self.fed = true;
                self.status.count(received.outcome, now);
                self.overtaken |= cause == Cause::Silence && received.outcome != BatchOutcome::Duplicate;
            }
            Ok(Replayed::End { replay_from }) => self.end(replay_from, now)?,
            Err(error) => {
                let broken = matches!(error, ReceiveError::Frames(_));
                self.count_error(error)?;
                if broken {
                    self.replay_broken(Disconnect::Closed, now);
                }
            }
        }
        Ok(())
    }

    /// The engine did not reply, or not to the end. The replay is requested again after a pause.
    pub fn replay_broken(&mut self, why: Disconnect, now: Instant) {
        self.count_violation(why);
        if self.drop_replay().is_none() {
            return;
        }
        self.waiting.clear();
        self.retry = Some(after(now, self.config.retry_max));
        self.set(FollowerState::Replaying);
        if self.connected.is_none() {
            // Neither socket is there, so nobody knows which engine comes next.
            self.index.suspend(self.pod);
        }
        // Not only while it ran: a port that refuses answers in no time.
        self.failures += u32::from(std::mem::take(&mut self.heard));
        if self.failures >= MAX_FAILURES {
            self.failures = 0;
            self.feed.replay_failed();
            self.set(FollowerState::Lost);
        }
    }

    pub(super) fn request_missing(&mut self, cause: Cause, now: Instant) {
        if self.config.feed.replay {
            let start = self.feed.connected();
            self.request_replay(start, cause, now);
        }
    }

    /// Requests everything from `start` on. A replay under way is dropped.
    pub(super) fn request_replay(&mut self, from: u64, cause: Cause, now: Instant) {
        if !self.config.feed.replay {
            return;
        }
        self.status.replays += 1;
        if cause == Cause::Missing {
            self.set(FollowerState::Replaying);
        }
        self.retry = None;
        self.waiting.clear();
        let (reply_by, end_by) = (after(now, self.config.reply_timeout), after(now, self.config.replay_timeout));
        self.replay = Some(Replay { cause, batches: 0, live: false, reply_by, end_by });
        self.replay_action = Some(FollowerAction::Replay { from });
    }

    /// Ends the replay, and has its connection closed.
    pub(super) fn drop_replay(&mut self) -> Option<Replay> {
        let replay = self.replay.take()?;
        self.replay_action = Some(FollowerAction::DropReplay);
        Some(replay)
    }

    /// Feeds the waiting messages, before the replay's end: the feed would request again what has come already.
    /// Returns where to replay from, if the engine is found to have restarted.
    fn drain_waiting(&mut self, now: Instant) -> Result<Option<u64>, PodRetired> {
        for message in self.waiting.take() {
            match self.feed.receive(&[&b""[..], &message.sequence.to_be_bytes(), &message.payload]) {
                Ok(received) => {
                    self.status.count(received.outcome, now);
                    if received.replay_from.is_some() {
                        return Ok(received.replay_from);
                    }
                    if matches!(received.outcome, BatchOutcome::Gap { .. }) {
                        // It leaves a gap, so all after it do. The feed requests a replay at the end.
                        break;
                    }
                }
                Err(error) => self.count_error(error)?,
            }
        }
        Ok(None)
    }

    fn end(&mut self, ask: Option<u64>, now: Instant) -> Result<(), PodRetired> {
        let Some(replay) = self.drop_replay() else { return Ok(()) };
        self.failures = 0;
        self.idle = after(now, self.config.idle);
        self.set(FollowerState::Live);
        if replay.batches == 0 && !replay.live && self.fed {
            // Not even the last batch that we have: another engine is there, and what this one knew is past.
            self.status.dropped += self.dropped();
            self.feed = EngineFeed::new(self.index.clone(), self.pod, self.config.feed.clone())?;
            self.index.resume(self.pod);
            self.fed = false;
            self.request_missing(Cause::Missing, now);
        } else if let Some(start) = ask {
            self.request_replay(start, Cause::Missing, now);
        } else {
            self.index.resume(self.pod);
        }
        Ok(())
    }
}

/// Failed replays, while the engine publishes, after which the gap is given up.
const MAX_FAILURES: u32 = 3;
