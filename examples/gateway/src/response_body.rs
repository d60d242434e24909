//! Response body: streamed through, and truncated visibly at the drain timeout.
//!
//! Chunks are forwarded as they come. At the drain timeout an event stream ends with an error event in a frame of its own, and
//! any other body is aborted: neither looks complete.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use routing_exec::handoff::Api;

use super::app_state::Admission;
use super::error_response;
use super::stop_signal::Given;

/// A body that can be truncated.
pub(super) struct ResponseBody<B> {
    /// None once it was truncated.
    body: Option<B>,
    force_closed: Given,
    /// The API of an SSE stream; none if it is none.
    events_of: Option<Api>,
    /// The last two bytes forwarded.
    last: [u8; 2],
    /// Counted until the client has all of it, or is gone.
    _admission: Admission,
}

/// Why a body is incomplete.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponseBodyError {
    #[error("the response was truncated")]
    Upstream(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the gateway stopped before the response was complete")]
    Truncated,
}

impl<B> ResponseBody<B> {
    pub(super) fn new(body: B, admission: Admission, force_closed: Given, events_of: Option<Api>) -> Self {
        Self { body: Some(body), force_closed, events_of, last: *b"\n\n", _admission: admission }
    }

    /// The end of a truncated body.
    fn truncate(&mut self) -> Result<Frame<Bytes>, ResponseBodyError> {
        // Dropped, it cancels its pod.
        self.body = None;
        let Some(api) = self.events_of else { return Err(ResponseBodyError::Truncated) };
        let apart = if self.last == *b"\n\n" { "" } else { "\n\n" };
        // Clients of other APIs than completions know an error by the event's name.
        let (kind, end) = if api.ends_with_done() { ("", "data: [DONE]\n\n") } else { ("event: error\n", "") };
        let text = format!("{apart}{kind}data: {}\n\n{end}", error_response::draining().json_for(api));
        Ok(Frame::data(Bytes::from(text)))
    }

    fn note_last(&mut self, data: &[u8]) {
        match data {
            [.., before, last] => self.last = [*before, *last],
            [only] => self.last = [self.last[1], *only],
            [] => {}
        }
    }
}

impl<B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static> + Unpin> Body for ResponseBody<B> {
    type Data = Bytes;
    type Error = ResponseBodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseBodyError>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        if this.force_closed.is_given() {
            return Poll::Ready(Some(this.truncate()));
        }
        match Pin::new(body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    this.note_last(data);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(other) => {
                Poll::Ready(other.map(|frame| frame.map_err(|error| ResponseBodyError::Upstream(Box::new(error)))))
            }
            Poll::Pending => match Pin::new(&mut this.force_closed).poll(cx) {
                Poll::Ready(()) => Poll::Ready(Some(this.truncate())),
                Poll::Pending => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), |body| body.size_hint())
    }
}
