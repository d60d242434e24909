//! Attempt: one request to one pod, in flight.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, StatusCode, header, response};
use routing_core::Pod;

use crate::action::{AttemptId, BreakerSample};
use crate::failure::Failure;
use crate::handoff::Api;
use crate::report::{AttemptOutcome, AttemptRecord};
use crate::sse::{self, Boundary, FirstEvent, LastEvent, Opening};
use crate::usage::UsageReader;

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) id: AttemptId,
    pub(super) pod: Pod,
    /// The index of its record.
    pub(super) record: usize,
    /// The status of its response.
    pub(super) status: Option<StatusCode>,
    /// The head of its response, until that is forwarded.
    pub(super) head: Option<response::Parts>,
    /// The event boundary of an SSE stream; `None` for other responses.
    pub(super) events: Option<Boundary>,
    /// Looks for the last event, where its kind tells.
    pub(super) last_event: LastEvent,
    /// The buffered body: all of it if it is not forwarded, else an incomplete first event.
    pub(super) buffered: Vec<u8>,
    /// Where the first event of an SSE stream ends.
    pub(super) first_event: FirstEvent,
    /// The chunks of an answer that goes to the client once all of it is there.
    pub(super) held: Vec<Bytes>,
    /// The announced `content-length`.
    pub(super) length: Option<u64>,
    /// The announced `retry-after`, in seconds.
    pub(super) retry_after: Option<Duration>,
    /// Bytes of its body that arrived.
    pub(super) received: u64,
    /// Reads the token usage as it passes.
    pub(super) usage: UsageReader,
    /// When its first-byte timeout started; `None` while it waits for another leg.
    pub(super) timed_from: Option<Instant>,
    /// When it times out; `None` while it waits for another leg.
    pub(super) due: Option<Instant>,
    /// Whether its response is forwarded unchanged: an error that no other pod would change.
    pub(super) passes_through: bool,
    /// Whether its stream had an error event.
    pub(super) has_error_event: bool,
    /// Whether it told of any error, the request's own too: engines may end a stream with it.
    pub(super) told_error: bool,
    /// Whether its response is compressed, so that it cannot be parsed.
    pub(super) is_compressed: bool,
    /// Whether its failure may be another pod's.
    pub(super) is_unattributable: bool,
    /// Whether its transport has ended.
    pub(super) ended: bool,
}

impl Attempt {
    pub(super) fn new(id: AttemptId, pod: Pod, record: usize) -> Self {
        Self {
            id,
            pod,
            record,
            status: None,
            head: None,
            events: None,
            last_event: LastEvent::default(),
            buffered: Vec::new(),
            first_event: FirstEvent::default(),
            held: Vec::new(),
            length: None,
            retry_after: None,
            received: 0,
            usage: UsageReader::default(),
            timed_from: None,
            due: None,
            passes_through: false,
            has_error_event: false,
            told_error: false,
            is_compressed: false,
            is_unattributable: false,
            ended: false,
        }
    }

    /// Takes the head of its response.
    pub(super) fn set_head(&mut self, head: response::Parts, method: &Method) {
        let bodiless = method == Method::HEAD || matches!(head.status.as_u16(), 204 | 304);
        let length = head.headers.get(header::CONTENT_LENGTH).filter(|_| !bodiless);
        self.length = length.and_then(|length| length.to_str().ok()?.trim().parse().ok());
        let seconds = head.headers.get(header::RETRY_AFTER).and_then(|after| after.to_str().ok()?.trim().parse().ok());
        self.retry_after = seconds.map(Duration::from_secs);
        self.is_compressed = is_compressed(&head);
        self.events = (is_event_stream(&head) && !bodiless && !self.is_compressed).then(Boundary::default);
        self.status = Some(head.status);
        self.head = Some(head);
    }

    /// Whether it exceeds its announced length.
    pub(super) fn exceeds_length(&self) -> bool {
        self.length.is_some_and(|length| self.received > length)
    }

    /// Whether its response is kept from the client until all of it is there: an answer whose length is known and within a limit.
    /// Half of it is of no use to anybody, and as long as nothing was sent another pod may be asked.
    pub(super) fn is_held(&self, limit: usize) -> bool {
        let fits = self.length.is_some_and(|length| usize::try_from(length).is_ok_and(|length| length <= limit));
        fits && self.events.is_none() && !self.passes_through
    }

    /// Whether the buffered stream begins with an error event.
    pub(super) fn begins_with_error(&self) -> bool {
        self.events.is_some() && sse::opening(&self.buffered) == Opening::Error
    }

    /// Why its response, which ended, is truncated; `None` if it is complete. Whether a stream of the API must have said that it is
    /// done is the caller's to know.
    pub(super) fn truncated(&self, api: Api, must_be_done: bool) -> Option<&'static str> {
        let Some(status) = self.status else { return Some("no response head") };
        if self.length.is_some_and(|length| self.received < length) {
            return Some("shorter than its content-length");
        }
        match &self.events {
            Some(_) if self.received == 0 && status.is_success() => Some("stream ended before its first event"),
            Some(events) if !events.is_whole() => Some("stream ended inside an event"),
            Some(_) if !must_be_done || !status.is_success() || self.told_error => None,
            Some(events) if api.ends_with_done() && !events.is_done() => Some("stream ended without [DONE]"),
            Some(_) if !api.last_events().is_empty() && !self.last_event.has_come() => {
                Some("stream ended without its last event")
            }
            _ => None,
        }
    }

    /// Takes the buffered body.
    pub(super) fn take_buffered(&mut self) -> Bytes {
        std::mem::take(&mut self.buffered).into()
    }

    /// The sample for its pod's breaker; `None` if it shows nothing of the pod: the request was at fault, another pod may be, or it
    /// was cancelled.
    ///
    /// Only a stream's first byte, and a prefill's response, measure a pod's latency: other responses take as long as their
    /// generation.
    pub(super) fn sample(
        &self,
        record: &AttemptRecord,
        outcome: &AttemptOutcome,
        is_last: bool,
    ) -> Option<BreakerSample> {
        match outcome {
            _ if self.is_unattributable => None,
            AttemptOutcome::Failed(failure) if failure.is_pushback() => {
                Some(BreakerSample::Overloaded(self.retry_after))
            }
            AttemptOutcome::Failed(failure) => failure.is_pod_fault().then(|| BreakerSample::Failure(failure.clone())),
            AttemptOutcome::Completed if self.has_error_event => Some(BreakerSample::Failure(Failure::ErrorEvent)),
            AttemptOutcome::Completed => {
                let failure = Failure::Status(self.status?.as_u16());
                if failure.is_pushback() {
                    return Some(BreakerSample::Overloaded(self.retry_after));
                }
                if failure.is_pod_fault() {
                    return Some(BreakerSample::Failure(failure));
                }
                if self.status?.is_client_error() || self.status?.is_server_error() {
                    return None;
                }
                let from = self.timed_from.filter(|_| !is_last || self.events.is_some());
                let first_byte =
                    from.zip(record.first_byte).and_then(|(from, first)| first.checked_duration_since(from));
                Some(BreakerSample::Success(first_byte))
            }
            _ => None,
        }
    }
}

fn is_event_stream(head: &response::Parts) -> bool {
    let kind = head.headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    let kind = kind.and_then(|kind| kind.get(..EVENT_STREAM.len()));
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM))
}

fn is_compressed(head: &response::Parts) -> bool {
    let encodings = head.headers.get_all(header::CONTENT_ENCODING).iter();
    let mut encodings = encodings.flat_map(|encodings| encodings.as_bytes().split(|byte| *byte == b','));
    encodings.any(|encoding| {
        !matches!(encoding.trim_ascii(), b"") && !encoding.trim_ascii().eq_ignore_ascii_case(b"identity")
    })
}

const EVENT_STREAM: &[u8] = b"text/event-stream";
