//! Event ingestion for one engine, sans-IO: decode, sequence, normalize, apply, verify.
//!
//! No socket is here. Its owner hands over the frames it read, and learns when to request a replay, and from which
//! sequence. Everything a batch changes beside the index (which engine block is which) is changed
//! under the pod's lock exactly when the index is, so batches may come twice, over two transports, in any order.

mod config;
mod outcome;
mod saved;
mod state;
mod via;

use std::ops::Deref;
use std::sync::Arc;

#[cfg(feature = "trtllm")]
use crate::blocks::BlockSize;
use crate::blocks::{Event, FeedProblem};
use crate::feeds::{BatchOutcome, Feed};
use crate::index::Index;
use crate::index::streams::{FeedConfig, Number, OnGap, SaveFeed};
use crate::pods::{Pod, PodRetired};
use crate::sync::Mutex;

use super::decode::decode_batch;
use super::drop_reason::{DropCounts, DropReason};
use super::event::EngineBatch;
use super::frames::{Message, ReplayReply};
use super::incarnations::{BatchIncarnation, BatchStamp, Incarnations};
#[cfg(feature = "trtllm")]
use super::json::{TrtllmEvent, decode_trtllm};
use super::translate::{OddSize, Translator};
use super::verify::{Verifier, VerifyStats};

use self::state::State;
use self::via::Via;

pub use self::config::EngineFeedConfig;
pub use self::outcome::{ReceiveError, Received, Replayed};

/// A pod's end of its engine's stream.
///
/// Share it between transports of one stream by reference; two feeds made for one stream would not know of each
/// other's names. A feed starts from nothing: what the pod held before is forgotten, what other streams brought too.
/// So make the feeds of a pod that has several streams before you feed any of them. On a pod that [`Index::restore`] brought
/// back it goes on where the feed of the same stream and configuration was, if the engine can replay what came since.
#[derive(Debug)]
pub struct EngineFeed<I> {
    index: I,
    pod: Pod,
    config: EngineFeedConfig,
    shared: Arc<Shared>,
    resumed: bool,
}

/// What the pod's next snapshot needs, too.
#[derive(Debug)]
struct Shared {
    /// The configuration that names and numbers depend on, as a number.
    fingerprint: u64,
    state: Mutex<State>,
}

impl<I, const WORDS: usize> EngineFeed<I>
where
    I: Deref<Target = Index<WORDS>>,
{
    /// A feed for a pod of an index that is borrowed or shared, by `&Index` or `Arc<Index>`.
    ///
    /// # Errors
    ///
    /// When the pod is retired.
    pub fn new(index: I, pod: Pod, config: EngineFeedConfig) -> Result<Self, PodRetired> {
        let mut change = index.change(pod)?;
        change.keeps_nobody_waiting();
        let saved = change.cache().feeds.take_saved(config.stream);
        let resumed = saved.and_then(|saved| State::resume(&config, &saved, change.cache()));
        let is_resumed = resumed.as_ref().is_some_and(|state| state.incarnations.last().is_some());
        if resumed.as_ref().is_some_and(|state| state.forgot) {
            config.observer.iter().for_each(|observer| observer.forgot());
        }
        let state = resumed.unwrap_or_else(|| {
            // Blocks that something else brought have names that are not known here, so their evictions would not be
            // understood. Should an earlier feed of the stream still be in use, it is the past from now on.
            let incarnation = change.cache().cursors.forget().map_or(0, |highest| highest.saturating_add(1));
            change.clear();
            State::new(&config, Translator::new(config.clone()), Incarnations::new(incarnation), change.cache().clears)
        });
        let shared = Arc::new(Shared { fingerprint: saved::fingerprint(&config), state: Mutex::new(state) });
        let weak = Arc::downgrade(&shared);
        change.cache().feeds.enter(config.stream, weak as std::sync::Weak<dyn SaveFeed>);
        change.finish();
        // An earlier feed of the stream may have told of one.
        config.observer.iter().for_each(|observer| observer.gap(false));
        Ok(Self { index, pod, config, shared, resumed: is_resumed })
    }

    /// Whether it goes on where the feed of a snapshot was.
    ///
    /// What the pod held then is what its engine holds only if that did not restart meanwhile, which the first batch or reply
    /// shows: until then the pod may be [suspended](Index::suspend).
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Takes a message of the engine's live socket.
    ///
    /// # Errors
    ///
    /// When the frames or the payload are malformed, the block size is not the index's, or the pod is retired.
    pub fn receive<F: AsRef<[u8]>>(&self, frames: &[F]) -> Result<Received, ReceiveError> {
        self.message(&Message::parse(frames)?, Via::Live)
    }

    /// Takes a reply of the engine's replay socket.
    ///
    /// # Errors
    ///
    /// As [`Self::receive`].
    pub fn receive_replay<F: AsRef<[u8]>>(&self, frames: &[F]) -> Result<Replayed, ReceiveError> {
        match ReplayReply::parse(frames)? {
            ReplayReply::Batch(message) => {
                self.shared.state.lock().replay.brought = true;
                Ok(Replayed::Batch(self.message(&message, Via::Replay)?))
            }
            ReplayReply::End => Ok(Replayed::End { replay_from: self.end_of_replay() }),
        }
    }

    /// Takes a decoded batch, from a transport that has no frames.
    ///
    /// # Errors
    ///
    /// When the block size is not the index's, or the pod is retired.
    pub fn receive_batch(&self, sequence: u64, batch: &EngineBatch<'_>) -> Result<Received, ReceiveError> {
        self.offer(sequence, batch, Via::Live)
    }

    /// Takes the body of TensorRT-LLM's `/kv_cache_events`: what became of each event, in order.
    ///
    /// Reading that address empties it, so a number that does not grow means that the engine started anew, and one that
    /// jumps that events were lost and the pod's state with them.
    ///
    /// # Errors
    ///
    /// When the body is malformed or shows another block size than was said, then nothing was applied; or when the
    /// block size is not the index's or the pod is retired, then the events before the one in question were.
    #[cfg(feature = "trtllm")]
    pub fn receive_json(&self, json: &[u8], engine_blocks: BlockSize) -> Result<Vec<Received>, ReceiveError> {
        let decoded = decode_trtllm(json, engine_blocks)?;
        if let Some(engine) = decoded.odd_size {
            return Err(self.odd_size(OddSize(engine)));
        }
        self.shared.state.lock().translator.count_decoded(&decoded);
        let mut received = Vec::with_capacity(decoded.events.len());
        for TrtllmEvent { id, rank, events } in decoded.events {
            let batch = EngineBatch { timestamp: f64::NAN, rank, events, ..EngineBatch::default() };
            received.push(self.offer(id, &batch, Via::Pulled)?);
        }
        Ok(received)
    }

    /// The transport connected, or did so again: where to ask for a replay from. Also when a replay broke off.
    ///
    /// The replay begins with the last batch that was applied. If the engine has started anew meanwhile, its batch
    /// of that number is another one, and the feed notices.
    pub fn connected(&self) -> u64 {
        let mut state = self.shared.state.lock();
        let known = self.index.cache(self.pod).map(|cache| cache.cursors.of(self.config.stream));
        if known == Ok(None) {
            // Another stream of the pod forgot everything: this one has to begin anew.
            state.incarnations.forget();
        }
        state.ask(self.config.first_sequence)
    }

    /// The replay socket is not there, or does not answer: what is missing will not come.
    ///
    /// The next live batch after a gap then costs the pod's state, and the stream goes on from there. A feed that
    /// is not told asks again now and then.
    pub fn replay_failed(&self) {
        let mut state = self.shared.state.lock();
        state.replay.pending = None;
        state.replay.exhausted = true;
    }

    /// What was left out so far, and why.
    #[must_use]
    pub fn drop_counts(&self) -> DropCounts {
        self.shared.state.lock().translator.drop_counts
    }

    /// Whether the engine hashes as its dialect says; none if that is not checked.
    #[must_use]
    pub fn verify_stats(&self) -> Option<VerifyStats> {
        self.shared.state.lock().verifier.as_ref().map(Verifier::stats)
    }

    /// Engine pages whose names are kept, and the bytes that takes. Without a map of names both are 0.
    #[must_use]
    pub fn page_map_size(&self) -> (usize, usize) {
        self.shared.state.lock().translator.map_size()
    }

    fn message(&self, message: &Message<'_>, via: Via) -> Result<Received, ReceiveError> {
        let sequence = message.sequence;
        match decode_batch(message.payload) {
            Ok(batch) => self.offer(sequence, &batch, via),
            Err(source) => {
                if via == Via::Replay {
                    self.skip(sequence)?;
                }
                Err(ReceiveError::Decode { sequence, source })
            }
        }
    }

    fn offer(&self, sequence: u64, batch: &EngineBatch<'_>, via: Via) -> Result<Received, ReceiveError> {
        let mut state = self.shared.state.lock();
        if sequence == u64::MAX {
            // No batch comes behind it: not a number that is waited for, replayed or passed.
            return Ok(Received::of(BatchOutcome::Foreign));
        }
        if self.is_of_other_rank(batch) {
            // Each rank numbers for itself: the number is none of this stream's.
            state.translator.drop_counts.count(DropReason::OtherRank, 0);
            return Ok(Received::of(BatchOutcome::Foreign));
        }
        let stamp = BatchStamp { sequence, time: Some(batch.timestamp).filter(|time| time.is_finite()) };
        let incarnation = via.judge(&state.incarnations, stamp, state.replay.newest);
        if incarnation == BatchIncarnation::Past {
            return Ok(Received::of(BatchOutcome::Stale));
        }
        if incarnation == BatchIncarnation::Early && via.can_ask(&self.config) {
            let mut received = Received::of(BatchOutcome::Stale);
            let asks = state.replay.pending.is_none();
            received.replay_from = asks.then(|| state.ask(self.config.first_sequence));
            return Ok(received);
        }
        // What was applied already is not looked at again.
        let comes_again = incarnation != BatchIncarnation::New
            && state.incarnations.last().is_some_and(|last| sequence <= last.sequence);
        let fits =
            if comes_again { Ok(()) } else { state.translator.check(batch, incarnation == BatchIncarnation::New) };
        // A replay under way begins where the old engine was: in the new one's numbers that is anywhere.
        let replay_is_past =
            incarnation == BatchIncarnation::New && via != Via::Replay && state.replay.pending.is_some();
        if incarnation == BatchIncarnation::New {
            state.begin_incarnation(stamp.time);
            state.replay.outdated = via == Via::Replay;
        }
        if let Err(size) = fits {
            if incarnation == BatchIncarnation::New {
                // What the old engine held is gone, whatever can be made of the new one.
                self.apply(&mut state, sequence, OnGap::Forget, |state| state.translator.forget())?;
            }
            return Err(self.odd_size(size));
        }
        state.note_newest(stamp);
        state.incarnations.seen(stamp, self.config.first_sequence);
        let too_late = via == Via::Replay && !state.replay.outdated;
        let gives_up = too_late || !via.can_ask(&self.config) || state.replay.exhausted;
        let gap = if gives_up { OnGap::Forget } else { OnGap::Wait };
        let verdict = self.apply(&mut state, sequence, gap, |state| state.translator.translate(batch))?;
        let mut received = Received::of(verdict);
        match verdict {
            BatchOutcome::Applied(_) | BatchOutcome::Restarted(_) | BatchOutcome::GapSkipped(_) => {
                state.incarnations.applied(stamp);
                state.replay.exhausted = false;
                received.replay_from = replay_is_past.then(|| state.ask(self.config.first_sequence));
                let found = state.verifier.as_mut().and_then(|verifier| verifier.look_at(batch));
                for (observer, found) in self.config.observer.iter().zip(&found) {
                    observer.problem(FeedProblem::Hashes(&found.cause));
                }
                received.mismatch = found.map(Box::new);
            }
            BatchOutcome::Gap { from, .. } => received.replay_from = state.gap(from, self.config.first_sequence),
            BatchOutcome::Duplicate if via == Via::Replay => state.replay.overlapped = true,
            // Either it comes very late, or a new engine's clock is behind: a replay will show.
            BatchOutcome::Duplicate if incarnation == BatchIncarnation::Uncertain && via.can_ask(&self.config) => {
                received.replay_from = state.replay.pending.is_none().then(|| state.ask(self.config.first_sequence));
            }
            _ => {}
        }
        state.tell_gap(self.config.observer.as_deref());
        Ok(received)
    }

    /// Has the feed judge a number, and applies what `fill` makes the translator's changes be.
    fn apply(
        &self,
        state: &mut State,
        sequence: u64,
        gap: OnGap,
        fill: impl FnOnce(&mut State),
    ) -> Result<BatchOutcome, PodRetired> {
        let number = Number { incarnation: state.incarnations.incarnation, sequence };
        let config = &self.config;
        let config =
            FeedConfig { stream: config.stream, semantics: config.semantics, first_sequence: config.first_sequence };
        let observer = self.config.observer.as_deref();
        let cleared = || observer.iter().for_each(|observer| observer.changed(&Event::Cleared));
        // The engine's first batches are not to be had any more.
        let begins_late = state.incarnations.last().is_none() && sequence > self.config.first_sequence;
        let mut is_applied = false;
        let outcome = Feed::new(&*self.index, self.pod, config).offer_with(number, gap, |change| {
            if change.cache().clears != state.clears {
                state.translator.reset();
                state.verifier.iter_mut().for_each(Verifier::reset);
                change.keeps_nobody_waiting();
                cleared();
            }
            if begins_late {
                state.forgot = true;
                change.keeps_nobody_waiting();
                observer.iter().for_each(|observer| observer.forgot());
            }
            fill(state);
            change.lets_others_in();
            state.forgot &= !state.translator.changes.has_cleared();
            state.translator.changes.apply(change, state.translator.semantics());
            state.clears = change.cache().clears;
            is_applied = true;
        })?;
        if is_applied {
            // Told once searches see it: whoever searched before that, did so before it was told.
            observer.iter().for_each(|observer| state.translator.changes.observe(*observer));
        }
        match outcome {
            BatchOutcome::Gap { restarted: true, .. } => cleared(),
            BatchOutcome::GapSkipped(_) if !begins_late => {
                state.forgot = true;
                observer.iter().for_each(|observer| observer.forgot());
            }
            _ => {}
        }
        Ok(outcome)
    }

    /// Goes past a batch that cannot be had: what it changed is not known, so everything is forgotten.
    fn skip(&self, sequence: u64) -> Result<(), PodRetired> {
        let mut state = self.shared.state.lock();
        if let Some(last) = state.incarnations.last().filter(|last| sequence <= last.sequence) {
            // The engine still has it, and so is the one that it was skipped of.
            state.replay.overlapped |= last == BatchStamp { sequence, time: None };
            return Ok(());
        }
        self.apply(&mut state, sequence, OnGap::Forget, |state| {
            state.translator.leave_out(DropReason::Undecodable);
            state.translator.forget();
        })?;
        state.incarnations.applied(BatchStamp { sequence, time: None });
        state.replay.exhausted = false;
        state.tell_gap(self.config.observer.as_deref());
        Ok(())
    }

    fn end_of_replay(&self) -> Option<u64> {
        let mut state = self.shared.state.lock();
        let replay_from = self.ended_replay(&mut state);
        state.tell_gap(self.config.observer.as_deref());
        replay_from
    }

    fn ended_replay(&self, state: &mut State) -> Option<u64> {
        let request = state.replay.pending.take();
        if std::mem::take(&mut state.replay.outdated) {
            return Some(state.ask(self.config.first_sequence));
        }
        let last = state.incarnations.last();
        let in_vain = request.filter(|request| request.last == last);
        // Also where a live batch of the new engine has been applied since, whose number was the next one by chance.
        let is_empty = request.is_some_and(|request| request.last.is_some()) && !state.replay.brought;
        if (in_vain.is_some() || is_empty) && last.is_some() && !state.replay.overlapped {
            // The engine does not have the batch we have: its numbers have not come that far, so it is another engine.
            state.begin_incarnation(None);
            return Some(state.ask(self.config.first_sequence));
        }
        let applied = last.map(|last| last.sequence);
        if state.replay.newest <= applied {
            return None;
        }
        // What was seen to be missing only since it was asked can still be had.
        if in_vain.is_some_and(|request| request.missing) {
            // Given up, so it is not missing any more when the stream goes on without it.
            (state.replay.exhausted, state.replay.newest) = (true, applied);
            return None;
        }
        Some(state.ask(self.config.first_sequence))
    }

    fn is_of_other_rank(&self, batch: &EngineBatch<'_>) -> bool {
        self.config.rank.is_some_and(|rank| batch.rank.is_some_and(|found| found != rank))
    }

    fn odd_size(&self, OddSize(engine): OddSize) -> ReceiveError {
        let pod = self.index.name(self.pod).unwrap_or_default().into_boxed_str();
        let index = self.config.block_size.tokens() as u32;
        self.config.observer.iter().for_each(|observer| observer.problem(FeedProblem::BlockSize { engine, index }));
        ReceiveError::BlockSize { pod, engine, index }
    }
}
