//! Attempts in flight, polled round-robin. Dropping one cancels it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::Body;

use super::transport::TransportError;
use crate::action::{AttemptId, Input};
use crate::failure::Failure;

/// The attempts in flight.
pub(super) struct Upstream<B> {
    live: Vec<InFlight<B>>,
    /// The first to poll, so that one that is always ready does not starve another.
    next: usize,
}

struct InFlight<B> {
    id: AttemptId,
    stage: Stage<B>,
}

enum Stage<B> {
    AwaitingHead(ResponseFuture<B>),
    /// The body, and whether any of it arrived.
    Streaming(Pin<Box<B>>, bool),
}

type ResponseFuture<B> = Pin<Box<dyn Future<Output = Result<Response<B>, TransportError>> + Send>>;

impl<B> Default for Upstream<B> {
    fn default() -> Self {
        Self { live: Vec::new(), next: 0 }
    }
}

impl<B: Body<Data = Bytes, Error: std::fmt::Display>> Upstream<B> {
    pub(super) fn send(&mut self, id: AttemptId, response: ResponseFuture<B>) {
        self.live.push(InFlight { id, stage: Stage::AwaitingHead(response) });
    }

    pub(super) fn cancel(&mut self, id: AttemptId) {
        self.live.retain(|live| live.id != id);
    }

    /// The next input of a pod. Pending only if all were polled.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(AttemptId, Input)> {
        for nth in 0..self.live.len() {
            let at = (self.next + nth) % self.live.len();
            let live = &mut self.live[at];
            let Poll::Ready(input) = live.poll(cx) else { continue };
            let id = live.id;
            self.next = at + 1;
            if matches!(input, Input::End(..) | Input::Failed(..)) {
                self.live.remove(at);
                self.next = at;
            }
            return Poll::Ready((id, input));
        }
        Poll::Pending
    }

    /// The attempts whose bodies have begun, which have idle timeouts.
    pub(super) fn begun(&self) -> impl Iterator<Item = AttemptId> {
        self.live.iter().filter(|live| matches!(live.stage, Stage::Streaming(_, true))).map(|live| live.id)
    }
}

impl<B: Body<Data = Bytes, Error: std::fmt::Display>> InFlight<B> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        let id = self.id;
        match &mut self.stage {
            Stage::AwaitingHead(response) => response.as_mut().poll(cx).map(|response| match response {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    self.stage = Stage::Streaming(Box::pin(body), false);
                    Input::Head(id, head)
                }
                Err(error) => Input::Failed(id, error.into()),
            }),
            // All of an announced length arrived: the end of the stream may take its time.
            Stage::Streaming(body, _) if body.is_end_stream() => Poll::Ready(Input::End(id, None)),
            Stage::Streaming(body, begun) => body.as_mut().poll_frame(cx).map(|frame| match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) => {
                        *begun |= !chunk.is_empty();
                        Input::Chunk(id, chunk)
                    }
                    Err(frame) => Input::End(id, frame.into_trailers().ok()),
                },
                Some(Err(error)) => Input::Failed(id, Failure::Truncated(error.to_string().into())),
                None => Input::End(id, None),
            }),
        }
    }
}
