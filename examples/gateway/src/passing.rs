//! An answer on its way to the client.
//!
//! Pieces pass as they come. When a drain has waited long enough, a stream of events ends with an error event of its own
//! frame, and any other answer breaks off: neither looks complete.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::answer::Refusal;
use super::shared::Admission;

/// A body that can be cut.
pub(super) struct Passing<B> {
    /// None once it was cut.
    body: Option<B>,
    cut: CancellationToken,
    cutting: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Whether it is a stream of events.
    is_events: bool,
    /// The last two bytes that passed.
    last: [u8; 2],
    /// Counted until the client has all of it, or is gone.
    _admission: Admission,
}

/// Why an answer has no end.
#[derive(Debug, thiserror::Error)]
pub(super) enum PassingError {
    #[error("the response was truncated")]
    Truncated(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the gateway stopped before the answer was complete")]
    Cut,
}

impl<B> Passing<B> {
    pub(super) fn new(body: B, admission: Admission, cut: CancellationToken, is_events: bool) -> Self {
        let cutting = Box::pin(cut.clone().cancelled_owned());
        Self { body: Some(body), cut, cutting, is_events, last: *b"\n\n", _admission: admission }
    }

    /// The end of an answer that was cut.
    fn ending(&mut self) -> Result<Frame<Bytes>, PassingError> {
        // Dropped, it cancels its pod.
        self.body = None;
        if !self.is_events {
            return Err(PassingError::Cut);
        }
        let apart = if self.last == *b"\n\n" { "" } else { "\n\n" };
        let text = format!("{apart}data: {}\n\ndata: [DONE]\n\n", Refusal::draining().json());
        Ok(Frame::data(Bytes::from(text)))
    }

    fn passed(&mut self, data: &[u8]) {
        match data {
            [.., before, last] => self.last = [*before, *last],
            [only] => self.last = [self.last[1], *only],
            [] => {}
        }
    }
}

impl<B: Body<Data = Bytes, Error: std::error::Error + Send + Sync + 'static> + Unpin> Body for Passing<B> {
    type Data = Bytes;
    type Error = PassingError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, PassingError>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        if this.cut.is_cancelled() {
            return Poll::Ready(Some(this.ending()));
        }
        match Pin::new(body).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    this.passed(data);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(other) => {
                Poll::Ready(other.map(|frame| frame.map_err(|error| PassingError::Truncated(Box::new(error)))))
            }
            Poll::Pending => match this.cutting.as_mut().poll(cx) {
                Poll::Ready(()) => Poll::Ready(Some(this.ending())),
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
