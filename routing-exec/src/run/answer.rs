//! The client's side: which leg answers it, when its answer begins, and how it ends.

use std::time::Instant;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, response};

use super::Run;
use super::attempt::Attempt;
use super::headers::strip_hop_by_hop;
use crate::action::{Action, TimerId};
use crate::error::RunError;
use crate::failure::Failure;
use crate::handoff::UsageFix;
use crate::hook::HookError;
use crate::record::{Fate, Outcome};
use crate::sse::{self, Boundary, Opening};

/// What the client has had.
#[derive(Debug, Default)]
pub(super) struct ClientSide {
    begun: Option<Begun>,
    pub(super) forwarded: u64,
}

#[derive(Debug)]
struct Begun {
    /// Where the stream of events stands that the client has; none if its answer is no such stream.
    events: Option<Boundary>,
    /// Puts right what the answer says of the prompt, where the pod cannot know.
    usage: Option<UsageFix>,
}

impl ClientSide {
    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// A piece that goes to the client.
    fn forward(&mut self, chunk: Bytes) -> Action {
        self.forwarded = self.forwarded.saturating_add(chunk.len() as u64);
        if let Some(events) = self.begun.as_mut().and_then(|begun| begun.events.as_mut()) {
            events.pass(&chunk);
        }
        Action::Forward(chunk)
    }

    /// What was held back on the way to the client.
    fn held_back(&mut self) -> Bytes {
        let usage = self.begun.as_mut().and_then(|begun| begun.usage.as_mut());
        usage.map_or_else(Bytes::new, UsageFix::finish)
    }
}

/// How much of a stream is held back while its beginning does not tell whether it is an error, or asks for prefill. Beyond
/// that it is the client's, whatever it says. As much is kept of an answer that nobody reads but for that.
const MOST_HELD_BACK: usize = 16 << 10;

impl Run {
    /// Whether a leg's answer is the client's.
    pub(super) fn answers(&self, leg: usize) -> bool {
        self.is_last(leg) || self.legs[leg].attempt().is_some_and(|attempt| attempt.passes)
    }

    pub(super) fn on_head(&mut self, leg: usize, head: response::Parts, now: Instant) {
        let (status, is_last) = (head.status, self.is_last(leg));
        let Some(attempt) = self.legs[leg].attempt_mut() else { return };
        // Interim answers are the transport's business, and a second head is none.
        if status.is_informational() || attempt.status.is_some() {
            return;
        }
        attempt.begins(head, self.request.method());
        let record = &mut self.log.attempts[attempt.record];
        (record.head, record.status) = (Some(now), Some(status.as_u16()));
        let is_error = status.is_client_error() || status.is_server_error();
        // Of a leg that is not the client's only success is of use.
        if !is_error && (is_last || status.is_success()) {
            return;
        }
        let failure = Failure::Status(status.as_u16());
        // A refusal that no other pod would change is the client's to read; so is the last one there is.
        let is_the_clients = is_last || status.is_client_error();
        if self.client.has_begun() || !is_the_clients {
            return self.fail(leg, failure, now);
        }
        if !self.fail_if_it_helps(leg, failure, now) {
            if let Some(attempt) = self.legs[leg].attempt_mut() {
                attempt.passes = true;
            }
            self.stop_others(leg, now);
        }
    }

    pub(super) fn on_chunk(&mut self, leg: usize, chunk: Bytes, now: Instant) {
        let (idle, answers) = (self.settings.config.idle, self.answers(leg));
        let Some(attempt) = self.legs[leg].attempt_mut() else { return };
        if chunk.is_empty() {
            // No bytes, and a sign of life all the same: a driver's, whose client was slow to take what came before.
            if attempt.received > 0 {
                attempt.due = now.checked_add(idle);
            }
            return;
        }
        if attempt.status.is_none() {
            return self.fail(leg, Failure::Cut("a body came without a head".into()), now);
        }
        let is_first = attempt.received == 0;
        attempt.received = attempt.received.saturating_add(chunk.len() as u64);
        // The timer is moved once. When it goes off after later chunks, it is told how things stand.
        attempt.due = now.checked_add(idle);
        if attempt.is_too_long() {
            return self.fail(leg, Failure::Cut("the answer is longer than it said".into()), now);
        }
        if let Some(events) = &mut attempt.events {
            events.pass(&chunk);
        }
        if is_first {
            let (id, due) = (attempt.id, attempt.due);
            self.log.attempts[attempt.record].first_byte = Some(now);
            self.actions.extend(due.map(|due| Action::Arm(TimerId::Attempt(id), due)));
            self.actions.extend(answers.then_some(Action::FirstByte(id)));
        }
        if !answers {
            self.keep(leg, &chunk, now);
        } else if self.client.has_begun() {
            self.look_for_error(leg, &chunk);
            self.forward(chunk, now);
        } else {
            self.open(leg, chunk, now);
        }
    }

    pub(super) fn on_end(&mut self, leg: usize, trailers: Option<HeaderMap>, now: Instant) {
        let answers = self.answers(leg);
        let Some(attempt) = self.legs[leg].attempt_mut() else { return };
        attempt.ended = true;
        if let Some(why) = attempt.missing() {
            return self.fail(leg, Failure::Cut(why.into()), now);
        }
        if !answers && attempt.begins_with_error() {
            return self.fail(leg, Failure::ErrorEvent, now);
        }
        let (id, pod, kept) = (attempt.id, attempt.pod, attempt.take_kept());
        if !answers {
            self.push(Action::FirstByte(id));
            self.stop(leg, Fate::Completed, now);
            return self.done(leg, pod, kept, now);
        }
        if !self.client.has_begun() {
            if self.wants_prefill(leg, &kept) == Some(true) {
                self.stop(leg, Fate::Completed, now);
                return self.prefill_after_all(now);
            }
            if let Err(error) = self.begin(leg) {
                return self.finish_with(error.into(), now);
            }
            self.forward(kept, now);
        }
        let rest = self.client.held_back();
        self.hand_on(rest, now);
        if self.is_over() {
            return;
        }
        if let Some(mut trailers) = trailers {
            strip_hop_by_hop(&mut trailers);
            self.push(Action::Trailers(trailers));
        }
        let status = self.legs[leg].attempt().and_then(|attempt| attempt.status).map_or(200, |status| status.as_u16());
        self.stop(leg, Fate::Completed, now);
        self.finish(Outcome::Completed(status), now);
    }

    pub(super) fn on_timer(&mut self, leg: usize, now: Instant) {
        let Some(attempt) = self.legs[leg].attempt() else { return };
        match attempt.due {
            // It is early: chunks came since it was armed.
            Some(due) if now < due => {
                let id = attempt.id;
                self.push(Action::Arm(TimerId::Attempt(id), due));
            }
            Some(_) if attempt.received > 0 => self.fail(leg, Failure::Idle, now),
            Some(_) if self.waits_for_silent_decode(leg) => self.fail_both(leg, now),
            Some(_) => self.fail(leg, Failure::Silent, now),
            None => {}
        }
    }

    /// Whether a leg prefills for one that is under way, meets it and has not said anything either.
    fn waits_for_silent_decode(&self, leg: usize) -> bool {
        let Some(last) = self.legs.len().checked_sub(1).filter(|_| self.is_concurrent()) else { return false };
        let is_silent = self.legs[last].attempt().is_some_and(|attempt| attempt.received == 0);
        is_silent && self.prefill_leg(last) == Some(leg)
    }

    /// Keeps a piece of an answer that is not the client's. Of engines that meet nobody reads it, but for how it begins.
    fn keep(&mut self, leg: usize, chunk: &[u8], now: Instant) {
        let (most, is_read) = (self.settings.config.most_kept, !self.is_concurrent());
        let Some(attempt) = self.legs[leg].attempt_mut() else { return };
        if !is_read {
            let left = MOST_HELD_BACK.saturating_sub(attempt.kept.len());
            return attempt.kept.extend_from_slice(&chunk[..chunk.len().min(left)]);
        }
        if chunk.len() > most.saturating_sub(attempt.kept.len()) {
            return self.fail(leg, Failure::TooLong, now);
        }
        attempt.kept.extend_from_slice(chunk);
    }

    /// Begins the client's answer, once what came of it is known to be neither a failure nor a wish for prefill.
    fn open(&mut self, leg: usize, mut chunk: Bytes, now: Instant) {
        let (most_kept, probing) = (self.settings.config.most_kept, self.probing);
        let Some(attempt) = self.legs[leg].attempt_mut() else { return };
        let is_asked = probing && !attempt.passes && !attempt.is_packed;
        if is_asked && attempt.events.is_none() && chunk.len() <= most_kept.saturating_sub(attempt.kept.len()) {
            // A document tells when it is whole.
            return attempt.kept.extend_from_slice(&chunk);
        }
        if !attempt.kept.is_empty() {
            attempt.kept.extend_from_slice(&chunk);
            chunk = attempt.take_kept();
        }
        if attempt.events.is_some() && !attempt.passes {
            match sse::opening(&chunk) {
                Opening::Unclear if chunk.len() < MOST_HELD_BACK => {
                    attempt.kept = chunk.into();
                    return;
                }
                Opening::Error => {
                    if self.fail_if_it_helps(leg, Failure::ErrorEvent, now) {
                        return;
                    }
                    if let Some(attempt) = self.legs[leg].attempt_mut() {
                        attempt.is_error = true;
                    }
                }
                _ => match self.wants_prefill(leg, &chunk) {
                    Some(true) => {
                        self.stop(leg, Fate::Cancelled, now);
                        return self.prefill_after_all(now);
                    }
                    None if chunk.len() < MOST_HELD_BACK => {
                        if let Some(attempt) = self.legs[leg].attempt_mut() {
                            attempt.kept = chunk.into();
                        }
                        return;
                    }
                    _ => {}
                },
            }
        }
        match self.begin(leg) {
            Ok(()) => {
                self.look_for_error(leg, &chunk);
                self.forward(chunk, now);
            }
            Err(error) => self.finish_with(error.into(), now),
        }
    }

    /// Takes note if a stream tells of an error in the midst of it. The client reads it as it is; the pod is judged by it.
    fn look_for_error(&mut self, leg: usize, chunk: &[u8]) {
        let attempt = self.legs[leg].attempt_mut().filter(|attempt| attempt.events.is_some() && !attempt.passes);
        if let Some(attempt) = attempt {
            attempt.is_error |= sse::tells_of_error(chunk);
        }
    }

    /// Whether a pod that was asked first says that it wants the prompt prefilled; none if that is not told yet.
    fn wants_prefill(&self, leg: usize, answer: &[u8]) -> Option<bool> {
        let asked = |attempt: &&Attempt| self.probing && !attempt.passes && !attempt.is_packed;
        let attempt = self.legs[leg].attempt().filter(asked);
        attempt.map_or(Some(false), |attempt| self.settings.handoff.wants_prefill(attempt.events.is_some(), answer))
    }

    /// Goes through the legs in order, now that the last one's pod said that it holds too little.
    fn prefill_after_all(&mut self, now: Instant) {
        self.probing = false;
        self.advance(now);
    }

    /// Begins the client's answer with a leg's head.
    fn begin(&mut self, leg: usize) -> Result<(), HookError> {
        let Some(attempt) = self.legs[leg].attempt_mut() else { return Ok(()) };
        let (pod, is_stream) = (attempt.pod, attempt.events.is_some());
        let is_changed = !attempt.passes && !attempt.is_packed;
        let Some(mut head) = attempt.head.take() else { return Ok(()) };
        // The pod was not asked in vain: it is not asked again.
        self.probing = false;
        let usage = if is_changed { self.usage_fix(is_stream) } else { None };
        strip_hop_by_hop(&mut head.headers);
        if usage.is_some() || is_stream || !self.hooks.is_empty() {
            // What is changed on the way may change its length, and so may an error at the end of a stream.
            head.headers.remove(CONTENT_LENGTH);
        }
        self.hooks.iter_mut().try_for_each(|hook| hook.at_head(pod, &mut head))?;
        self.client.begun = Some(Begun { events: is_stream.then(Boundary::default), usage });
        self.push(Action::Head(head));
        Ok(())
    }

    fn forward(&mut self, chunk: Bytes, now: Instant) {
        let chunk = match self.client.begun.as_mut().and_then(|begun| begun.usage.as_mut()) {
            Some(usage) if !chunk.is_empty() => usage.pass(chunk),
            _ => chunk,
        };
        self.hand_on(chunk, now);
    }

    /// Hands a piece to the client, through the hooks.
    fn hand_on(&mut self, chunk: Bytes, now: Instant) {
        match self.hooked(chunk) {
            Ok(chunk) if chunk.is_empty() => {}
            Ok(chunk) => {
                let action = self.client.forward(chunk);
                self.push(action);
            }
            Err(error) => self.finish_with(error.into(), now),
        }
    }

    /// A piece as the hooks want it; what is empty is not shown to them.
    fn hooked(&mut self, chunk: Bytes) -> Result<Bytes, HookError> {
        let mut hooks = self.hooks.iter_mut();
        hooks.try_fold(chunk, |chunk, hook| if chunk.is_empty() { Ok(chunk) } else { hook.at_chunk(chunk) })
    }

    /// Tells the client of an error: as its answer, as the last event of its stream, or by breaking off.
    pub(super) fn tell(&mut self, error: &RunError) {
        // What was held back is the client's, unless a hook minds.
        let rest = self.client.held_back();
        let rest = self.hooked(rest).unwrap_or_default();
        let action = match &mut self.client.begun {
            None => Action::Answer(error.answer(self.settings.config.retry_after)),
            Some(Begun { events: Some(events), .. }) => {
                events.pass(&rest);
                let mut last = rest.to_vec();
                sse::break_off(events, self.request.api, error.body().as_bytes(), &mut last);
                self.client.forwarded = self.client.forwarded.saturating_add(last.len() as u64);
                Action::Forward(last.into())
            }
            Some(Begun { events: None, .. }) => Action::Abort,
        };
        self.push(action);
    }
}
