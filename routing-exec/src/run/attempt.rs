//! One request to one pod, while it is under way.

use std::time::Instant;

use bytes::Bytes;
use http::{Method, StatusCode, header, response};
use routing_core::Pod;

use crate::action::{AttemptId, Verdict};
use crate::failure::Failure;
use crate::record::{AttemptRecord, Fate};
use crate::sse::{self, Boundary, Opening};

#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) id: AttemptId,
    pub(super) pod: Pod,
    /// Its place in the log.
    pub(super) record: usize,
    /// The status of its answer, once that began.
    pub(super) status: Option<StatusCode>,
    /// The head of its answer, until that goes to the client.
    pub(super) head: Option<response::Parts>,
    /// Where its stream of events stands; none if its answer is no such stream.
    pub(super) events: Option<Boundary>,
    /// What is kept of an answer: all, if it is not streamed, else what came of a first event that is not whole.
    pub(super) kept: Vec<u8>,
    /// How long its answer says it is.
    pub(super) length: Option<u64>,
    /// How much of its answer came.
    pub(super) received: u64,
    /// When its time to a first byte began; none while it waits for another leg.
    pub(super) clock: Option<Instant>,
    /// When it is given up; none while it waits for another leg.
    pub(super) due: Option<Instant>,
    /// Whether its answer is what the client gets, as it is: a refusal that no other pod would change.
    pub(super) passes: bool,
    /// Whether its answer is an error within a stream that began well.
    pub(super) is_error: bool,
    /// Whether its answer is packed, and so nothing that can be read here.
    pub(super) is_packed: bool,
    /// Whether its failure may be another's.
    pub(super) is_blameless: bool,
    /// Whether nothing more comes of it.
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
            kept: Vec::new(),
            length: None,
            received: 0,
            clock: None,
            due: None,
            passes: false,
            is_error: false,
            is_packed: false,
            is_blameless: false,
            ended: false,
        }
    }

    /// Takes in the head of its answer.
    pub(super) fn begins(&mut self, head: response::Parts, method: &Method) {
        let bodiless = method == Method::HEAD || matches!(head.status.as_u16(), 204 | 304);
        let length = head.headers.get(header::CONTENT_LENGTH).filter(|_| !bodiless);
        self.length = length.and_then(|length| length.to_str().ok()?.trim().parse().ok());
        self.is_packed = is_packed(&head);
        self.events = (is_event_stream(&head) && !bodiless && !self.is_packed).then(Boundary::default);
        self.status = Some(head.status);
        self.head = Some(head);
    }

    /// Whether more came than its answer said there would be.
    pub(super) fn is_too_long(&self) -> bool {
        self.length.is_some_and(|length| self.received > length)
    }

    /// Whether what was kept of its answer is a stream that begins with an error.
    pub(super) fn begins_with_error(&self) -> bool {
        self.events.is_some() && sse::opening(&self.kept) == Opening::Error
    }

    /// Why its answer, which ended, is not whole; none if it is.
    pub(super) fn missing(&self) -> Option<&'static str> {
        let Some(status) = self.status else { return Some("the answer had no head") };
        if self.length.is_some_and(|length| self.received < length) {
            return Some("the answer is shorter than it said");
        }
        match &self.events {
            Some(_) if self.received == 0 && status.is_success() => Some("the stream ended before its first event"),
            Some(events) if !events.is_whole() => Some("the stream ended inside an event"),
            _ => None,
        }
    }

    /// What was kept of its answer.
    pub(super) fn take_kept(&mut self) -> Bytes {
        std::mem::take(&mut self.kept).into()
    }

    /// What its pod's breaker should think; none if it shows nothing: the pod was full, the request was at fault, another pod
    /// may be, or it was given up.
    ///
    /// Only a stream's first byte, and a prefill's answer, tell how quick a pod is: an answer that comes whole takes as
    /// long as it is long.
    pub(super) fn verdict(&self, record: &AttemptRecord, fate: &Fate, answers: bool) -> Option<Verdict> {
        match fate {
            _ if self.is_blameless => None,
            Fate::Failed(failure) => failure.is_the_pods().then(|| Verdict::Bad(failure.clone())),
            Fate::Completed if self.is_error => Some(Verdict::Bad(Failure::ErrorEvent)),
            Fate::Completed => {
                let failure = Failure::Status(self.status?.as_u16());
                if failure.is_the_pods() {
                    return Some(Verdict::Bad(failure));
                }
                if self.status?.is_client_error() || self.status?.is_server_error() {
                    return None;
                }
                let tells = !answers || self.events.is_some();
                let clock = self.clock.filter(|_| tells).zip(record.first_byte).filter(|(clock, first)| first >= clock);
                Some(clock.map_or(Verdict::Answered, |(clock, first)| Verdict::Good(first.duration_since(clock))))
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

fn is_packed(head: &response::Parts) -> bool {
    let encodings = head.headers.get_all(header::CONTENT_ENCODING).iter();
    let mut encodings = encodings.flat_map(|encodings| encodings.as_bytes().split(|byte| *byte == b','));
    encodings.any(|encoding| {
        !matches!(encoding.trim_ascii(), b"") && !encoding.trim_ascii().eq_ignore_ascii_case(b"identity")
    })
}

const EVENT_STREAM: &[u8] = b"text/event-stream";
