//! Answer reader: what a pod's response says of itself as it passes: its tokens, its errors, and whether it is whole.

use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, header};

use crate::action::BreakerSample;
use crate::failure::Failure;
use crate::handoff::Api;
use crate::sse::{self, Boundary, LastEvent};
use crate::usage::{TokenUsage, UsageReader};

/// Reads a pod's response as it passes, in pieces of any size. Nothing is held back, and nothing is kept but a few figures.
///
/// Dispatches read every response by it; hosts that send requests themselves can, too.
///
/// # Examples
///
/// ```
/// use http::{HeaderMap, HeaderValue, Method, StatusCode};
/// use routing_exec::AnswerReader;
/// use routing_exec::handoff::Api;
///
/// let mut answer = AnswerReader::new(Api::Chat);
/// let stream = HeaderMap::from_iter([("content-type".parse()?, HeaderValue::from_static("text/event-stream"))]);
/// answer.head(StatusCode::OK, &stream, &Method::POST);
/// answer.chunk(b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"comple");
/// assert!(answer.whole().is_err(), "a stream of this API ends with [DONE]");
/// answer.chunk(b"tion_tokens\":3}}\n\ndata: [DONE]\n\n");
/// assert!(answer.whole().is_ok());
/// assert_eq!(answer.usage().and_then(|usage| usage.completion_tokens), Some(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AnswerReader {
    api: Api,
    pub(crate) status: Option<StatusCode>,
    /// The event boundary of an SSE stream; `None` for other responses.
    events: Option<Boundary>,
    /// Looks for the last event, where its kind tells.
    last_event: LastEvent,
    /// The announced `content-length`.
    pub(crate) length: Option<u64>,
    /// The announced `retry-after`, in seconds.
    pub(crate) retry_after: Option<Duration>,
    /// Bytes of its body that arrived.
    pub(crate) received: u64,
    usage: UsageReader,
    errors: sse::ErrorScan,
    /// Whether its stream had an error event that is not the request's own.
    pub(crate) has_error_event: bool,
    /// Whether it told of any error, the request's own too: engines may end a stream with it.
    told_error: bool,
    /// Whether it is compressed, so that it cannot be parsed.
    pub(crate) is_compressed: bool,
}

impl AnswerReader {
    /// Reads the response to a request of an API.
    #[must_use]
    pub fn new(api: Api) -> Self {
        Self {
            api,
            status: None,
            events: None,
            last_event: LastEvent::default(),
            length: None,
            retry_after: None,
            received: 0,
            usage: UsageReader::default(),
            errors: sse::ErrorScan::default(),
            has_error_event: false,
            told_error: false,
            is_compressed: false,
        }
    }

    /// Takes its status and its headers, with the method of the request.
    pub fn head(&mut self, status: StatusCode, headers: &HeaderMap, method: &Method) {
        let bodiless = method == Method::HEAD || matches!(status.as_u16(), 204 | 304);
        let length = headers.get(header::CONTENT_LENGTH).filter(|_| !bodiless);
        self.length = length.and_then(|length| length.to_str().ok()?.trim().parse().ok());
        let seconds = headers.get(header::RETRY_AFTER).and_then(|after| after.to_str().ok()?.trim().parse().ok());
        self.retry_after = seconds.map(Duration::from_secs);
        self.is_compressed = is_compressed(headers);
        self.events = (is_event_stream(headers) && !bodiless && !self.is_compressed).then(Boundary::default);
        self.status = Some(status);
    }

    /// Takes the next piece of its body.
    pub fn chunk(&mut self, chunk: &[u8]) {
        self.pass(chunk);
        self.scan_for_error(chunk);
    }

    /// Its status, once that came.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// Whether it is a stream of events.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.events.is_some()
    }

    /// What it told of its tokens, so far.
    #[must_use]
    pub fn usage(&self) -> Option<TokenUsage> {
        self.usage.found()
    }

    /// Whether it is whole, if nothing follows.
    ///
    /// # Errors
    ///
    /// How it was cut short: before its announced length, inside an event, without the end that streams of its API have.
    pub fn whole(&self) -> Result<(), Failure> {
        self.truncated(true).map_or(Ok(()), |why| Err(Failure::Truncated(why.into())))
    }

    /// What the pod's circuit breaker learns of it, now that it ended, with the time to its first byte; none where the request was at
    /// fault.
    #[must_use]
    pub fn sample(&self, first_byte: Option<Duration>) -> Option<BreakerSample> {
        match self.whole() {
            Ok(()) => self.sample_of_whole(first_byte),
            Err(failure) => Some(BreakerSample::Failure(failure)),
        }
    }

    /// The same of one that is whole.
    pub(crate) fn sample_of_whole(&self, first_byte: Option<Duration>) -> Option<BreakerSample> {
        if self.has_error_event {
            return Some(BreakerSample::Failure(Failure::ErrorEvent));
        }
        let status = self.status?;
        let failure = Failure::Status(status.as_u16());
        if failure.is_pushback() {
            return Some(BreakerSample::Overloaded(self.retry_after));
        }
        if failure.is_pod_fault() {
            return Some(BreakerSample::Failure(failure));
        }
        let is_requests_own = status.is_client_error() || status.is_server_error();
        (!is_requests_own).then_some(BreakerSample::Success(first_byte))
    }

    /// Takes a piece, but for errors in it.
    pub(crate) fn pass(&mut self, chunk: &[u8]) {
        self.received = self.received.saturating_add(chunk.len() as u64);
        if let Some(events) = &mut self.events {
            events.pass(chunk);
            self.last_event.pass(self.api.last_events(), chunk);
        }
        if !self.is_compressed {
            self.usage.pass(self.api, chunk);
        }
    }

    /// Looks for error events in a piece of a stream.
    pub(crate) fn scan_for_error(&mut self, chunk: &[u8]) {
        if self.events.is_some() {
            let told = self.errors.pass(chunk);
            self.has_error_event |= told.of_the_pod;
            self.told_error |= told.any;
        }
    }

    /// Whether it exceeds its announced length.
    pub(crate) fn exceeds_length(&self) -> bool {
        self.length.is_some_and(|length| self.received > length)
    }

    /// Why it is truncated, if nothing follows; `None` if it is whole. Whether a stream must have said that it is done is the caller's
    /// to know.
    pub(crate) fn truncated(&self, must_be_done: bool) -> Option<&'static str> {
        let Some(status) = self.status else { return Some("no response head") };
        if self.length.is_some_and(|length| self.received < length) {
            return Some("shorter than its content-length");
        }
        match &self.events {
            Some(_) if self.received == 0 && status.is_success() => Some("stream ended before its first event"),
            Some(events) if !events.is_whole() => Some("stream ended inside an event"),
            Some(_) if !must_be_done || !status.is_success() || self.told_error => None,
            Some(events) if self.api.ends_with_done() && !events.is_done() => Some("stream ended without [DONE]"),
            Some(_) if !self.api.last_events().is_empty() && !self.last_event.has_come() => {
                Some("stream ended without its last event")
            }
            _ => None,
        }
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(|kind| kind.as_bytes());
    let kind = kind.and_then(|kind| kind.get(..EVENT_STREAM.len()));
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM))
}

fn is_compressed(headers: &HeaderMap) -> bool {
    let encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    let mut encodings = encodings.flat_map(|encodings| encodings.as_bytes().split(|byte| *byte == b','));
    encodings.any(|encoding| {
        !matches!(encoding.trim_ascii(), b"") && !encoding.trim_ascii().eq_ignore_ascii_case(b"identity")
    })
}

const EVENT_STREAM: &[u8] = b"text/event-stream";

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};

    use super::*;

    fn read(api: Api, status: u16, headers: &[(header::HeaderName, &'static str)], body: &str) -> AnswerReader {
        let mut answer = AnswerReader::new(api);
        let headers = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        answer.head(StatusCode::from_u16(status).unwrap(), &headers, &Method::POST);
        body.as_bytes().chunks(5).for_each(|piece| answer.chunk(piece));
        answer
    }

    #[test]
    fn a_breaker_learns_what_a_dispatch_would_tell_it() {
        let stream = (CONTENT_TYPE, "text/event-stream");
        let success = || Some(BreakerSample::Success(None));
        let failed = |failure| Some(BreakerSample::Failure(failure));
        let cut = |why: &str| failed(Failure::Truncated(why.into()));
        let pushed_back = |seconds: Option<u64>| Some(BreakerSample::Overloaded(seconds.map(Duration::from_secs)));
        for (api, status, headers, body, sample) in [
            (Api::Chat, 200, vec![], "{}", success()),
            (Api::Chat, 200, vec![(CONTENT_LENGTH, "3")], "{}", cut("shorter than its content-length")),
            (Api::Chat, 200, vec![stream.clone()], "data: {}\n\ndata: [DONE]\n\n", success()),
            (Api::Chat, 200, vec![stream.clone()], "data: {}\n\n", cut("stream ended without [DONE]")),
            (Api::Chat, 200, vec![stream.clone()], "data: {}", cut("stream ended inside an event")),
            (Api::Chat, 200, vec![stream.clone()], "", cut("stream ended before its first event")),
            (Api::Messages, 200, vec![stream.clone()], "data: {}\n\n", cut("stream ended without its last event")),
            (Api::Other, 200, vec![stream.clone()], "data: {}\n\n", success()),
            (Api::Chat, 200, vec![stream], "data: {\"error\":{\"code\":500}}\n\n", failed(Failure::ErrorEvent)),
            (Api::Chat, 500, vec![], "x", failed(Failure::Status(500))),
            (Api::Chat, 503, vec![(RETRY_AFTER, "7")], "", pushed_back(Some(7))),
            (Api::Chat, 429, vec![], "", pushed_back(None)),
            (Api::Chat, 400, vec![], "", None),
            (Api::Chat, 404, vec![], "", None),
        ] {
            assert_eq!(read(api, status, &headers, body).sample(None), sample, "{status} {body}");
        }
        assert_eq!(AnswerReader::new(Api::Chat).sample(None), cut("no response head"));
    }
}
