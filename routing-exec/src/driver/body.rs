//! The client's answer as a body: reading it carries the run on.

use routing_core::DEFAULT_POD_WORDS;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::execution::{Event, Execution};
use super::host::{Host, Timer, Transport};

/// A client's answer. Dropped before its end, it cancels what is under way.
///
/// A pod is read from only while this is polled, so a client that reads slowly slows its pod down; the time it takes is
/// not held against the pod. A client that stops reading for good is the server's to end, by dropping this.
pub struct RunBody<T: Transport, C: Timer, H: Host, const W: usize = DEFAULT_POD_WORDS> {
    answer: Answer<T, C, H, W>,
    /// How much is left of an answer that said how long it is.
    left: Option<u64>,
    /// What came right behind the last byte of an answer that said how long it is, trailers for example.
    ahead: Option<Result<Frame<Bytes>, BrokenOff>>,
}

enum Answer<T: Transport, C: Timer, H: Host, const W: usize> {
    /// It is whole already.
    Whole(Bytes),
    Running(Box<Execution<T, C, H, W>>),
    Over,
}

/// The answer broke off: what came is not all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off before it was complete")]
#[non_exhaustive]
pub struct BrokenOff;

impl<T: Transport, C: Timer, H: Host, const W: usize> RunBody<T, C, H, W> {
    pub(super) fn streaming(execution: Box<Execution<T, C, H, W>>, length: Option<u64>) -> Self {
        let answer = if execution.is_over() { Answer::Over } else { Answer::Running(execution) };
        Self { answer, left: length, ahead: None }
    }

    pub(super) fn whole(whole: Bytes) -> Self {
        let left = Some(whole.len() as u64);
        let answer = if whole.is_empty() { Answer::Over } else { Answer::Whole(whole) };
        Self { answer, left, ahead: None }
    }

    /// Reads on behind the last byte that was announced.
    ///
    /// A server that has sent all of an announced length asks no more and drops the body: a run that is complete but for its
    /// pod's last word would end as one whose client left.
    fn look_ahead(&mut self, cx: &mut Context<'_>) {
        if self.left != Some(0) {
            return;
        }
        if let Poll::Ready(next) = self.poll_running(cx) {
            self.ahead = next;
        }
    }

    fn poll_running(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let Answer::Running(execution) = &mut self.answer else { return Poll::Ready(None) };
        let frame = loop {
            match execution.poll_event(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Event::Chunk(chunk)) => break Some(Ok(Frame::data(chunk))),
                Poll::Ready(Event::Trailers(trailers)) => break Some(Ok(Frame::trailers(*trailers))),
                Poll::Ready(Event::Broken) => break Some(Err(BrokenOff)),
                Poll::Ready(Event::Over) => break None,
                // There is one head, and it is out.
                Poll::Ready(Event::Head(_) | Event::Answer(_)) => {}
            }
        };
        // Whoever asks now is told of the end without another poll, and what the run held is let go.
        if execution.is_over() || matches!(frame, None | Some(Err(_))) {
            self.answer = Answer::Over;
        }
        Poll::Ready(frame)
    }
}

impl<T: Transport, C: Timer, H: Host, const W: usize> Body for RunBody<T, C, H, W> {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if let Some(frame) = self.ahead.take() {
            return Poll::Ready(Some(frame));
        }
        let frame = match &mut self.answer {
            Answer::Over => return Poll::Ready(None),
            Answer::Running(_) => match self.poll_running(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending => return Poll::Pending,
            },
            Answer::Whole(whole) => {
                let whole = std::mem::take(whole);
                self.answer = Answer::Over;
                Some(Ok(Frame::data(whole)))
            }
        };
        let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
        if let (Some(left), Some(data)) = (self.left, data) {
            // An answer that is longer than it said has no length.
            self.left = left.checked_sub(data.len() as u64);
            self.look_ahead(cx);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.ahead.is_none() && matches!(self.answer, Answer::Over)
    }

    fn size_hint(&self) -> SizeHint {
        match (&self.answer, self.left) {
            (Answer::Over, _) => SizeHint::with_exact(0),
            (_, Some(left)) => SizeHint::with_exact(left),
            (_, None) => SizeHint::default(),
        }
    }
}

impl<T: Transport, C: Timer, H: Host, const W: usize> fmt::Debug for RunBody<T, C, H, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunBody").field("over", &self.is_end_stream()).field("left", &self.left).finish()
    }
}
