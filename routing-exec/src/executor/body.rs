//! Response body: reading it drives the dispatch (backpressure).

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use routing_core::DEFAULT_POD_WORDS;

use super::deadlines::Watch;
use super::execution::{Event, Execution};
use super::host::DispatchHost;
use super::transport::{Timer, Transport};

/// The body of a client's response. Dropped before its end, it cancels what is in flight.
///
/// A pod is read from only while this is polled, so a slow client slows its pod down; the time it takes does not count
/// towards the pod's idle timeout. Dropping the body of a client that stopped reading is up to the server; what holds for it
/// without a poll is the request's total timeout, where the executor has [`Deadlines`](crate::Deadlines).
pub struct DispatchBody<T: Transport, C: Timer, H: DispatchHost, const W: usize = DEFAULT_POD_WORDS> {
    state: State<T, C, H, W>,
    /// The rest of an announced `content-length`.
    left: Option<u64>,
    /// A frame behind the last announced byte, trailers for example.
    lookahead: Option<Result<Frame<Bytes>, ResponseTruncated>>,
}

enum State<T: Transport, C: Timer, H: DispatchHost, const W: usize> {
    Whole(Bytes),
    Streaming {
        execution: Arc<Mutex<Execution<T, C, H, W>>>,
        /// Over its deadline, for as long as it is read.
        _watch: Option<Watch>,
    },
    Ended,
}

/// The response was truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response ended before it was complete")]
#[non_exhaustive]
pub struct ResponseTruncated;

impl<T: Transport, C: Timer, H: DispatchHost, const W: usize> DispatchBody<T, C, H, W> {
    pub(super) fn streaming(execution: Arc<Mutex<Execution<T, C, H, W>>>, length: Option<u64>) -> Self {
        let is_over = execution.lock().is_over();
        let watch = if is_over { None } else { Execution::watch(&execution) };
        let state = if is_over { State::Ended } else { State::Streaming { execution, _watch: watch } };
        Self { state, left: length, lookahead: None }
    }

    pub(super) fn whole(whole: Bytes) -> Self {
        let left = Some(whole.len() as u64);
        let state = if whole.is_empty() { State::Ended } else { State::Whole(whole) };
        Self { state, left, lookahead: None }
    }

    /// Reads one frame behind the last announced byte.
    ///
    /// A server that has sent all of an announced length drops the body without another poll: a dispatch whose pod has not yet
    /// ended its response would end as cancelled by the client.
    fn read_ahead(&mut self, cx: &mut Context<'_>) {
        if self.left != Some(0) {
            return;
        }
        if let Poll::Ready(next) = self.poll_streaming(cx) {
            self.lookahead = next;
        }
    }

    fn poll_streaming(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ResponseTruncated>>> {
        let State::Streaming { execution, .. } = &self.state else { return Poll::Ready(None) };
        let mut execution = execution.lock();
        let frame = loop {
            match execution.poll_event(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Event::Chunk(chunk)) => break Some(Ok(Frame::data(chunk))),
                Poll::Ready(Event::Trailers(trailers)) => break Some(Ok(Frame::trailers(*trailers))),
                Poll::Ready(Event::Abort) => break Some(Err(ResponseTruncated)),
                Poll::Ready(Event::Over) => break None,
                // There is one head, and it was returned.
                Poll::Ready(Event::Head(_) | Event::Respond(_)) => {}
            }
        };
        // The end is known without another poll, and what the dispatch held is released.
        let is_over = execution.is_over();
        drop(execution);
        if is_over || matches!(frame, None | Some(Err(_))) {
            self.state = State::Ended;
        }
        Poll::Ready(frame)
    }
}

impl<T: Transport, C: Timer, H: DispatchHost, const W: usize> Body for DispatchBody<T, C, H, W> {
    type Data = Bytes;
    type Error = ResponseTruncated;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ResponseTruncated>>> {
        if let Some(frame) = self.lookahead.take() {
            return Poll::Ready(Some(frame));
        }
        let frame = match &mut self.state {
            State::Ended => return Poll::Ready(None),
            State::Streaming { .. } => match self.poll_streaming(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => return Poll::Pending,
            },
            State::Whole(whole) => {
                let whole = std::mem::take(whole);
                self.state = State::Ended;
                Some(Ok(Frame::data(whole)))
            }
        };
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        if let (Some(left), Some(data)) = (self.left, data) {
            // A response that exceeds its announced length has none.
            self.left = left.checked_sub(data.len() as u64);
            self.read_ahead(cx);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.lookahead.is_none() && matches!(self.state, State::Ended)
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.state, self.left) {
            (State::Ended, _) => SizeHint::with_exact(0),
            (_, Some(left)) => SizeHint::with_exact(left),
            (_, None) => SizeHint::default(),
        }
    }
}

impl<T: Transport, C: Timer, H: DispatchHost, const W: usize> fmt::Debug for DispatchBody<T, C, H, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatchBody").field("ended", &self.is_end_stream()).field("left", &self.left).finish()
    }
}
