//! The client's response: which leg it comes from, when it begins, and how it ends.

use std::time::Instant;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, response};

use super::Dispatch;
use super::attempt::Attempt;
use super::headers::strip_for_client;
use crate::action::{Action, TimerId};
use crate::error::DispatchError;
use crate::failure::Failure;
use crate::handoff::UsageFix;
use crate::hook::HookError;
use crate::report::{AttemptOutcome, DispatchOutcome};
use crate::sse::{self, Boundary, Opening};

/// The state of the client's response.
#[derive(Debug, Default)]
pub(super) struct ClientResponse {
    begun: Option<Begun>,
    pub(super) forwarded: u64,
}

#[derive(Debug)]
struct Begun {
    /// The event boundary of an SSE stream; `None` for other responses.
    events: Option<Boundary>,
    /// Corrects the `usage`, where the decode pod cannot know it.
    usage: Option<UsageFix>,
}

impl ClientResponse {
    pub(super) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Forwards a chunk.
    fn forward(&mut self, chunk: Bytes) -> Action {
        self.forwarded = self.forwarded.saturating_add(chunk.len() as u64);
        if let Some(events) = self.begun.as_mut().and_then(|begun| begun.events.as_mut()) {
            events.pass(&chunk);
        }
        Action::Forward(chunk)
    }

    /// The rest of what the correction of `usage` holds back.
    fn take_rest(&mut self) -> Bytes {
        let usage = self.begun.as_mut().and_then(|begun| begun.usage.as_mut());
        usage.map_or_else(Bytes::new, UsageFix::finish)
    }
}

/// Bytes of a stream that are held back, whatever the policy, until it is known not to begin with an error or a request for
/// prefill; beyond that it is forwarded. As much is buffered of a response of which only the beginning is parsed.
const MAX_OPENING_BYTES: usize = 16 << 10;

impl Dispatch {
    /// Whether a leg's response goes to the client.
    pub(super) fn is_forwarded(&self, leg: usize) -> bool {
        self.is_last(leg) || self.legs[leg].attempt().is_some_and(|attempt| attempt.passes_through)
    }

    pub(super) fn on_head(&mut self, leg: usize, head: response::Parts, now: Instant) {
        let (status, is_last) = (head.status, self.is_last(leg));
        let Some(attempt) = self.legs[leg].attempt_mut() else { return };
        // Informational responses are the transport's, and a second head is ignored.
        if status.is_informational() || attempt.answer.status.is_some() {
            return;
        }
        attempt.set_head(head, self.request.method());
        let record = &mut self.log.attempts[attempt.record];
        (record.head, record.status) = (Some(now), Some(status.as_u16()));
        if status.is_success() {
            return;
        }
        let failure = Failure::Status(status.as_u16());
        // An error that no other pod would change is forwarded, and so is the last candidate's. What is none, a redirect for one,
        // never is: it would name the pod's own address.
        let is_error = status.is_client_error() || status.is_server_error();
        let may_forward = is_error && (is_last || status.is_client_error());
        if self.client.has_begun() || !may_forward {
            return self.fail(leg, failure, now);
        }
        if !self.retry(leg, failure, now) {
            self.change_attempt(leg, |attempt| attempt.passes_through = true);
            self.stop_others(leg, now);
        }
    }

    pub(super) fn on_chunk(&mut self, leg: usize, chunk: Bytes, now: Instant) {
        let (idle_timeout, is_forwarded) = (self.config.policy.idle_timeout, self.is_forwarded(leg));
        let Some(attempt) = self.legs[leg].attempt_mut() else { return };
        if chunk.is_empty() {
            // Restarts the idle timeout: an executor sends this after its client was slow.
            if attempt.answer.received > 0 {
                attempt.due = now.checked_add(idle_timeout);
            }
            return;
        }
        if attempt.answer.status.is_none() {
            return self.fail(leg, Failure::Truncated("body without a head".into()), now);
        }
        let is_first = attempt.answer.received == 0;
        attempt.answer.pass(&chunk);
        // The timer is moved once. When it fires after later chunks, it is set to what is due then.
        attempt.due = now.checked_add(idle_timeout);
        if attempt.answer.exceeds_length() {
            return self.fail(leg, Failure::Truncated("longer than its content-length".into()), now);
        }
        if is_first {
            let (id, due) = (attempt.id, attempt.due);
            self.log.attempts[attempt.record].first_byte = Some(now);
            self.actions.extend(due.map(|due| Action::SetTimer(TimerId::Attempt(id), due)));
            self.actions.extend(is_forwarded.then_some(Action::FirstByte(id)));
        }
        if !is_forwarded {
            self.buffer(leg, &chunk, now);
        } else if self.client.has_begun() {
            self.scan_for_error(leg, &chunk);
            self.forward(chunk, now);
        } else {
            self.open(leg, chunk, now);
        }
    }

    pub(super) fn on_end(&mut self, leg: usize, trailers: Option<HeaderMap>, now: Instant) {
        let is_forwarded = self.is_forwarded(leg);
        let Some(attempt) = self.legs[leg].attempt_mut() else { return };
        attempt.ended = true;
        let must_be_done = is_forwarded && self.config.policy.require_done;
        if let Some(why) = attempt.answer.truncated(must_be_done) {
            return self.fail(leg, Failure::Truncated(why.into()), now);
        }
        if !is_forwarded && attempt.begins_with_error() {
            return self.fail(leg, Failure::ErrorEvent, now);
        }
        let (id, pod, buffered) = (attempt.id, attempt.pod, attempt.take_buffered());
        if !is_forwarded {
            self.push(Action::FirstByte(id));
            self.stop(leg, AttemptOutcome::Completed, now);
            return self.complete(leg, pod, buffered, now);
        }
        if !self.client.has_begun() {
            if self.wants_prefill(leg, &buffered) == Some(true) {
                self.stop(leg, AttemptOutcome::Completed, now);
                return self.prefill_after_all(now);
            }
            if let Err(error) = self.begin(leg) {
                return self.finish_with(error.into(), now);
            }
            self.forward(buffered, now);
        }
        let rest = self.client.take_rest();
        self.forward_hooked(rest, now);
        if self.is_over() {
            return;
        }
        if let Some(mut trailers) = trailers {
            strip_for_client(&mut trailers);
            self.push(Action::Trailers(trailers));
        }
        let status =
            self.legs[leg].attempt().and_then(|attempt| attempt.answer.status).map_or(200, |status| status.as_u16());
        self.stop(leg, AttemptOutcome::Completed, now);
        self.finish(DispatchOutcome::Completed(status), now);
    }

    pub(super) fn on_timer(&mut self, leg: usize, now: Instant) {
        if let Some(error) = self.bound_passed(now) {
            // Time that was up for the whole request is not the pod's.
            return self.finish_with(error, now);
        }
        let Some(attempt) = self.legs[leg].attempt() else { return };
        match attempt.due {
            // Chunks arrived since it was set.
            Some(due) if now < due => {
                let id = attempt.id;
                self.push(Action::SetTimer(TimerId::Attempt(id), due));
            }
            Some(_) if attempt.answer.received > 0 => self.fail(leg, Failure::IdleTimeout, now),
            Some(_) if self.waits_for_silent_decode(leg) => self.fail_pair(leg, now),
            Some(_) => self.fail(leg, Failure::FirstByteTimeout, now),
            None => {}
        }
    }

    /// Whether a leg prefills for a concurrent decode leg that has not responded either.
    fn waits_for_silent_decode(&self, leg: usize) -> bool {
        let Some(last) = self.legs.len().checked_sub(1).filter(|_| self.is_concurrent()) else { return false };
        let is_silent = self.legs[last].attempt().is_some_and(|attempt| attempt.answer.received == 0);
        is_silent && self.prefill_leg(last) == Some(leg)
    }

    /// Buffers a chunk that is not forwarded. Of concurrent legs only the beginning is parsed.
    fn buffer(&mut self, leg: usize, chunk: &[u8], now: Instant) {
        let (limit, is_concurrent) = (self.config.policy.max_buffered_bytes, self.is_concurrent());
        let Some(attempt) = self.legs[leg].attempt_mut() else { return };
        if is_concurrent {
            let left = MAX_OPENING_BYTES.saturating_sub(attempt.buffered.len());
            return attempt.buffered.extend_from_slice(&chunk[..chunk.len().min(left)]);
        }
        if chunk.len() > limit.saturating_sub(attempt.buffered.len()) {
            return self.fail(leg, Failure::ResponseTooLarge, now);
        }
        attempt.buffered.extend_from_slice(chunk);
    }

    /// Begins the client's response, once it is known to be neither a failure nor a request for prefill, and not before what can be
    /// had of another pod is whole: the first event of a stream, an answer of a known length. Until then a failure is retried.
    fn open(&mut self, leg: usize, mut chunk: Bytes, now: Instant) {
        let (limit, probing) = (self.config.policy.max_buffered_bytes, self.probing);
        let Some(attempt) = self.legs[leg].attempt_mut() else { return };
        let may_decline = probing && !attempt.passes_through && !attempt.answer.is_compressed;
        if may_decline && !attempt.answer.is_stream() && chunk.len() <= limit.saturating_sub(attempt.buffered.len()) {
            // A document is parsed when it is complete.
            return attempt.buffered.extend_from_slice(&chunk);
        }
        if !may_decline && attempt.is_held(limit) {
            attempt.held.push(chunk);
            if attempt.answer.length == Some(attempt.answer.received) {
                self.open_held(leg, now);
            }
            return;
        }
        if !attempt.buffered.is_empty() {
            attempt.buffered.extend_from_slice(&chunk);
            chunk = attempt.take_buffered();
        }
        if attempt.answer.is_stream() && !attempt.passes_through {
            if !attempt.first_event.is_whole(&chunk) && chunk.len() <= limit {
                attempt.buffered = chunk.into();
                return;
            }
            match sse::opening(&chunk) {
                Opening::Unclear if chunk.len() < MAX_OPENING_BYTES => {
                    attempt.buffered = chunk.into();
                    return;
                }
                Opening::Error => {
                    if self.retry(leg, Failure::ErrorEvent, now) {
                        return;
                    }
                    self.change_attempt(leg, |attempt| attempt.answer.has_error_event = true);
                }
                _ => match self.wants_prefill(leg, &chunk) {
                    Some(true) => {
                        self.stop(leg, AttemptOutcome::Cancelled, now);
                        return self.prefill_after_all(now);
                    }
                    None if chunk.len() < MAX_OPENING_BYTES => {
                        self.change_attempt(leg, |attempt| attempt.buffered = chunk.into());
                        return;
                    }
                    _ => {}
                },
            }
        }
        match self.begin(leg) {
            Ok(()) => {
                self.scan_for_error(leg, &chunk);
                self.forward(chunk, now);
            }
            Err(error) => self.finish_with(error.into(), now),
        }
    }

    /// Begins the client's response with an answer that is all there, in the chunks that it came in.
    fn open_held(&mut self, leg: usize, now: Instant) {
        let held = self.legs[leg].attempt_mut().map(|attempt| std::mem::take(&mut attempt.held)).unwrap_or_default();
        if let Err(error) = self.begin(leg) {
            return self.finish_with(error.into(), now);
        }
        for chunk in held {
            if !self.is_over() {
                self.forward(chunk, now);
            }
        }
    }

    /// Looks for an error event in a forwarded stream: it counts as the pod's failure.
    fn scan_for_error(&mut self, leg: usize, chunk: &[u8]) {
        if let Some(attempt) = self.legs[leg].attempt_mut().filter(|attempt| !attempt.passes_through) {
            attempt.answer.scan_for_error(chunk);
        }
    }

    /// Whether a decode pod that was sent its request first declines it for prefill; `None` if that is not known yet.
    fn wants_prefill(&self, leg: usize, response: &[u8]) -> Option<bool> {
        let may_decline = |attempt: &&Attempt| self.probing && !attempt.passes_through && !attempt.answer.is_compressed;
        let attempt = self.legs[leg].attempt().filter(may_decline);
        attempt.map_or(Some(false), |attempt| self.config.handoff.wants_prefill(attempt.answer.is_stream(), response))
    }

    /// Sends the legs in order, after the decode pod declined.
    fn prefill_after_all(&mut self, now: Instant) {
        self.probing = false;
        self.advance(now);
    }

    /// Begins the client's response with a leg's head.
    fn begin(&mut self, leg: usize) -> Result<(), HookError> {
        let Some(attempt) = self.legs[leg].attempt_mut() else { return Ok(()) };
        let (pod, is_stream) = (attempt.pod, attempt.answer.is_stream());
        let is_corrected = !attempt.passes_through && !attempt.answer.is_compressed;
        let Some(mut head) = attempt.head.take() else { return Ok(()) };
        // The pod did not decline.
        self.probing = false;
        let usage = if is_corrected { self.usage_fix(is_stream) } else { None };
        strip_for_client(&mut head.headers);
        if usage.is_some() || is_stream || !self.hooks.is_empty() {
            // Corrections and hooks may change the length, and so may an error event at the end of a stream.
            head.headers.remove(CONTENT_LENGTH);
        }
        let is_served = head.status.is_success();
        self.hooks.iter_mut().try_for_each(|hook| hook.on_response_head(pod, &mut head))?;
        if is_served {
            self.blame_others(None);
        }
        self.client.begun = Some(Begun { events: is_stream.then(Boundary::default), usage });
        self.push(Action::Head(head));
        Ok(())
    }

    fn forward(&mut self, chunk: Bytes, now: Instant) {
        let chunk = match self.client.begun.as_mut().and_then(|begun| begun.usage.as_mut()) {
            Some(usage) if !chunk.is_empty() => usage.pass(chunk),
            _ => chunk,
        };
        self.forward_hooked(chunk, now);
    }

    /// Forwards a chunk through the hooks.
    fn forward_hooked(&mut self, chunk: Bytes, now: Instant) {
        match self.hooked(chunk) {
            Ok(chunk) if chunk.is_empty() => {}
            Ok(chunk) => {
                let action = self.client.forward(chunk);
                self.push(action);
            }
            Err(error) => self.finish_with(error.into(), now),
        }
    }

    /// A chunk changed by the hooks, which do not get empty ones.
    fn hooked(&mut self, chunk: Bytes) -> Result<Bytes, HookError> {
        let mut hooks = self.hooks.iter_mut();
        hooks.try_fold(chunk, |chunk, hook| if chunk.is_empty() { Ok(chunk) } else { hook.on_chunk(chunk) })
    }

    /// Responds with an error: as the whole response, as the last event of a stream, or by aborting.
    pub(super) fn respond_error(&mut self, error: &DispatchError) {
        // What was held back is forwarded, unless a hook rejects it.
        let rest = self.client.take_rest();
        let rest = self.hooked(rest).unwrap_or_default();
        let action = match &mut self.client.begun {
            None => {
                let asked = self.log.retry_after.unwrap_or_default();
                Action::Respond(error.response(self.request.api, self.config.policy.retry_after.max(asked)))
            }
            Some(Begun { events: Some(events), .. }) => {
                events.pass(&rest);
                let mut last = rest.to_vec();
                sse::write_error(events, self.request.api, error.body(self.request.api).as_bytes(), &mut last);
                self.client.forwarded = self.client.forwarded.saturating_add(last.len() as u64);
                Action::Forward(last.into())
            }
            Some(Begun { events: None, .. }) => Action::Abort,
        };
        self.push(action);
    }
}
